"""PostgreSQL plans every statement of a round with index look-ups, whatever statistics it has of the tables.

The tables hold a round in the middle of its work: marks of one key each, claimed a moment ago. Statistics were taken
when the tables were empty, when nothing was claimed yet, or just now.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Connection, event

from sexton.contract import NewMark
from sexton.marks.model import FilePage, Ref, WriteToken
from sexton.operators.holds.store import Hold
from sexton.storage.model import KeyOutcome, KeyResult
from tests.servers.postgres import Cluster
from tests.support.claims import token
from tests.support.rig import Rig, put

CROWD = 200_000
GROWING = ("mark_history", "mark_file", "mark")
SELECTIVE = re.compile(r"\b(id|seq|retention_starts_at|gone_at|parent_id)\b|\bbatch [=>] \(?\w+\.(id|batch)\b")
"""What an index condition must name where it is looked up again and again: a column with few rows per value, or each
batch once."""
FILL = """
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes, marked_at)
    SELECT 'crowd', 'dropped', 'm-' || lpad(n::text, 6, '0'), 'disk', jsonb_build_array('data/' || n || '.dat'), 10,
        date_trunc('milliseconds', clock_timestamp() - interval '1 day')
    FROM generate_series(1, {crowd}) n;
INSERT INTO sexton.mark_history
    (instance, kind, id, vault, objects, bytes, marked_at, claimed_at, gone_at, batch, round)
    SELECT 'crowd', 'dropped', 'h-' || n, 'disk', 1, 10, now(), now(), now(), 1, 1 FROM generate_series(1, {crowd}) n;
"""
CLAIM = """
SET LOCAL session_replication_role = replica;
UPDATE sexton.mark SET state = 'CLAIMED', batch = {batch}, claimed_batch = {batch}, claimed_at = now(), lease_epoch = 1
    WHERE instance = 'crowd';
INSERT INTO sexton.mark_file (batch, seq, instance, kind, id, vault, key, bytes)
    SELECT {batch}, n, 'crowd', 'dropped', 'm-' || lpad(n::text, 6, '0'), 'disk', 'data/' || n || '.dat', 10
    FROM generate_series(1, {crowd}) n;
"""


class Crowd(NamedTuple):
    """A rig whose tables are full, and the token of the batch that claimed the marks."""

    rig: Rig
    write_token: WriteToken


def run(rig: Rig, script: str) -> None:
    with rig.db.write() as tx:
        for statement in script.split(";\n"):
            if statement.strip():
                tx.exec_driver_sql(statement)


def maintain(rig: Rig, command: str) -> None:
    with rig.db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(command)


@pytest.fixture(
    scope="module",
    params=[pytest.param("empty", marks=pytest.mark.soak), "marked", pytest.param("claimed", marks=pytest.mark.soak)],
)
def crowd(request: pytest.FixtureRequest, postgres: Cluster) -> Iterator[Crowd]:
    rig = Rig(postgres.create_database()).instance().instance("crowd")
    for table in GROWING:
        run(rig, f"ALTER TABLE sexton.{table} SET (autovacuum_enabled = off)")
    if request.param == "empty":
        maintain(rig, "ANALYZE")
    write_token = token(rig, instance="crowd")
    run(rig, FILL.format(crowd=CROWD))
    if request.param == "marked":
        maintain(rig, "VACUUM ANALYZE")
    run(rig, CLAIM.format(crowd=CROWD, batch=write_token.batch))
    if request.param == "claimed":
        maintain(rig, "VACUUM ANALYZE")
    yield Crowd(rig, write_token)
    rig.db.close()


@pytest.fixture
def sent(crowd: Crowd) -> Iterator[dict[str, Any]]:
    """Return the statements that the product sends, each with the parameters it had first."""
    statements: dict[str, Any] = {}

    def note(_tx: object, _cursor: object, statement: str, parameters: Any, _: object, many: bool) -> None:
        statements.setdefault(statement, parameters[0] if many else parameters)

    event.listen(crowd.rig.db.engine, "before_cursor_execute", note)
    yield statements
    event.remove(crowd.rig.db.engine, "before_cursor_execute", note)


def bad_plans(rig: Rig, statements: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return statement → what is wrong with its plan."""
    bad = {}
    with rig.db.read() as tx:
        for statement, parameters in list(statements.items()):
            if statement.split()[0] in ("SELECT", "UPDATE", "DELETE", "INSERT", "WITH"):
                faults = list(faults_of(explain(tx, statement, parameters)))
                if faults:
                    bad[statement] = faults
    return bad


def explain(tx: Connection, statement: str, parameters: Any) -> dict[str, Any]:
    answer = tx.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters or None).scalar_one()
    plans = answer if isinstance(answer, list) else json.loads(answer)
    return dict(plans[0]["Plan"])


def faults_of(node: Mapping[str, Any], *, repeated: bool = False) -> Iterator[str]:
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
        yield from faults_of(child, repeated=repeated or inner or in_row)


def _growing_table(node: Mapping[str, Any]) -> str:
    name = node.get("Relation Name") or node.get("Index Name", "")
    return next((table for table in GROWING if name == table or name.startswith(f"{table}_")), "")


def test_a_batch_is_worked_off_by_look_ups(crowd: Crowd, sent: dict[str, Any]) -> None:
    rig, write_token = crowd
    stores = rig.stores

    stores.files.drop_unclaimed(write_token, 0, second_pass=True)
    [*pages] = stores.files.pages(write_token, 1_000, CROWD)
    page = FilePage("disk", pages[0].seqs, pages[0].keys)
    half = len(page.keys) // 2
    results = [KeyResult(key=key, outcome=KeyOutcome.DELETED) for key in page.keys[:half]]
    results += [KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="no", bytes=3) for key in page.keys[half:]]
    stores.outcomes.record(write_token, page, results)
    refs = stores.batches.claimed_refs(write_token, Ref("", ""), 1_000)
    list(stores.outcomes.of_marks(write_token, refs[:100]))
    settled = [Ref("dropped", f"m-{seq:06}") for seq in page.seqs]
    stores.settlements.settle(write_token, stores.settlements.progress(write_token, settled), 600)
    stores.batches.unfinished("crowd", 10**6)

    assert bad_plans(rig, sent) == {}


def test_a_round_is_planned_and_run_by_look_ups(crowd: Crowd, sent: dict[str, Any], tmp_path: Path) -> None:
    rig = crowd.rig
    root = rig.local(tmp_path / "disk")
    put(root, "data/p/1.dat")
    marks = [NewMark(id=f"k{n}", vault="disk", keys=(f"data/{n}.dat",)) for n in range(3)]
    marks += [NewMark(id="p", vault="disk", prefix="data/p/"), NewMark(id="lost", vault="no", keys=("x",))]
    marks += [NewMark(id="held", vault="disk", keys=("data/held.dat",))]
    rig.mark("dropped", *marks)
    rig.holds.place(Hold(instance="shop", scope="mark", mark_kind="dropped", mark_id="held", reason="a test"), 86_400)
    sent.clear()  # the statements of the round alone
    rig.later(10_801)
    report = rig.round()
    rig.later(3_601)
    rig.round()

    assert report.removed == 3
    assert bad_plans(rig, sent) == {}
