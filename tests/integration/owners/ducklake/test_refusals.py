"""What an attached lake refuses, because a file could be deleted under one name while another one needs it."""

import secrets
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


def test_a_path_that_may_hide_a_file_is_not_registered(lake: AttachedLake) -> None:
    link, two_paths, other_name = link_to(lake), "SX006 a file that may have two paths", "give a copy another name"
    (lake.data / "d").mkdir()
    lake.db.run(f"COPY (FROM range(10)) TO '{lake.data}/d/shared.parquet'", "CREATE TABLE t(range BIGINT)")
    lake.db.run(f"COPY (FROM range(10)) TO '{lake.data}/_sexton/own.parquet'")
    lake.db.run("CREATE TABLE live AS FROM range(10)", "CREATE TABLE old AS FROM range(10)")
    [key], [marked] = lake.listed("live"), lake.listed("old")
    lake.run_and_expire("DROP TABLE old")
    endings = [key.replace(".parquet", ending) for ending in ("-delete.parquet", ".puffin", "-delete.puffin")]
    for copy in endings:
        shutil.copy(lake.data / key, lake.data / copy)

    for path, says in (
        (f"{lake.data}//d/shared.parquet", two_paths),
        (f"{lake.data}/./d/shared.parquet", two_paths),
        (f"{lake.data}/d/../d/shared.parquet", two_paths),
        (link / key, other_name),
        (link / marked, other_name),
        *((lake.data / copy, other_name) for copy in endings),
        (lake.data / "_sexton" / "own.parquet", "is in _sexton/"),
    ):
        with pytest.raises(DuckDbError, match=says):
            add(lake, "t", path)
    add(lake, "t", f"{lake.data}/d/shared.parquet")
    assert lake.db.sql("SELECT len(list(t)) FROM t") == [[10]]


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
    lake.run_and_expire("DROP TABLE t")
    assert lake.command(capsys, "attach").code == 1
    assert lake.db.sql("SELECT len(list(twin)) FROM twin") == [[10]]


def test_a_file_that_no_mark_can_name_is_not_registered(lake: AttachedLake) -> None:
    lake.db.run(
        "CREATE TABLE t(a BIGINT, p VARCHAR, q VARCHAR, r VARCHAR, s VARCHAR, u VARCHAR)",
        "ALTER TABLE t SET PARTITIONED BY (p, q, r, s, u)",
        "CREATE TABLE other AS FROM range(10)",
    )
    long = f"'{'東' * 22}'"  # nine bytes each in the name of a directory

    with pytest.raises(DuckDbError, match="1024 bytes"):
        lake.db.sql(f"INSERT INTO t SELECT range, {', '.join([long] * 5)} FROM range(50)")
    lake.run_and_expire("DROP TABLE other", "DROP TABLE t")

    assert len(lake.marks()) == 1


def test_a_transaction_from_before_the_attach_is_refused(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE again(range BIGINT)")
    [key] = lake.listed("t")
    lake.run_and_expire("DROP TABLE t")
    with lake.another() as old:
        old.run("BEGIN", f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")
        lake.attach(capsys)
        report = lake.round()

        with pytest.raises(DuckDbError, match="SX001 collected"):
            old.run("COMMIT")

    assert report.deleted == 1
    assert lake.db.sql("SELECT coalesce(len(list(again)), 0) FROM again") == [[0]]


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
    lake.run_and_expire("DROP TABLE t")

    early, late = lake.round(60), lake.round()

    assert (early.deleted, late.deleted) == (0, 1)


RENAMED = "ALTER TABLE lake.{} RENAME TO {}"
FOREIGN = [
    (
        "GRANT USAGE, CREATE ON SCHEMA lake TO mallory; GRANT TRIGGER ON lake.ducklake_metadata TO mallory; "
        "SET LOCAL ROLE mallory; CREATE FUNCTION lake.evil() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NULL; END'; CREATE TRIGGER evil AFTER INSERT ON lake.ducklake_metadata "
        "FOR EACH STATEMENT EXECUTE FUNCTION lake.evil()",
        "DROP OWNED BY mallory CASCADE",
    ),
    (
        f"{RENAMED.format('ducklake_metadata', 'hidden')}; "
        "CREATE VIEW lake.ducklake_metadata AS SELECT * FROM lake.hidden",
        f"DROP VIEW lake.ducklake_metadata; {RENAMED.format('hidden', 'ducklake_metadata')}",
    ),
    ("ALTER TABLE lake.ducklake_metadata OWNER TO mallory", "ALTER TABLE lake.ducklake_metadata OWNER TO CURRENT_USER"),
]
"""How code of another role gets into the lake: a trigger, a view, a table; and how it is removed."""


def test_no_code_of_another_role_runs_as_sexton(lake: AttachedLake, capsys: Capsys) -> None:
    mallory = f"mallory_{secrets.token_hex(4)}"
    execute(lake, f"CREATE ROLE {mallory} LOGIN")
    for change, back in FOREIGN:
        execute(lake, change.replace("mallory", mallory))
        refused = [lake.command(capsys, verb) for verb in ("attach", "status", "detach")]
        execute(lake, back.replace("mallory", mallory))

        assert [printed.code for printed in refused] == [1, 1, 1]
        says = "ducklake_metadata of schema lake belongs to another role, is no table, or has its triggers"
        assert all(says in printed.err for printed in refused)
    assert lake.command(capsys, "status").code == 0
    execute(lake, f"DROP OWNED BY {mallory} CASCADE; DROP ROLE {mallory}")
