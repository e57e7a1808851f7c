"""Explain every statement that the product sends on PostgreSQL, and find those that read a whole growing table."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, event

from sexton.database.engine import Database
from sexton.database.tables import METADATA
from sexton.marks.file_list import FileList
from sexton.marks.model import File
from tests.servers.postgres import new_database
from tests.support.rig import Rig

GROWING = (
    *("mark_history", "file_list", "mark", "round", "batch", "tally", "plan", "call", "finding", "check_run"),
    *("protection_item", "wal_purge", "wal_entry", "journal", "replica"),
    *("binlog_table_record", "binlog_partition_version", "binlog_partition_cut", "binlog"),
)
"""Tables of Sexton's own that grow with the data, or with time."""
ALL_TABLES = [table.name for table in METADATA.sorted_tables]
SELECTIVE = re.compile(
    r"\b(id|seq|last|last_file|retention_starts_at|gone_at|parent_id|key|round|number|run|uid|part|tablet|version|floor|prefix)\b"
    r"|\bbatch [=>] \(?\w+\.(id|batch)\b"
)
"""What an index condition must name where it is looked up again and again: a column with few rows per value, or each
batch once."""
ONE_FILE = FileList.of(0, 1, [File("dropped", "o", "disk", "other/1.dat", 10)])
FILL = """
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes, marked_at)
    SELECT 'crowd', 'dropped', 'o-' || n, 'disk', jsonb_build_array('other/' || n || '.dat'), 10, now()
    FROM generate_series(1, 20000) n;
INSERT INTO sexton.mark_history
    (instance, kind, id, vault, objects, bytes, marked_at, claimed_at, gone_at, batch, round)
    SELECT 'crowd', 'dropped', 'h-' || n, 'disk', 1, 10, now(), now(), now(), 1, 1 FROM generate_series(1, 20000) n;
INSERT INTO sexton.file_list (batch, last, first, instance, first_key, last_key, files, results)
    SELECT 1000000 + n / 10, n, n, 'crowd', 'other/' || n || '.dat', 'other/' || n || '.dat', {files}, {results}
    FROM generate_series(1, 20000) n;
INSERT INTO sexton.plan (instance, created_at, state, planned_by, policy_version, body)
    SELECT 'crowd', now(), 'APPLIED', 'round', 'x', '{}' FROM generate_series(1, 20000);
INSERT INTO sexton.round (instance, run_id, state, started_at, ended_at, report)
    SELECT 'crowd', 'run-' || n, 'SUCCEEDED', now(), now(), '{}' FROM generate_series(1, 20000) n;
INSERT INTO sexton.batch (instance, round, kind, number, first, last, lease_epoch, attempt, state)
    SELECT 'crowd', n / 10, 'dropped', n, '', '', 1, 1, 'DONE' FROM generate_series(1, 20000) n;
INSERT INTO sexton.tally (round, kind, vault) SELECT n, 'dropped', 'disk' FROM generate_series(1, 20000) n;
INSERT INTO sexton.call (at, who, source, action, instance, outcome)
    SELECT now(), 'ann', 'cli', 'plan', 'crowd', 'OK' FROM generate_series(1, 20000) n;
INSERT INTO sexton.check_run (instance, run, state, cutoff, ended_at)
    SELECT 'crowd', 'check-' || n, 'WHOLE', now(), now() FROM generate_series(1, 20000) n;
INSERT INTO sexton.finding (instance, type, vault, key, first_seen, seen_in)
    SELECT 'crowd', 'ORPHAN', 'disk', 'data/' || n, now(), 1 FROM generate_series(1, 20000) n;
INSERT INTO sexton.protection (instance, job, owner, state, registered_at, expires_at, digest)
    VALUES ('crowd', 'copy', 'sync', 'ACTIVE', now(), now() + interval '1 day', '');
INSERT INTO sexton.protection_item (instance, vault, key, prefix, protection)
    SELECT 'crowd', 'disk', 'data/' || n || '.dat', false, p.id FROM generate_series(1, 20000) n, sexton.protection p;
INSERT INTO sexton.wal_purge (topic, kafka_id, floor, at, log_end, holders)
    SELECT 'crowd', 'x', n, now(), n, '[]' FROM generate_series(1, 20000) n;
INSERT INTO sexton.wal_entry (topic, id, payload) SELECT 'crowd', n, ''::bytea FROM generate_series(1, 20000) n;
INSERT INTO sexton.journal (instance, seq, op, body, at)
    SELECT 'crowd', n, 435, '{}', now() FROM generate_series(1, 20000) n;
INSERT INTO sexton.binlog (instance, db, seq, ts, sent_ts, type, tables, data, bytes, ordinal, bytes_before)
    SELECT 'crowd', 'sales', n, 1, 1, 'ALTER', '["t"]', '', 9, n, 9 * n FROM generate_series(1, 20000) n;
INSERT INTO sexton.binlog_table_record (instance, db, tbl, seq, ordinal, bytes_before)
    SELECT 'crowd', 'sales', 't', n, n, 9 * n FROM generate_series(1, 20000) n;
INSERT INTO sexton.binlog_partition_version (instance, db, tbl, seq, part, version)
    SELECT 'crowd', 'sales', 't', n, 'p', n FROM generate_series(1, 20000) n;
INSERT INTO sexton.binlog_partition_cut (instance, db, tbl, part, version, propagated)
    SELECT 'crowd', 'sales', 't', 'p' || n, n, true FROM generate_series(1, 20000) n;
INSERT INTO sexton.replica (instance, uid, backend, tablet, db, tbl, part, fresh_until)
    SELECT 'crowd', 'u' || n, 'b', 't' || n, 'sales', 't', 'p' || n, now() + interval '1 day'
    FROM generate_series(1, 20000) n;
""".replace("{files}", f"'\\\\x{ONE_FILE.encode_files().hex()}'").replace(
    "{results}", f"'\\\\x{ONE_FILE.results.encode().hex()}'"
)
"""What another instance has: 20,000 rows of each growing table."""
EXPLAINED = ("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")


def run_script(db: Database, script: str) -> None:
    """Run statements in one transaction; each ends with a semicolon at the end of a line."""
    with db.write() as tx:
        for statement in script.split(";\n"):
            if statement.strip():
                tx.exec_driver_sql(statement)


def maintain(db: Database, command: str) -> None:
    """Run a command that must not be in a transaction, such as VACUUM."""
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(command)


def keep_statistics(db: Database) -> None:
    """Let no background process renew the statistics of growing tables."""
    for table in GROWING:
        run_script(db, f"ALTER TABLE sexton.{table} SET (autovacuum_enabled = off)")


@contextmanager
def crowded(*scripts: str) -> Iterator[Rig]:
    """Yield an instance ``crowd`` in a database of its own, which these scripts filled; statistics are of before."""
    rig = Rig(new_database()).instance("crowd")
    keep_statistics(rig.db)
    maintain(rig.db, "ANALYZE")
    for script in scripts:
        run_script(rig.db, script)
    yield rig
    rig.db.close()


def each_statistics(rig: Rig) -> Iterator[str]:
    """Yield ``empty``, of the tables before they were filled, and then ``full``, of the tables as they are."""
    yield "empty"
    maintain(rig.db, "VACUUM ANALYZE")
    yield "full"


@contextmanager
def recorded(db: Database) -> Iterator[dict[str, Any]]:
    """Yield the statements that are sent meanwhile, each with the parameters it had first."""
    statements: dict[str, Any] = {}

    def note(_tx: object, _cursor: object, statement: str, parameters: Any, _: object, many: bool) -> None:
        statements.setdefault(statement, parameters[0] if many else parameters)

    engines = [db.engine, *([db.live("shop").engine] if db.live_login("shop") else [])]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)


def bad_plans(db: Database, statements: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return statement → what is wrong with its plan."""
    bad = {}
    with db.read() as tx:
        for statement, parameters in list(statements.items()):
            if statement.split()[0] in EXPLAINED:
                faults = list(_faults(_explain(tx, statement, parameters)))
                if faults:
                    bad[statement] = faults
    return bad


def loops(db: Database, statements: Mapping[str, Any]) -> list[str]:
    """Return the statements with a part that runs once for each row of another part."""
    with db.read() as tx:
        plans = {sql: _explain(tx, sql, values) for sql, values in statements.items() if sql.split()[0] in EXPLAINED}
    return [sql for sql, plan in plans.items() if _repeats(plan)]


def _repeats(node: Mapping[str, Any]) -> bool:
    in_rows = node["Node Type"] == "Nested Loop" or node.get("Parent Relationship") == "SubPlan"
    return in_rows or any(_repeats(child) for child in node.get("Plans", ()))


def _explain(tx: Connection, statement: str, parameters: Any) -> dict[str, Any]:
    answer = tx.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters or None).scalar_one()
    plans = answer if isinstance(answer, list) else json.loads(answer)
    return dict(plans[0]["Plan"])


def _faults(node: Mapping[str, Any], *, repeated: bool = False) -> Iterator[str]:
    """Yield scans of a whole growing table, and look-ups in a loop that name no selective column."""
    kind, table = node["Node Type"], _growing_table(node)
    if table and kind == "Seq Scan":
        yield f"reads all of {table}"
    condition = node.get("Index Cond", "")
    if table and repeated and "Index" in kind and not SELECTIVE.search(condition):
        yield f"in a loop, looks up {table} by {condition}"
    for position, child in enumerate(node.get("Plans", ())):
        inner = kind == "Nested Loop" and position == 1
        in_row = child.get("Parent Relationship") == "SubPlan"
        yield from _faults(child, repeated=repeated or inner or in_row)


def _growing_table(node: Mapping[str, Any]) -> str:
    """Return the growing table that a node reads, also of an index alone; empty: none."""
    name = node.get("Relation Name") or node.get("Index Name", "")
    named = (table for table in ALL_TABLES if name == table or name.startswith(f"{table}_"))
    table = max(named, key=len, default="")
    return table if table in GROWING else ""


def rows_read(db: Database, statements: Mapping[str, Any]) -> int:
    """Run the queries among the statements once more; return how many rows their parts read, also to leave them out."""
    read = 0
    with db.read() as tx:
        for statement, parameters in statements.items():
            if statement.startswith("SET LOCAL"):
                tx.exec_driver_sql(statement)
            if statement.split()[0] in ("SELECT", "WITH"):
                explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}"
                answer = tx.exec_driver_sql(explain, parameters or None).scalar_one()
                plans = answer if isinstance(answer, list) else json.loads(answer)
                read += round(_rows_of(plans[0]["Plan"]))
    return read


def rows_touched(c: psycopg.Connection, *tables: str) -> int:
    """Return how many rows of these tables the open transaction read, also in functions and triggers."""
    query = (
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables WHERE relname = ANY(%s)"
    )
    row = c.execute(query, (list(tables),)).fetchone()
    assert row
    return int(row[0])


def _rows_of(node: Mapping[str, Any]) -> float:
    removed = sum(n for name, n in node.items() if name.startswith("Rows Removed"))
    here = (node["Actual Rows"] + removed) * node["Actual Loops"]
    return float(here + sum(_rows_of(child) for child in node.get("Plans", ())))
