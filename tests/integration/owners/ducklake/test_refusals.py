"""What an attached lake refuses, because a file could be deleted under one name while another one needs it."""

import shutil
from pathlib import Path

import pytest

from examples.demo.duckdb_client import DuckDbError
from tests.integration.owners.ducklake.test_attachment import ScriptFailed, execute, run_script
from tests.support.lake import AttachedLake

pytestmark = pytest.mark.slow

Capsys = pytest.CaptureFixture[str]


def add(lake: AttachedLake, name: str, path: object) -> None:
    lake.db.run(f"CALL ducklake_add_data_files('lake', '{name}', '{path}')")


def link_to(lake: AttachedLake) -> Path:
    """Make a link to the data path beside it, and return it."""
    link = lake.data.parent / "link"
    link.symlink_to(lake.data, target_is_directory=True)
    return link


def linked_file(lake: AttachedLake) -> str:
    """Register a file of table ``t`` in table ``twin`` through a link; return its key."""
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE twin(range BIGINT)")
    [key] = lake.listed("t")
    add(lake, "twin", link_to(lake) / key)
    return key


@pytest.mark.parametrize("spelling", ["{d}//d/shared.parquet", "{d}/./d/shared.parquet", "{d}/d/../d/shared.parquet"])
def test_a_path_of_two_spellings_is_not_registered(lake: AttachedLake, spelling: str) -> None:
    (lake.data / "d").mkdir()
    lake.db.run(f"COPY (FROM range(10)) TO '{lake.data}/d/shared.parquet'", "CREATE TABLE t(range BIGINT)")

    with pytest.raises(DuckDbError, match="SX006 a file that may have two paths"):
        add(lake, "t", spelling.format(d=lake.data))

    add(lake, "t", f"{lake.data}/d/shared.parquet")
    assert lake.db.sql("SELECT len(list(t)) FROM t") == [[10]]


@pytest.mark.parametrize("waits", [False, True], ids=["in a table", "marked"])
def test_a_link_to_a_file_of_the_lake_is_not_registered(lake: AttachedLake, waits: bool) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE twin(range BIGINT)")
    [key] = lake.listed("t")
    if waits:
        lake.db.run("DROP TABLE t")
        lake.db.expire()

    with pytest.raises(DuckDbError, match="give a copy another name"):
        add(lake, "twin", link_to(lake) / key)


@pytest.mark.parametrize("ending", ["-delete.parquet", ".puffin", "-delete.puffin"])
def test_a_uuid_with_another_ending_is_not_registered(lake: AttachedLake, ending: str) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE twin(range BIGINT)")
    [key] = lake.listed("t")
    copy = lake.data / key.replace(".parquet", ending)
    shutil.copy(lake.data / key, copy)

    with pytest.raises(DuckDbError, match="give a copy another name"):
        lake.db.sql(f"CALL ducklake_add_data_files('lake', 'twin', '{copy}')")


def test_a_lake_with_two_paths_of_a_file_is_not_attached(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    linked_file(lake)

    refused, printed = lake.command(capsys, "attach"), lake.command(capsys, "attach", "--print-sql")

    assert (refused.code, lake.command(capsys, "status").code) == (1, 1)
    assert "two paths" in refused.err
    with pytest.raises(ScriptFailed, match="each_file_has_one_path"):
        run_script(lake, printed.out, "--variable=ON_ERROR_ROLLBACK=on")
    assert lake.command(capsys, "status").code == 1
    # Without this line psql goes on after an error, and commits the other statements.
    assert printed.out.startswith("\\set ON_ERROR_STOP on\n")


def test_a_file_in_the_folder_of_sexton_is_not_registered(lake: AttachedLake) -> None:
    lake.db.run(f"COPY (FROM range(10)) TO '{lake.data}/_sexton/own.parquet'", "CREATE TABLE t(range BIGINT)")

    with pytest.raises(DuckDbError, match="is in _sexton/"):
        add(lake, "t", lake.data / "_sexton" / "own.parquet")


def test_a_file_that_no_mark_can_name_is_not_registered(lake: AttachedLake) -> None:
    lake.db.run(
        "CREATE TABLE t(a BIGINT, p VARCHAR, q VARCHAR, r VARCHAR, s VARCHAR, u VARCHAR)",
        "ALTER TABLE t SET PARTITIONED BY (p, q, r, s, u)",
        "CREATE TABLE other AS FROM range(10)",
    )
    long = f"'{'東' * 22}'"  # nine bytes each in the name of a directory

    with pytest.raises(DuckDbError, match="1024 bytes"):
        lake.db.sql(f"INSERT INTO t SELECT range, {', '.join([long] * 5)} FROM range(50)")
    lake.db.run("DROP TABLE other", "DROP TABLE t")
    lake.db.expire()

    assert len(lake.marks()) == 1


def test_a_refused_vault_leaves_the_lake_attached(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached.attach(capsys, enable=False)
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE old AS FROM range(10)", "DROP TABLE old")
    lake.db.expire()

    refused = lake.command(capsys, "attach", "--vault", "other")
    detached = lake.command(capsys, "detach")
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")

    assert (refused.code, detached.code) == (1, 0)
    assert lake.files() == lake.listed("t")


def test_a_transaction_from_before_the_attach_is_refused(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE again(range BIGINT)")
    [key] = lake.listed("t")
    lake.db.run("DROP TABLE t")
    lake.db.expire()
    with lake.another() as old:
        old.run("BEGIN", f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")
        lake.attach(capsys)
        report = lake.round()

        with pytest.raises(DuckDbError, match="SX001 collected"):
            old.run("COMMIT")

    assert report.deleted == 1
    assert lake.db.sql("SELECT coalesce(len(list(again)), 0) FROM again") == [[0]]


def test_detach_does_not_list_a_file_that_is_live(lake: AttachedLake, capsys: Capsys) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)")
    [key] = lake.listed("t")
    lake.rig.sql(
        "INSERT INTO {}mark (instance, kind, id, vault, keys, owner_txn) "
        "VALUES ('shop', 'dropped', 'file-9', 'lake', :keys, '9')",
        keys=f'["{key}"]',
    )

    detached = lake.command(capsys, "detach")
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")

    assert (detached.code, lake.marks(), lake.files()) == (0, {}, {key})


def test_the_retention_begins_when_the_last_reference_ends(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)")
    [key] = lake.listed("t")
    uuid = key[-44:-8]
    lake.rig.sql(
        "INSERT INTO {}mark (instance, kind, id, vault, keys) VALUES ('shop', 'dropped', :id, 'lake', :keys)",
        id=uuid,
        keys=f'["{key}"]',
    )
    lake.rig.later(20_000)
    lake.db.run("DROP TABLE t")
    lake.db.expire()

    early, late = lake.round(60), lake.round()

    assert (early.deleted, late.deleted) == (0, 1)


def test_the_lakes_own_option_is_back_after_detaching(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    lake.db.run("CALL lake.set_option('delete_older_than', '7 days')")
    for verb in ("attach", "attach", "detach"):
        assert lake.command(capsys, verb).code == 0

    option = "SELECT value FROM lake.ducklake_metadata WHERE key = 'delete_older_than'"
    with lake.rig.db.read() as c:
        assert c.exec_driver_sql(option).scalars().all() == ["7 days"]


def test_a_file_can_be_added_again_after_a_detach_and_attach(lake: AttachedLake, capsys: Capsys) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE old AS FROM range(5)", "DROP TABLE old")
    lake.db.expire()
    for verb in ("detach", "attach"):
        assert lake.command(capsys, verb).code == 0

    assert lake.round().deleted == 1
    assert lake.files() == lake.listed("t")


def test_an_orphan_is_not_registered_through_a_link(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE twin(range BIGINT)")
    with lake.another() as writer:
        writer.run("BEGIN", "INSERT INTO t FROM range(5)")
        writer.kill()
    [orphan] = lake.files() - lake.listed("t")

    with pytest.raises(DuckDbError, match="SX006"):
        add(lake, "twin", link_to(lake) / orphan)


def test_a_listed_file_that_a_link_names_is_not_marked(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    linked_file(lake)
    lake.db.run("DROP TABLE t")
    lake.db.expire()

    assert lake.command(capsys, "attach").code == 1
    assert lake.db.sql("SELECT len(list(twin)) FROM twin") == [[10]]


def test_a_trigger_of_another_role_is_refused(lake: AttachedLake, capsys: Capsys) -> None:
    execute(lake, "DROP ROLE IF EXISTS mallory")
    execute(lake, "CREATE ROLE mallory")
    for statement in (
        "GRANT USAGE, CREATE ON SCHEMA lake TO mallory",
        "GRANT TRIGGER ON lake.ducklake_metadata TO mallory",
    ):
        execute(lake, statement)
    execute(
        lake,
        "SET LOCAL ROLE mallory; CREATE FUNCTION lake.evil() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NULL; END'; CREATE TRIGGER evil AFTER INSERT ON lake.ducklake_metadata "
        "FOR EACH STATEMENT EXECUTE FUNCTION lake.evil()",
    )

    refused = lake.command(capsys, "attach")
    execute(lake, "DROP OWNED BY mallory CASCADE; DROP ROLE mallory")

    assert refused.code == 1
    assert "has its triggers" in refused.err


@pytest.mark.parametrize("verb", ["attach", "status", "detach"])
@pytest.mark.parametrize("how", ["view", "owner"])
def test_no_code_of_the_lake_runs_as_sexton(lake: AttachedLake, capsys: Capsys, verb: str, how: str) -> None:
    execute(lake, "DROP ROLE IF EXISTS lake_owner")
    execute(lake, "CREATE ROLE lake_owner LOGIN")
    if how == "view":
        execute(lake, "ALTER TABLE lake.ducklake_metadata RENAME TO hidden")
        execute(lake, "CREATE VIEW lake.ducklake_metadata AS SELECT * FROM lake.hidden")
    else:
        execute(lake, "ALTER TABLE lake.ducklake_metadata OWNER TO lake_owner")

    refused = lake.command(capsys, verb)
    execute(lake, "DROP OWNED BY lake_owner CASCADE")
    execute(lake, "DROP ROLE lake_owner")

    assert refused.code == 1
    assert "ducklake_metadata of schema lake belongs to another role, is no table, or has its triggers" in refused.err
