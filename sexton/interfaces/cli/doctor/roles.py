"""Check the database's roles: can another role act as Sexton's, or change what Sexton's role runs?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from sexton.database.roles import SchemaAccess
    from sexton.runtime.stores import DeploymentStores

MAX_NAMED = 5


def examine_roles(stores: "DeploymentStores") -> Iterator[DoctorFinding]:
    """Yield the findings about PostgreSQL's roles."""
    from sexton.database.roles import read_access

    with stores.db.read() as c:
        access = read_access(c)
    problems = list(access_problems(access))
    if problems:
        yield DoctorFinding("FAIL", "roles", "; ".join(p.detail for p in problems), "; ".join(p.todo for p in problems))
    else:
        detail = f"{access.role} is no superuser, and no other role can write what it trusts"
        yield DoctorFinding("OK", "roles", detail)


def access_problems(access: "SchemaAccess") -> Iterator[DoctorFinding]:
    """Yield each way in which another role could act as Sexton's, or see to it that marks are not seen."""
    from sexton.database.session import SEARCH_PATH

    role, owner = access.role, access.schema_owner
    if access.is_superuser:
        todo = "let Sexton log in as a role of its own, which owns schema sexton"
        yield _fault(f"Sexton's role {role} is a superuser", todo)
    if owner in access.owner_roles:
        yield _fault(f"schema sexton belongs to {owner}, to which instances are granted", "ALTER SCHEMA … OWNER TO")
    if access.foreign_objects:
        names = ", ".join(access.foreign_objects[:MAX_NAMED])
        yield _fault(f"{names} not owned by {owner}, as their schema is", f"find out why; ALTER … OWNER TO {owner}")
    if access.writers:
        names = ", ".join(access.writers[:MAX_NAMED])
        yield _fault(f"other roles can change what Sexton trusts: {names}", "REVOKE these privileges")
    if access.lost_grants:
        names = ", ".join(f"{instance} to {lost}" for instance, lost in access.lost_grants[:MAX_NAMED])
        todo = "sexton instance revoke INSTANCE ROLE; for a new role of that name, or after a restore: instance grant"
        yield _fault(f"instances are granted to roles that were dropped: {names}", todo)
    if access.search_path.replace(" ", "") != SEARCH_PATH:
        todo = f"let the pooler pass options, or: ALTER ROLE {role} SET search_path = {SEARCH_PATH}"
        yield _fault(f"sessions find names in {access.search_path}, not only in {SEARCH_PATH}", todo)


def _fault(detail: str, todo: str) -> DoctorFinding:
    return DoctorFinding("FAIL", "roles", detail, todo)
