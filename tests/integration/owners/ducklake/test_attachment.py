"""Attaching a DuckLake, watching the attachment, and detaching it."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.demo.duckdb_client import DuckDbError
from sexton.database.engine import Database
from sexton.recycle.model import RoundReport
from tests.servers.postgres import Cluster, shared
from tests.support.command import run
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.kept import kept_texts
from tests.support.lake import AttachedLake
from tests.support.planned import waiting_plans
from tests.support.rig import DAY, Rig

pytestmark = pytest.mark.slow

Capsys = pytest.CaptureFixture[str]


def execute(lake: AttachedLake, statement: str, *, rows: bool = False) -> list[Any]:
    """Execute a statement; return its rows."""
    with lake.rig.db.write() as c:
        result = c.exec_driver_sql(statement)
        return [tuple(row) for row in result] if rows else []


class ScriptFailed(Exception):
    """What psql printed."""


def run_script(lake: AttachedLake, script: str, *options: str) -> None:
    """Run printed statements with psql."""
    command = [shared().psql, "--no-psqlrc", "--quiet", *options, lake.rig.url.replace("+psycopg", "")]
    ran = subprocess.run(command, input=script, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    if ran.returncode:
        raise ScriptFailed(ran.stderr)


def scheduled(lake: AttachedLake) -> list[tuple[str, bool]]:
    columns = "path, path_is_relative"
    return execute(lake, f"SELECT {columns} FROM lake.ducklake_files_scheduled_for_deletion ORDER BY path", rows=True)


def test_an_attached_lake_deletes_nothing_itself(database_url: str, tmp_path: Path, capsys: Capsys) -> None:
    """Its data path leads through a link, and it has scheduled a file before."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk", target_is_directory=True)
    lake = AttachedLake(database_url, tmp_path / "home")
    lake.run_and_expire("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    [(key, _)] = scheduled(lake)
    lake.attach(capsys)
    attached = lake.marks(), scheduled(lake)
    lake.run_and_expire("CREATE TABLE t AS FROM range(3)", "CREATE TABLE late AS FROM range(3)", "DROP TABLE late")
    [live], files, marks = lake.listed("t"), lake.files(), lake.marks()

    again, status = lake.command(capsys, "attach"), lake.command(capsys, "status")
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)", "CHECKPOINT")
    printed = run(lake.rig, capsys, "why", live)

    assert (attached, len(marks)) == (({key: "dropped"}, []), 2)
    assert (again.code, status.code, lake.marks()) == (0, 0, marks)
    assert "attached: yes" in status.out.splitlines()
    assert (len(files), lake.files()) == (3, files)
    assert f"{live} in vault lake" in printed.out.partition("live: ducklake_data_file ")[2]
    lake.close()


def test_a_detached_lake_cleans_itself_again(lake: AttachedLake, capsys: Capsys) -> None:
    outside = lake.data.parent / "outside.parquet"
    lake.db.run("CREATE TABLE old AS FROM range(3)", "CREATE TABLE v(a INTEGER)", "CREATE TABLE kept AS FROM range(2)")
    lake.db.run(f"COPY (SELECT 5 AS a) TO '{outside}'", f"CALL ducklake_add_data_files('lake', 'v', '{outside}')")
    [key], [live] = lake.listed("old"), lake.listed("kept")
    lake.run_and_expire("DROP TABLE old", "DROP TABLE v")
    lake.rig.sql(
        "INSERT INTO {}mark (instance, kind, id, vault, keys, owner_txn) "
        "VALUES ('shop', 'dropped', 'file-9', 'lake', :keys, '9')",
        keys=f'["{live}"]',
    )

    detached, listed = lake.command(capsys, "detach"), scheduled(lake)
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")

    assert (detached.code, lake.marks()) == (0, {})
    assert listed == [(str(outside), False), (key, True)]  # not the live file that was marked by mistake
    assert (lake.files(), outside.exists()) == ({live}, False)
    assert lake.db.sql("FROM lake.options() WHERE option_name = 'delete_older_than'") == []


def test_a_lake_can_be_detached_and_attached_again(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    lake.db.run("CALL lake.set_option('delete_older_than', '7 days')")
    lake.attach(capsys)
    lake.run_and_expire("CREATE TABLE t AS FROM range(10)", "CREATE TABLE old AS FROM range(10)", "DROP TABLE old")

    other_vault = lake.command(capsys, "attach", "--vault", "other")
    codes = [lake.command(capsys, verb).code for verb in ("attach", "detach")]
    option = "SELECT value FROM lake.ducklake_metadata WHERE key = 'delete_older_than'"
    own = execute(lake, option, rows=True)
    codes.append(lake.command(capsys, "attach").code)

    assert (other_vault.code, codes, own) == (1, [0, 0, 0], [("7 days",)])
    assert lake.round().deleted == 1
    assert lake.files() == lake.listed("t")


def test_an_attached_lake_is_detached_before_it_is_removed(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached.attach(capsys)
    lake.db.run("CREATE TABLE t AS FROM range(10)")
    [vault] = lake.rig.registry.vaults("shop")
    removed = [run(lake.rig, capsys, "vault", "remove", "shop", vault.name)]
    removed.append(run(lake.rig, capsys, "instance", "remove", "shop", "--yes"))
    lake.db.run("CREATE TABLE u AS FROM range(10)")
    removed.append(lake.command(capsys, "detach"))
    removed.append(run(lake.rig, capsys, "instance", "remove", "shop", "--yes"))

    assert [printed.code for printed in removed] == [0, 1, 0, 0], removed
    assert "first: sexton ducklake detach shop" in removed[1].err
    lake.db.run("CREATE TABLE v AS FROM range(10)")


def test_what_no_mark_can_name_is_listed_again(unattached: AttachedLake, capsys: Capsys) -> None:
    lake, other = unattached, unattached.data.parent / "other.parquet"
    reserved, two_spellings = (f"{lake.data}/{name}" for name in ("_sexton/own.parquet", f"{other}"))
    other.write_text("not the lake's")
    for path in (reserved, two_spellings):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        lake.db.run(f"COPY (FROM range(10)) TO '{path}'", "CREATE TABLE t(range BIGINT)")
        lake.db.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')", "DROP TABLE t")
    lake.db.expire()

    codes = lake.command(capsys, "attach").code, lake.command(capsys, "detach").code
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")

    assert codes == (0, 0)
    assert [Path(path).exists() for path in (reserved, two_spellings, other)] == [False, False, True]


METADATA = "lake.ducklake_metadata"
DATA_FILES = "ALTER TABLE lake.ducklake_data_file"
CHANGES = [
    (
        f"{DATA_FILES} DISABLE TRIGGER sexton_data_file",
        f"{DATA_FILES} ENABLE TRIGGER sexton_data_file",
        "triggers are missing or disabled: sexton_data_file",
    ),
    (
        f"UPDATE {METADATA} SET key = 'away' WHERE key = 'delete_older_than'",
        f"UPDATE {METADATA} SET key = 'delete_older_than' WHERE key = 'away'",
        "its option delete_older_than is not set",
    ),
    (
        f"UPDATE {METADATA} SET value = '2.0' WHERE key = 'version'",
        f"UPDATE {METADATA} SET value = '1.0' WHERE key = 'version'",
        "its catalog has version 2.0; known: 1.0",
    ),
    (
        f"UPDATE {METADATA} SET value = '/elsewhere' || value WHERE key = 'data_path'",
        f"UPDATE {METADATA} SET value = substr(value, 11) WHERE key = 'data_path'",
        "its data path is /elsewhere/",
    ),
]
"""What somebody changed, how it is changed back, and what `sexton ducklake status` says."""


def test_a_changed_lake_is_kept_until_it_is_as_before(lake: AttachedLake, capsys: Capsys) -> None:
    lake.run_and_expire("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    for change, back, problem in CHANGES:
        execute(lake, change)
        report, status, doctor = lake.round(), lake.command(capsys, "status"), run(lake.rig, capsys, "doctor").out
        execute(lake, back)
        way_out = (
            "attach it again: sexton ducklake attach shop" if "trigger" in problem else "ducklake status shop shows"
        )

        assert (report.deleted, status.code) == (0, 1)
        assert problem in status.out
        assert way_out in "".join(kept_texts(report))
        assert "FAIL live objects shop keeps every mark:" in " ".join(doctor.split())
    assert (lake.command(capsys, "status").code, lake.round().deleted) == (0, 1)


def test_printed_statements_attach_and_call_no_code_of_others(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    body = "AS $$BEGIN RAISE EXCEPTION 'code of another role runs'; END$$"
    execute(lake, f"CREATE FUNCTION public.length(varchar) RETURNS int LANGUAGE plpgsql IMMUTABLE {body}")
    printed, before = lake.command(capsys, "attach", "--print-sql").out, lake.command(capsys, "status")

    run_script(lake, printed)
    lake.db.run("CREATE TABLE t AS FROM range(3)")
    after = lake.command(capsys, "status")
    execute(
        lake,
        "CREATE OR REPLACE VIEW lake.sexton_live AS SELECT instance, kind, id, vault, "
        "CASE WHEN public.length(CAST(key AS varchar)) > 0 THEN key END AS key, bytes "
        "FROM (SELECT '' AS instance, '' AS kind, '' AS id, '' AS vault, '' AS key, CAST(NULL AS bigint) AS bytes) v",
    )
    replaced = lake.command(capsys, "status")

    assert (before.code, after.code, replaced.code) == (1, 0, 1)
    assert "Sexton cannot read the live view" in replaced.out


def test_a_schema_that_no_view_can_name_registers_nothing(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    for schema in ("My Lake", "lake-1", "sexton_lake", 'a"b'):
        old, new = (name.replace('"', '""') for name in (lake.schema, schema))
        execute(lake, f'ALTER SCHEMA "{old}" RENAME TO "{new}"')
        lake.schema = schema

        refused = lake.command(capsys, "attach")

        assert (refused.code, list(lake.rig.registry.instances())) == (64, [])
        assert "is no name of a live view" in refused.err


def test_what_cannot_be_attached_says_why(rig: Rig, capsys: Capsys) -> None:
    attach = ("ducklake", "attach", "x")
    no_lake, other = run(rig, capsys, *attach), run(rig, capsys, "ducklake", "status", "shop")
    elsewhere = [
        run(rig, capsys, *attach, "--lake-url", url)
        for url in ("sqlite:///lake.db", "metadata.ducklake", "mysql://lake@db/lake")
    ]

    assert (no_lake.code, other.code, [refused.code for refused in elsewhere]) == (1, 1, [64, 64, 64])
    assert "it has no table ducklake_metadata" in no_lake.err
    assert "instance shop is no DuckLake; its owner is sql" in other.err
    assert all("copy the lake's tables (ducklake_…) into a schema there" in refused.err for refused in elsewhere)
    assert [instance.id for instance in rig.registry.instances()] == ["shop"]


def mark_orphans(lake: AttachedLake) -> None:
    """Have checks confirm the orphans, mark them, and let them fall due."""
    for seconds in (0, 2 * DAY, 4 * DAY):
        lake.rig.check(after=seconds)
    lake.rig.repairs.orphans("shop")
    lake.rig.check(after=4 * DAY)


def approved_round(lake: AttachedLake) -> RoundReport:
    """Run a round; if its plan waits, because a lake of the tests has few files, approve it and run it."""
    report, plans = lake.rig.round(), waiting_plans(lake.rig)
    return lake.rig.round(plan=plans[0]) if plans else report


def test_orphans_are_deleted_and_late_commits_keep_theirs(lake: AttachedLake) -> None:
    """A writer that was killed, one that commits before its file is deleted, and one that commits afterwards."""
    lake.db.run("CREATE TABLE t AS FROM range(3)", "CREATE TABLE twin(range BIGINT)")
    with lake.another() as killed:
        killed.run("BEGIN", "INSERT INTO t FROM range(100)")
        killed.kill()
    [orphan] = lake.files() - lake.listed("t")
    link = lake.data.parent / "link"
    link.symlink_to(lake.data, target_is_directory=True)
    with pytest.raises(DuckDbError, match="SX006"):
        lake.db.run(f"CALL ducklake_add_data_files('lake', 'twin', '{link / orphan}')")
    with lake.another() as early, lake.another() as late:
        for writer in (early, late):
            writer.run("BEGIN", "INSERT INTO t FROM range(100)")
        mark_orphans(lake)
        marked = len(lake.marks())
        early.run("COMMIT")

        report = approved_round(lake)

        with pytest.raises(DuckDbError, match="SX001 collected"):
            late.run("COMMIT")
    assert (marked, report.deleted) == (3, 2)
    assert lake.files() == lake.listed("t")
    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[103]]


@pytest.fixture
def lake_role(postgres: Cluster) -> Iterator[str]:
    """Yield the name of a new role, which has no rights yet."""
    name = f"lake_{uuid.uuid4().hex[:8]}"
    superuser = Database.open(postgres.url())
    with superuser.write() as c:
        c.exec_driver_sql(f"CREATE ROLE {name} LOGIN")
    yield name
    superuser.close()


def test_a_lake_with_a_login_of_its_own_is_cleaned(
    postgres: Cluster, lake_role: str, tmp_path: Path, capsys: Capsys
) -> None:
    lake = AttachedLake(postgres.new_database(), tmp_path, role=lake_role).attach(capsys)
    lake.run_and_expire("CREATE TABLE t AS FROM range(3)", "CREATE TABLE old AS FROM range(3)", "DROP TABLE old")

    report = lake.round()
    without_url = run(lake.rig, capsys, "ducklake", "status", "shop")

    assert (report.deleted, lake.files()) == (1, lake.listed("t"))
    assert "belongs to another role" in without_url.err
    assert lake.command(capsys, "status").code == 0
    assert lake.command(capsys, "detach").code == 0
    lake.close()
