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
from tests.support.kept import kept_texts
from tests.support.lake import AttachedLake
from tests.support.planned import waiting_plans
from tests.support.rig import DAY, Rig

pytestmark = pytest.mark.slow

Capsys = pytest.CaptureFixture[str]


def execute(lake: AttachedLake, statement: str) -> Any:
    with lake.rig.db.write() as c:
        return c.exec_driver_sql(statement)


class ScriptFailed(Exception):
    """What psql printed."""


def run_script(lake: AttachedLake, script: str, *options: str) -> None:
    """Run printed statements with psql."""
    command = [shared().psql, "--no-psqlrc", "--quiet", *options, lake.rig.url.replace("+psycopg", "")]
    ran = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=False)
    if ran.returncode:
        raise ScriptFailed(ran.stderr)


def scheduled(lake: AttachedLake) -> list[tuple[str, bool]]:
    with lake.rig.db.read() as c:
        rows = c.exec_driver_sql(
            "SELECT path, path_is_relative FROM lake.ducklake_files_scheduled_for_deletion ORDER BY path"
        )
        return [(row[0], row[1]) for row in rows]


def test_what_the_lake_scheduled_before_is_marked(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    lake.db.run("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    lake.db.expire()
    [(key, _)] = scheduled(lake)

    lake.attach(capsys)

    assert (lake.marks(), scheduled(lake)) == ({key: "dropped"}, [])


def test_attaching_again_changes_nothing(lake: AttachedLake, capsys: Capsys) -> None:
    lake.db.run("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    lake.db.expire()
    marks = lake.marks()

    again, status = lake.command(capsys, "attach"), lake.command(capsys, "status")

    assert (again.code, status.code, lake.marks()) == (0, 0, marks)
    assert "attached: yes" in status.out.splitlines()


def test_a_data_path_through_a_link_is_attached_again(database_url: str, tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk", target_is_directory=True)
    lake = AttachedLake(database_url, tmp_path / "home")

    codes = [lake.command(capsys, verb).code for verb in ("attach", "attach", "status")]
    lake.close()

    assert codes == [0, 0, 0]


def test_the_lakes_own_cleaners_delete_nothing(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    lake.db.expire()
    before = lake.files()

    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)", "CHECKPOINT")

    assert (len(before), lake.files()) == (1, before)


def test_a_detached_lake_cleans_itself_again(lake: AttachedLake, capsys: Capsys) -> None:
    outside = lake.data.parent / "outside.parquet"
    lake.db.run("CREATE TABLE old AS FROM range(3)", "CREATE TABLE v(a INTEGER)", "CREATE TABLE kept AS FROM range(2)")
    lake.db.run(f"COPY (SELECT 5 AS a) TO '{outside}'", f"CALL ducklake_add_data_files('lake', 'v', '{outside}')")
    [key] = lake.listed("old")
    lake.db.run("DROP TABLE old", "DROP TABLE v")
    lake.db.expire()

    detached, listed = lake.command(capsys, "detach"), scheduled(lake)
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")

    assert (detached.code, lake.marks()) == (0, {})
    assert listed == [(str(outside), False), (key, True)]
    assert (lake.files(), outside.exists()) == (lake.listed("kept"), False)
    assert lake.db.sql("FROM lake.options() WHERE option_name = 'delete_older_than'") == []


@pytest.mark.parametrize("place", ["_sexton/own.parquet", "{other}"], ids=["reserved", "two spellings"])
def test_what_no_mark_can_name_is_listed_again(unattached: AttachedLake, capsys: Capsys, place: str) -> None:
    lake, other = unattached, unattached.data.parent / "other.parquet"
    path = f"{lake.data}/{place.format(other=other)}"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    other.write_text("not the lake's")
    lake.db.run(f"COPY (FROM range(10)) TO '{path}'", "CREATE TABLE t(range BIGINT)")
    lake.db.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')", "DROP TABLE t")
    lake.db.expire()

    codes = lake.command(capsys, "attach").code, lake.command(capsys, "detach").code
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")

    assert (codes, Path(path).exists(), other.exists()) == ((0, 0), False, True)


def test_detach_waits_for_a_round_that_deletes(lake: AttachedLake, capsys: Capsys) -> None:
    lake.db.run("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    lake.db.expire()
    lake.rig.sql("UPDATE {}mark SET state = 'CLAIMED', batch = 1")

    refused = lake.command(capsys, "detach")

    assert (refused.code, scheduled(lake)) == (1, [])
    assert "SX001 collected" in refused.err
    assert "try again when the round has ended" in refused.err
    assert lake.command(capsys, "status").code == 0


def test_without_a_trigger_everything_is_kept(lake: AttachedLake, capsys: Capsys) -> None:
    lake.db.run("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    lake.db.expire()
    execute(lake, "ALTER TABLE lake.ducklake_data_file DISABLE TRIGGER sexton_data_file")

    report, status = lake.round(), lake.command(capsys, "status")
    doctor = run(lake.rig, capsys, "doctor").out

    assert (report.deleted, status.code) == (0, 1)
    assert "FAIL live objects shop keeps every mark:" in " ".join(doctor.split())
    assert "triggers are missing or disabled: sexton_data_file" in status.out
    assert "attach it again: sexton ducklake attach shop" in "".join(kept_texts(report))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM {} WHERE key = 'delete_older_than'", "its option delete_older_than is not set"),
        ("UPDATE {} SET value = '2.0' WHERE key = 'version'", "its catalog has version 2.0; known: 1.0"),
        ("UPDATE {} SET value = '/elsewhere/' WHERE key = 'data_path'", "its data path is /elsewhere/, but it was"),
    ],
    ids=["option", "version", "data path"],
)
def test_a_changed_lake_is_kept(lake: AttachedLake, capsys: Capsys, change: str, problem: str) -> None:
    lake.db.run("CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    lake.db.expire()
    execute(lake, change.format("lake.ducklake_metadata"))

    report, status = lake.round(), lake.command(capsys, "status")

    assert (report.deleted, status.code) == (0, 1)
    assert problem in status.out
    assert "sexton ducklake status shop shows" in "".join(kept_texts(report))


def test_the_printed_statements_do_the_same(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    printed = lake.command(capsys, "attach", "--print-sql").out
    before = lake.command(capsys, "status").code
    run_script(lake, printed)

    assert (before, lake.command(capsys, "status").code) == (1, 0)


def test_the_printed_statements_call_no_code_of_others(unattached: AttachedLake, capsys: Capsys) -> None:
    lake = unattached
    body = "AS $$BEGIN RAISE EXCEPTION 'code of another role runs'; END$$"
    execute(lake, f"CREATE FUNCTION public.length(varchar) RETURNS int LANGUAGE plpgsql IMMUTABLE {body}")

    run_script(lake, lake.command(capsys, "attach", "--print-sql").out)
    lake.db.run("CREATE TABLE t AS FROM range(3)")
    first = lake.command(capsys, "status")
    execute(
        lake,
        "CREATE OR REPLACE VIEW lake.sexton_live AS SELECT instance, kind, id, vault, "
        "CASE WHEN public.length(CAST(key AS varchar)) > 0 THEN key END AS key, bytes "
        "FROM (SELECT '' AS instance, '' AS kind, '' AS id, '' AS vault, '' AS key, CAST(NULL AS bigint) AS bytes) v",
    )
    second = lake.command(capsys, "status")

    assert (first.code, second.code) == (0, 1)
    assert "Sexton cannot read the live view" in second.out


@pytest.mark.parametrize("schema", ["My Lake", "lake-1", "sexton_lake", 'a"b'])
def test_a_schema_that_no_view_can_name_registers_nothing(
    unattached: AttachedLake, capsys: Capsys, schema: str
) -> None:
    lake = unattached
    execute(lake, f'ALTER SCHEMA lake RENAME TO "{schema.replace(chr(34), chr(34) * 2)}"')
    lake.schema = schema

    refused = lake.command(capsys, "attach")

    assert (refused.code, list(lake.rig.registry.instances())) == (1, [])
    assert "is no name of a live view" in refused.err


def test_what_cannot_be_attached_says_why(database_url: str, tmp_path: Any, capsys: Capsys) -> None:
    rig = Rig(database_url).instance()

    no_lake, other = run(rig, capsys, "ducklake", "attach", "x"), run(rig, capsys, "ducklake", "status", "shop")

    assert (no_lake.code, other.code) == (1, 1)
    assert "it has no table ducklake_metadata" in no_lake.err
    assert "instance shop is no DuckLake; its owner is sql" in other.err


@pytest.mark.parametrize("url", ["sqlite:///lake.db", "metadata.ducklake", "mysql://lake@db/lake"])
def test_a_catalog_that_is_not_in_postgresql_is_refused(database_url: str, capsys: Capsys, url: str) -> None:
    rig = Rig(database_url)

    refused = run(rig, capsys, "ducklake", "attach", "x", "--lake-url", url)

    assert (refused.code, list(rig.registry.instances())) == (1, [])
    assert "copy the lake's tables (ducklake_…) into a schema there" in refused.err


def test_why_names_the_row_that_keeps_a_file(lake: AttachedLake, capsys: Capsys) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(3)")
    [key] = lake.listed("t")

    printed = run(lake.rig, capsys, "why", key)

    assert f"live: ducklake_data_file 0, {key} in vault lake" in printed.out


def mark_orphans(lake: AttachedLake) -> None:
    """Have checks confirm the orphans, mark them, and let them fall due."""
    for seconds in (0, 2 * DAY, 4 * DAY):
        lake.rig.later(seconds)
        lake.rig.check()
    lake.rig.repairs.orphans("shop")
    lake.rig.later(4 * DAY)
    lake.rig.check()


def approved_round(lake: AttachedLake) -> RoundReport:
    """Run a round; if its plan waits, because a lake of the tests has few files, approve it and run it."""
    report, plans = lake.rig.round(), waiting_plans(lake.rig)
    return lake.rig.round(plan=plans[0]) if plans else report


def test_orphans_of_a_killed_writer_are_deleted(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(3)")
    with lake.another() as writer:
        writer.run("BEGIN", "INSERT INTO t FROM range(100)")
        writer.kill()
    orphans = lake.files() - lake.listed("t")
    mark_orphans(lake)

    report = approved_round(lake)

    assert (len(orphans), report.deleted) == (1, 1)
    assert lake.files() == lake.listed("t")


def test_a_late_commit_takes_the_mark_of_its_file_back(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(3)")
    with lake.another() as writer:
        writer.run("BEGIN", "INSERT INTO t FROM range(100)")
        mark_orphans(lake)
        marked = len(lake.marks())
        writer.run("COMMIT")

        report = approved_round(lake)

    assert (marked, report.deleted) == (1, 0)
    assert lake.files() == lake.listed("t")
    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[103]]


def test_a_commit_after_the_deletion_of_its_file_is_refused(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(3)")
    with lake.another() as writer:
        writer.run("BEGIN", "INSERT INTO t FROM range(100)")
        mark_orphans(lake)
        report = approved_round(lake)

        with pytest.raises(DuckDbError, match="SX001 collected"):
            writer.run("COMMIT")

    assert report.deleted == 1
    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[3]]


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
    lake.db.run("CREATE TABLE t AS FROM range(3)", "CREATE TABLE old AS FROM range(3)", "DROP TABLE old")
    lake.db.expire()

    report = lake.round()
    without_url = run(lake.rig, capsys, "ducklake", "status", "shop")

    assert (report.deleted, lake.files()) == (1, lake.listed("t"))
    assert "belongs to another role" in without_url.err
    assert lake.command(capsys, "status").code == 0
    assert lake.command(capsys, "detach").code == 0
    lake.close()
