"""Check the database's roles: can another role act as Sexton's, or change what Sexton's role runs?

Can the functions of an owner's live view do so?
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from sexton.database.live_role import LiveRole
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
    yield _live_logins(stores)


def _live_logins(stores: "DeploymentStores") -> DoctorFinding:
    """Return whether the owners' live views are read with logins of their own, which can write nothing."""
    from sexton.operators.registry.store import names_a_view

    names = [i.id for i in stores.registry.instances() if names_a_view(i)]
    if not names and (not stores.db.has_live_login or stores.db.has_live_login_each):
        return DoctorFinding("OK", "live login", "not needed: no instance names a live view")
    if not stores.db.has_live_login:
        detail = (
            f"functions of the live views of {', '.join(names)} run as Sexton's own role: they can read all that it "
            "can, and only read-only transactions keep them from writing"
        )
        return DoctorFinding("WARN", "live login", detail, "set live_database_url: docs/integration.md")
    roles, problems = [], []
    for instance in names if stores.db.has_live_login_each else [""]:
        role, found = _examine_live_login(stores, instance)
        roles.append(role)
        problems += found
    if problems:
        details, todos = (dict.fromkeys(texts) for texts in zip(*problems, strict=True))
        return DoctorFinding("FAIL", "live login", "; ".join(details), "; ".join(todos))
    if not stores.db.has_live_login_each and len(owners := _owners(stores, names)) > 1:
        detail = (
            f"{roles[0]} reads the live views of several owners ({', '.join(owners[:MAX_NAMED])}): code that one of "
            "them gets to run as this login can read the others' views, and end its sessions"
        )
        todo = "a login for each: live_database_url = postgresql://{instance}_reader@HOST/NAME (docs/integration.md)"
        return DoctorFinding("WARN", "live login", detail, todo)
    shown = ", ".join(roles[:MAX_NAMED]) + (", …" if len(roles) > MAX_NAMED else "")
    return DoctorFinding("OK", "live login", f"live views are read as {shown}, which can write nothing")


def _examine_live_login(stores: "DeploymentStores", instance: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the role that reads an instance's live view, and what is wrong with it."""
    from sexton.database.engine import AWAY, first_line
    from sexton.database.live_role import read_live_role
    from sexton.owners.port import OwnerSilent
    from sexton.owners.sql.live_sessions import reading

    try:
        with reading(stores.db, instance) as live, stores.db.read() as own:
            access = read_live_role(own, live)
    except (OwnerSilent, *AWAY) as e:
        detail = str(e) if isinstance(e, OwnerSilent) else first_line(e)
        views = f"the live view of {instance}" if instance else "live views"
        return "", [(f"{views} cannot be read: {detail}", "correct live_database_url")]
    return access.role, list(live_role_problems(access))


def _owners(stores: "DeploymentStores", names: Sequence[str]) -> list[str]:
    """Return the roles to which these instances are granted; an instance without any is its own."""
    from sexton.database.roles import granted_roles

    granted = granted_roles(stores.db)
    return sorted({"+".join(sorted(granted.get(name, ()))) or name for name in names})


def live_role_problems(access: "LiveRole") -> Iterator[tuple[str, str]]:
    """Yield each way in which a function of a live view could change Sexton's rows, and what to do about it."""
    from sexton.database.session import SEARCH_PATH

    role = access.role
    if access.is_own:
        yield f"{role} is Sexton's own role or a member of it", "let live_database_url name a role of its own"
    if access.attributes:
        yield f"{role} is {', '.join(access.attributes)}", f"ALTER ROLE {role} NO…"
    if access.owned:
        names = ", ".join(access.owned[:MAX_NAMED])
        yield f"{role} owns, or is a member of the owner of, {names}", "let live_database_url name a role of its own"
    if access.rights:
        yield f"{role} has {', '.join(access.rights[:MAX_NAMED])}", f"REVOKE these privileges from {role}"
    pooler = "let the pooler pass options to live_database_url"
    if access.read_only != "on":
        yield "its transactions are not read-only by default", pooler
    if access.search_path.replace(" ", "") != SEARCH_PATH:
        yield f"its sessions find names in {access.search_path}, not only in {SEARCH_PATH}", pooler


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
