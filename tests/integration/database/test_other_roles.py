"""What a role of PostgreSQL leaves behind or holds gives nothing to others, and blocks no command without a word."""

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import create_engine, text

from sexton import contract
from sexton.contract import InstanceNotRegistered
from sexton.database import roles, schema
from sexton.interfaces.cli.doctor.stored import access_problems
from sexton.owners.catalog import tables
from tests.support.rig import DEPLOYMENT, Rig

CREATES: dict[int, Callable[[Rig], None]] = {
    schema.SCHEMA_LOCK: lambda rig: schema.init(rig.url, DEPLOYMENT),
    tables.CREATE_LOCK: lambda rig: tables.create(rig.db),
}


@pytest.fixture
def role(rig: Rig) -> Iterator[str]:
    """A role to which the instance ``shop`` is granted."""
    name = f"r_{secrets.token_hex(4)}"
    create(rig, name)
    roles.grant_instance(rig.db, "shop", name)
    yield name
    drop(rig, name)


def create(rig: Rig, name: str) -> None:
    rig.sql(f"CREATE ROLE {name} LOGIN")
    roles.grant(rig.url, name)


def drop(rig: Rig, name: str) -> None:
    rig.sql(f"DROP OWNED BY {name}; DROP ROLE {name}")


def prepare(rig: Rig, role: str) -> None:
    engine = create_engine(rig.url.replace("postgres@", f"{role}@"))
    try:
        with engine.begin() as c:
            contract.prepare(c, "shop", "load", [secrets.token_hex(4)], "disk", ["r/"], 60)
    finally:
        engine.dispose()


def lost_grants(rig: Rig) -> str:
    with rig.db.read() as c:
        problems = access_problems(roles.read_access(c))
    return "; ".join(problem for problem in problems if "granted" in problem)


def test_a_new_role_of_a_dropped_roles_name_has_no_grant(rig: Rig, role: str) -> None:
    prepare(rig, role)
    assert lost_grants(rig) == ""
    drop(rig, role)
    create(rig, role)

    with pytest.raises(InstanceNotRegistered, match=f"SX004 .* {role}"):
        prepare(rig, role)
    assert lost_grants(rig) == f"instances are granted to roles that were dropped: shop to {role}"

    roles.grant_instance(rig.db, "shop", role)
    prepare(rig, role)
    assert lost_grants(rig) == ""


@pytest.mark.slow
def test_a_lock_that_another_role_holds_is_named(rig: Rig, role: str) -> None:
    url = rig.url.replace("postgres@", f"{role}@").replace("+psycopg", "")
    for key, create_tables in CREATES.items():
        with psycopg.connect(url) as mallory:
            mallory.execute("SELECT pg_advisory_lock(%s)", (key,))
            pid = mallory.info.backend_pid

            with pytest.raises(schema.SchemaError, match=f"session {pid} of role {role} .*pg_terminate_backend"):
                create_tables(rig)

        create_tables(rig)
    with rig.db.read() as c:
        assert c.execute(text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")).scalar_one() == 0
