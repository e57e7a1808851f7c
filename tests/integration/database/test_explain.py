"""PostgreSQL plans every statement of a round with index look-ups, whatever statistics it has of the tables.

The tables hold a round in the middle of its work: marks of one key each, claimed a moment ago. Statistics were taken
when the tables were empty, when nothing was claimed yet, or just now.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sexton.contract import NewMark
from sexton.marks.file_list import FileList
from sexton.marks.model import CHUNK_MARKS, File, FilePage, Ref, WriteToken
from sexton.marks.sql.file_lists import add_list
from sexton.operators.holds.model import Hold
from sexton.storage.model import KeyOutcome, KeyResult
from tests.integration.database import query_plans
from tests.integration.database.query_plans import bad_plans, keep_statistics, maintain, recorded, run_script
from tests.servers.postgres import Cluster
from tests.support.claims import token
from tests.support.rig import Rig, put

CROWD = 50_000
MARKS = """
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes, marked_at)
    SELECT 'crowd', 'dropped', 'm-' || lpad(n::text, 6, '0'), 'disk', jsonb_build_array('data/' || n || '.dat'), 10,
        date_trunc('milliseconds', clock_timestamp() - interval '1 day')
    FROM generate_series(1, {crowd}) n;
"""
CLAIM = """
SET LOCAL session_replication_role = replica;
UPDATE sexton.mark SET state = 'CLAIMED', batch = {batch}, claimed_batch = {batch}, claimed_at = now(),
    lease_epoch = 1, files_after = (substr(id, 3)::bigint - 1) / 1000 * 1000,
    last_file = (substr(id, 3)::bigint - 1) / 1000 * 1000 + 1000
    WHERE instance = 'crowd' AND left(id, 2) = 'm-';
"""


class Crowd(NamedTuple):
    """A rig whose tables are full, and the token of the batch that claimed the marks."""

    rig: Rig
    write_token: WriteToken


@pytest.fixture(
    scope="module",
    params=[pytest.param("empty", marks=pytest.mark.soak), "marked", pytest.param("claimed", marks=pytest.mark.soak)],
)
def crowd(request: pytest.FixtureRequest, postgres: Cluster) -> Iterator[Crowd]:
    rig = Rig(postgres.new_database()).instance().instance("crowd")
    keep_statistics(rig.db)
    if request.param == "empty":
        maintain(rig.db, "ANALYZE")
    write_token = token(rig, instance="crowd")
    run_script(rig.db, query_plans.FILL)
    run_script(rig.db, MARKS.format(crowd=CROWD))
    if request.param == "marked":
        maintain(rig.db, "VACUUM ANALYZE")
    run_script(rig.db, CLAIM.format(batch=write_token.batch))
    store_files(rig, write_token)
    if request.param == "claimed":
        maintain(rig.db, "VACUUM ANALYZE")
    yield Crowd(rig, write_token)
    rig.db.close()


def store_files(rig: Rig, write_token: WriteToken) -> None:
    """Store the files of the claimed marks in lists of a chunk each."""
    with rig.db.write() as c:
        for first in range(1, CROWD, CHUNK_MARKS):
            numbers = range(first, first + CHUNK_MARKS)
            files = [File("dropped", f"m-{n:06}", "disk", f"data/{n}.dat", 10) for n in numbers]
            add_list(rig.db, c, "crowd", FileList.of(write_token.batch, first, files))


@pytest.fixture
def sent(crowd: Crowd) -> Iterator[dict[str, Any]]:
    """Return the statements that the product sends, each with the parameters it had first."""
    with recorded(crowd.rig.db) as statements:
        yield statements


@pytest.mark.slow
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
    marks = next(stores.due_marks.claimed_marks(write_token))
    list(stores.outcomes.of_marks(write_token, marks[:100]))
    settled = [Ref("dropped", f"m-{seq:06}") for seq in page.seqs]
    stores.settlements.settle(write_token, stores.settlements.progress(write_token, settled), 600)
    stores.batches.unfinished("crowd", 10**6)

    assert bad_plans(rig.db, sent) == {}


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
    assert bad_plans(rig.db, sent) == {}
