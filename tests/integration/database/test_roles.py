"""Roles of PostgreSQL: an owner's role reaches its own instances only, and no other role becomes Sexton's."""

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import create_engine, text

from sexton import contract
from sexton.contract import InstanceNotRegistered, NewMark
from sexton.database import roles, schema
from sexton.database.engine import Database
from sexton.database.guard import UnknownInstance
from sexton.interfaces.cli.doctor.stored import access_problems
from sexton.interfaces.selftest import run as run_race
from sexton.kernel.errors import BadInput
from sexton.owners.catalog import tables
from sexton.owners.plugin import OwnerContext
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.owner import SqlOwner
from tests.servers.postgres import Cluster
from tests.support.rig import DEPLOYMENT, Rig

MARK = "INSERT INTO sexton.mark (instance, kind, id, vault, prefix) VALUES (:i, 'dropped', 'x', 'disk', 'x/')"
SERVICE = """
GRANT USAGE ON SCHEMA sexton TO {0};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sexton TO {0};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sexton TO {0};
"""
POLICIES = """
CREATE POLICY service ON sexton.mark TO {0} USING (true);
CREATE POLICY service ON sexton.mark_history TO {0} USING (true);
"""
# An operator and a function whose argument types fit a query with a varchar parameter better than pg_catalog's.
PLANTED = """
CREATE TABLE public.ran (who text);
GRANT INSERT ON public.ran TO PUBLIC;
CREATE FUNCTION public.same(a text, b varchar) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.ran VALUES (current_user); RETURN a OPERATOR(pg_catalog.=) b::text; END $$;
CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = public.same);
CREATE FUNCTION public.lower(a varchar) RETURNS text LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.ran VALUES (current_user); RETURN pg_catalog.lower(a::text); END $$;
"""


@pytest.fixture
def rig(rig: Rig) -> Iterator[Rig]:
    """Instances ``shop`` and ``blog``, each with a mark ``t``."""
    rig.instance("blog")
    for instance in ("shop", "blog"):
        rig.mark("dropped", NewMark(id="t", vault="disk", prefix="t/"), instance=instance)
        with rig.db.write() as c:
            contract.prepare(c, instance, "load", ["p"], "disk", ["p/"], 60)
    yield rig
    with rig.db.write() as c:
        c.exec_driver_sql("DROP POLICY IF EXISTS service ON sexton.mark")
        c.exec_driver_sql("DROP POLICY IF EXISTS service ON sexton.mark_history")


@pytest.fixture
def create_role(rig: Rig) -> Iterator[Callable[..., str]]:
    """A function that creates a role and returns its name; at the end the roles are dropped with their rights."""
    names: list[str] = []

    def create(more: str = "") -> str:
        names.append(f"r_{secrets.token_hex(4)}")
        rig.sql(f"CREATE ROLE {names[-1]} LOGIN {more}")
        return names[-1]

    yield create
    for name in names:
        rig.sql(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


@pytest.fixture
def app(rig: Rig, create_role: Callable[..., str]) -> str:
    """A role with the contract's grants and without an instance."""
    role = create_role()
    roles.grant(rig.url, role)
    return role


def url_of(rig: Rig, role: str) -> str:
    return rig.url.replace("postgres@", f"{role}@")


def test_an_insert_reads_the_grants_once(rig: Rig, app: str) -> None:
    roles.grant_instance(rig.db, "shop", app)
    insert = MARK.replace("VALUES (:i, 'dropped', 'x'", "SELECT 'shop', 'dropped', 'm-' || n").replace(
        "'disk', 'x/')", "'disk', 'm/' || n || '/' FROM generate_series(1, 1000) n"
    )

    engine = create_engine(url_of(rig, app))
    with engine.begin() as c:
        plan = c.execute(text(f"EXPLAIN (ANALYZE) {insert}")).scalars().all()
    engine.dispose()

    assert rig.count("mark", instance="shop") == 1002
    assert [line.split()[0] for line in plan if "InitPlan" in line] == ["InitPlan"]


def test_a_member_inherits_an_instance_and_a_definer_lends_none(
    rig: Rig, app: str, create_role: Callable[..., str]
) -> None:
    roles.grant_instance(rig.db, "shop", app)
    member, stranger = create_engine(url_of(rig, create_role(f"IN ROLE {app}"))), create_role()
    body = "LANGUAGE sql SECURITY DEFINER AS $$ SELECT sexton.commit('shop', ARRAY['p']) $$"
    rig.sql(f"CREATE FUNCTION public.of_app() RETURNS integer {body}")
    rig.sql(f"ALTER FUNCTION public.of_app() OWNER TO {app}; GRANT USAGE ON SCHEMA public TO {stranger}, {app}")

    refused = pytest.raises(psycopg.Error, match=f"SX004 instance shop is not granted to role {stranger}")
    with psycopg.connect(url_of(rig, stranger).replace("+psycopg", "")) as c, refused:
        c.execute("SELECT public.of_app()")
    with member.begin() as c:
        contract.undrop(c, "shop", "dropped", ["t"])
    with member.connect() as c, pytest.raises(InstanceNotRegistered):
        contract.undrop(c, "blog", "dropped", ["t"])

    member.dispose()
    assert rig.row("dropped", "t") is None


def test_a_grant_needs_an_instance_and_a_role(rig: Rig, app: str, create_role: Callable[..., str]) -> None:
    with pytest.raises(UnknownInstance, match="unknown instance wiki"):
        roles.grant_instance(rig.db, "wiki", app)
    with pytest.raises(BadInput, match="there is no role nobody; create it first"):
        roles.grant_instance(rig.db, "shop", "nobody")
    with pytest.raises(BadInput, match="first run: sexton init --grant-to"):
        roles.grant_instance(rig.db, "shop", create_role())
    with pytest.raises(BadInput, match="is not granted to role"):
        roles.revoke_instance(rig.db, "shop", app)
    for _ in "12":
        roles.grant_instance(rig.db, "shop", app)
    assert roles.granted_roles(rig.db) == {"shop": [app]}


def test_a_new_role_of_a_dropped_roles_name_has_no_grant(rig: Rig, app: str) -> None:
    def lost_grants() -> list[str]:
        with rig.db.read() as c:
            return [problem for problem in access_problems(roles.read_access(c)) if "granted" in problem]

    def prepare(id_: str) -> None:
        with psycopg.connect(url_of(rig, app).replace("+psycopg", "")) as c:
            contract.prepare(c, "shop", "load", [id_], "disk", ["r/"], 60)

    roles.grant_instance(rig.db, "shop", app)
    prepare("before")
    assert lost_grants() == []
    rig.sql(f"DROP OWNED BY {app}; DROP ROLE {app}; CREATE ROLE {app} LOGIN")
    roles.grant(rig.url, app)

    with pytest.raises(InstanceNotRegistered, match=f"SX004 .* {app}"):
        prepare("dropped")
    assert lost_grants() == [f"instances are granted to roles that were dropped: shop to {app}"]

    roles.grant_instance(rig.db, "shop", app)
    prepare("again")
    assert lost_grants() == []


@pytest.mark.slow
def test_a_lock_that_another_role_holds_is_named(rig: Rig, app: str) -> None:
    creations: dict[int, Callable[[], None]] = {
        schema.SCHEMA_LOCK: lambda: schema.init(rig.url, DEPLOYMENT),
        tables.CREATE_LOCK: lambda: tables.create(rig.db),
    }
    for key, create in creations.items():
        with psycopg.connect(url_of(rig, app).replace("+psycopg", "")) as mallory:
            mallory.execute("SELECT pg_advisory_lock(%s)", (key,))
            pid = mallory.info.backend_pid

            with pytest.raises(schema.SchemaError, match=f"session {pid} of role {app} .*pg_terminate_backend"):
                create()
        create()

    with rig.db.read() as c:
        assert c.execute(text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")).scalar_one() == 0


def test_a_service_role_needs_no_ownership(rig: Rig, create_role: Callable[..., str]) -> None:
    service = create_role()
    rig.sql(SERVICE.format(service))
    db = Database.open(url_of(rig, service))
    with pytest.raises(schema.SchemaError, match="row-level security hides marks"):
        schema.check(db, DEPLOYMENT)

    rig.sql(POLICIES.format(service))
    schema.check(db, DEPLOYMENT)
    race = run_race(db, marks=200, threads=2)
    with db.read() as c:
        assert c.execute(text("SELECT count(*) FROM sexton.mark")).scalar_one() == 4
        plan = c.execute(text("EXPLAIN SELECT * FROM sexton.mark WHERE instance = 'shop'")).scalars().all()
    db.close()
    assert not any("granted" in line or "InitPlan" in line for line in plan)
    assert race.clean


def test_planted_operators_and_functions_never_run(rig: Rig, create_role: Callable[..., str]) -> None:
    mallory = create_role()
    rig.sql(f"GRANT CREATE, USAGE ON SCHEMA public TO {mallory}")
    with psycopg.connect(url_of(rig, mallory).replace("+psycopg", "")) as c:
        c.execute(PLANTED.encode())

    assert rig.registry.instance("shop").id == "shop"
    rig.round(after=10_801)
    with rig.db.write() as c:
        contract.undrop(c, "blog", "dropped", ["t"])
        assert c.execute(text("SELECT lower('A'::varchar)")).scalar_one() == "a"

    with rig.db.read() as c:
        assert c.execute(text("SELECT count(*) FROM public.ran")).scalar_one() == 0


def test_every_function_of_the_schema_fixes_its_path(rig: Rig) -> None:
    query = "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'sexton'::regnamespace"
    with rig.db.read() as c:
        functions = c.execute(text(query)).all()

    assert [f.proname for f in functions if "search_path=pg_catalog, pg_temp" not in (f.proconfig or [])] == []
    assert len(functions) == 18


def test_a_temporary_view_is_never_the_live_view(rig: Rig, create_role: Callable[..., str]) -> None:
    mallory = create_role()
    with psycopg.connect(url_of(rig, mallory).replace("+psycopg", ""), autocommit=True) as c:
        c.execute("CREATE TEMPORARY VIEW sexton_live AS SELECT text 'k' AS kind, 'i' AS id, 'v' AS vault, 'x' AS key")

        assert SqlOwner(OwnerContext(rig.db, rig.registry)).live_objects("shop") is None
        rig.registry.set_live_view("shop", "public.sexton_live")
        with pytest.raises(OwnerSilent, match="sexton_live does not exist"):
            SqlOwner(OwnerContext(rig.db, rig.registry)).live_objects("shop")


def test_init_refuses_a_schema_of_another_role(rig: Rig, postgres: Cluster, create_role: Callable[..., str]) -> None:
    mallory, url = create_role(), postgres.create_database()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as c:
        c.execute(f"CREATE SCHEMA sexton AUTHORIZATION {mallory}".encode())
        c.execute(f"CREATE SCHEMA sexton_catalog AUTHORIZATION {mallory}".encode())

        for attempt in (lambda: schema.init(url, DEPLOYMENT), lambda: schema.take(url)):
            with pytest.raises(schema.SchemaError, match=f"schema sexton belongs to role {mallory}"):
                attempt()
        with pytest.raises(errors.RaiseException, match="schema sexton belongs to another role"):
            c.execute(schema.sql().encode())
        c.execute("ROLLBACK")
        made = "SELECT count(*) FROM pg_class WHERE relnamespace = 'sexton'::regnamespace"
        assert c.execute(made.encode()).fetchone() == (0,)
    postgres.drop_database(url)


def test_doctor_reports_who_can_act_as_sexton(rig: Rig, app: str, create_role: Callable[..., str]) -> None:
    service, other = create_role(), create_role()
    rig.sql((SERVICE + POLICIES).format(service))
    roles.grant_instance(rig.db, "shop", app)
    db = Database.open(url_of(rig, service))

    def found(db: Database) -> str:
        with db.read() as c:
            return "; ".join(access_problems(roles.read_access(c)))

    assert found(db) == ""
    assert found(rig.db) == "Sexton's role postgres is a superuser"
    for grant, detail in {
        f"CREATE ON SCHEMA sexton TO {other}": f"CREATE on schema sexton to {other}",
        "CREATE ON SCHEMA sexton TO PUBLIC": "CREATE on schema sexton to PUBLIC",
        f"TRIGGER ON sexton.mark TO {other}": f"TRIGGER on sexton.mark to {other}",
        "UPDATE ON sexton.clock TO PUBLIC": "UPDATE on sexton.clock to PUBLIC",
        f"DELETE ON sexton.mark TO {app}": f"DELETE on sexton.mark to {app}",
        "EXECUTE ON FUNCTION sexton.commit TO PUBLIC": "EXECUTE on sexton.commit to PUBLIC",
    }.items():
        rig.sql(f"GRANT {grant}")
        assert found(db) == f"other roles can change what Sexton trusts: {detail}"
        rig.sql(f"REVOKE {grant.replace(' TO ', ' FROM ')}")
    rig.sql(f"ALTER FUNCTION sexton.commit OWNER TO {other}")
    assert found(db) == "sexton.commit not owned by postgres, as their schema is"
    rig.sql("ALTER FUNCTION sexton.commit OWNER TO postgres")
    rig.sql(f"ALTER SCHEMA sexton OWNER TO {app}")
    assert f"schema sexton belongs to {app}, to which instances are granted" in found(db)
    rig.sql("ALTER SCHEMA sexton OWNER TO postgres")
    db.close()
