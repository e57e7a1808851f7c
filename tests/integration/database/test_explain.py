"""PostgreSQL plans every statement with index look-ups that read no other instance, whatever statistics it has.

The tables hold a round in the middle of its work: marks of one key each, claimed a moment ago. Statistics were taken
when the tables were empty, when nothing was claimed yet, or just now.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from config.settings import EngineSettings
from sexton.check.sql import live_side
from sexton.contract import NewMark
from sexton.marks.file_list import FileList
from sexton.marks.model import CHUNK_MARKS, File, FilePage, Ref, WriteToken
from sexton.marks.sql.file_lists import add_list
from sexton.operators.holds.model import Hold
from sexton.runtime.engine import Engine
from sexton.storage.model import KeyOutcome, KeyResult
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.database import query_plans
from tests.integration.database.query_plans import bad_plans, keep_statistics, maintain, recorded, run_script
from tests.integration.protection.registrations import protect
from tests.integration.replication.binlog_instance import BinlogInstance
from tests.integration.wal.logs import EmbeddedPlace
from tests.integration.wal.topic_stores import TopicStores
from tests.servers.postgres import Cluster
from tests.support.claims import token
from tests.support.rig import DAY, DEPLOYMENT, put
from tests.support.transactions import owner_write

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
    """A rig whose tables are full, and the token of the batch that claimed the marks of instance ``crowd``.

    The instance ``shop`` beside it is empty.
    """

    rig: Owned
    write_token: WriteToken


@pytest.fixture(
    scope="module",
    params=[pytest.param("empty", marks=pytest.mark.soak), "marked", pytest.param("claimed", marks=pytest.mark.soak)],
)
def crowd(
    request: pytest.FixtureRequest, postgres: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crowd]:
    rig = Owned(postgres.new_database())
    rig.register(tmp_path_factory.mktemp("vault")).instance("crowd")
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


def store_files(rig: Owned, write_token: WriteToken) -> None:
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


def test_a_round_is_planned_and_run_by_look_ups(crowd: Crowd, sent: dict[str, Any]) -> None:
    rig = crowd.rig
    put(rig.root, "data/p/1.dat")
    marks = [NewMark(id=f"k{n}", vault="disk", keys=(f"data/{n}.dat",)) for n in range(3)]
    marks += [NewMark(id="p", vault="disk", prefix="data/p/"), NewMark(id="lost", vault="no", keys=("x",))]
    marks += [NewMark(id="held", vault="disk", keys=("data/held.dat",))]
    rig.mark("dropped", *marks)
    rig.holds.place(Hold(instance="shop", scope="mark", mark_kind="dropped", mark_id="held", reason="a test"), 86_400)
    sent.clear()  # the statements of the round alone
    report = rig.round(after=10_801)
    rig.round(after=3_601)

    assert report.removed == 3
    assert bad_plans(rig.db, sent) == {}


@pytest.mark.slow
def test_a_check_and_its_repair_read_only_their_instance(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_side, "PART_ROWS", 2)
    with owner_write(crowd.rig.db) as c:
        c.exec_driver_sql("CREATE TABLE file (kind text, id text, vault text, key text, bytes bigint)")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT text 'shop' AS instance, * FROM file")
    keys = file_keys(150)
    crowd.rig.mark("dropped", *(NewMark(id=f"w{n}", vault="disk", keys=(f"data/w{n}.dat",)) for n in range(5)))
    crowd.rig.write_live(*keys)
    crowd.rig.write_old("data/t9/gone_0.dat")
    (crowd.rig.root / keys[3]).unlink()
    with recorded(crowd.rig.db) as sent:
        crowd.rig.check()
        report = crowd.rig.check(after=DAY + 60)
        marked = crowd.rig.repairs.orphans("shop").marked

    assert (report.confirmed, marked) == ({"LOST": 1, "ORPHAN": 1}, 1)
    assert bad_plans(crowd.rig.db, sent) == {}


def test_a_purge_reads_only_its_topic(crowd: Crowd) -> None:
    topics = TopicStores(crowd.rig.db, EmbeddedPlace(crowd.rig.db))
    topic = topics.mapped_topic(50, "r1")
    topics.flushed(topic, "r1", 29)
    with recorded(crowd.rig.db) as sent:
        purged = topics.purge(topic)
        topics.purge(topic)

    assert purged.freed == 29
    assert bad_plans(crowd.rig.db, sent) == {}


def test_a_binlog_run_reads_only_its_instance(crowd: Crowd) -> None:
    binlogs = BinlogInstance(crowd.rig.db)
    binlogs.configure_log(ttl=600)
    binlogs.place("t1", "be1", "be2")
    for seq in (10, 20):
        binlogs.commit(seq, orders={"p1": seq})
    for backend in ("be1", "be2"):
        binlogs.report_whole("t1", backend, 20)
    with recorded(crowd.rig.db) as sent:
        binlogs.pass_time(1_200)
        binlogs.granted_cuts("be1")

    assert binlogs.log().watermark == 20
    assert bad_plans(crowd.rig.db, sent) == {}


def test_protecting_and_ending_read_only_what_is_named(crowd: Crowd) -> None:
    crowd.rig.drop(crowd.rig.root, "data/m1.dat", "m1")
    with recorded(crowd.rig.db) as sent:
        protect(crowd.rig, "copy", "data/m1.dat", seconds=60)
        crowd.rig.later(3 * DAY)
        crowd.rig.protections.end_due("shop")
        crowd.rig.protections.delete_ended_rows()

    assert bad_plans(crowd.rig.db, sent) == {}


def test_a_tick_reads_no_growing_table(crowd: Crowd) -> None:
    engine = Engine(crowd.rig.db, EngineSettings(deployment=DEPLOYMENT))
    with recorded(crowd.rig.db) as sent:
        due = engine.stores.round_schedule.due()
        engine.check_schedule.due()
        engine.stores.wal.schedule.any_due()
        engine.stores.wal.schedule.due("", 2_000)
        engine.stores.binlogs.schedule.due()

    assert "shop" in due.instances
    assert bad_plans(crowd.rig.db, sent) == {}
