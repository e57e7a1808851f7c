"""``sexton.client`` gives owners, backends, consumers and followers access to binlogs over the API."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator

import pytest

from sexton.client import (
    AsyncSexton,
    Copy,
    CutDone,
    CutsDone,
    FollowerState,
    JournalAhead,
    NewRecord,
    Placements,
    ReplicaReport,
    RequestRefused,
    Sexton,
    Tablet,
    TabletReport,
    TooOld,
    methods,
)
from sexton.interfaces.api.routes import journal
from sexton.operators.registry.store import Registry
from sexton.replication.agent.http import HttpCuts
from sexton.replication.agent.model import SweepOutcome
from sexton.replication.binlog.model import MAX_COMMIT_SEQ
from tests.integration.replication.binlog_instance import DB, BinlogInstance, new_instance, upsert
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.clock import Clock
from tests.support.rig import Rig

HOLD = 86_400


class Served:
    """The API over one database, with clients of the owner, a backend, a consumer and a follower."""

    def __init__(self, api: Api, binlogs: BinlogInstance) -> None:
        self.api, self.binlogs = api, binlogs
        scopes = [f"{grant}@{binlogs.instance}" for grant in ("operate", "node:b1", "sync:copy", "node:f1")]
        clients = [Sexton(api.url, api.token(scope, days=9), patience_seconds=5) for scope in scopes]
        self.owner, self.backend, self.consumer, self.follower = self.clients = clients

    def place(self) -> None:
        copies = tuple(Copy(backend=b, uid=f"t1.{b}") for b in ("b1", "b2"))
        placed = Placements(tablets=(Tablet(tablet="t1", partition="p1", copies=copies),))
        self.owner.place_replicas(DB, "orders", placed)

    def commit(self, *seqs: int, table: str = "orders") -> int:
        """Commit records with versions of their own numbers, an hour old; return how many were stored."""
        at = self.binlogs.now - 3_600_000
        made = (NewRecord(commit_seq=n, timestamp=at, tables=(table,), data=upsert(**{table: {"p1": n}})) for n in seqs)
        return self.owner.add_records(DB, made).stored

    def report(self, backend: str, *ranges: tuple[int, int], sequence: int = 1, **more: bool) -> object:
        its = TabletReport(uid=f"t1.{backend}", versions=ranges or None, **more)
        return self.owner.report(backend, ReplicaReport(boot=1, sequence=sequence, tablets=(its,)))

    def health(self) -> dict[tuple[str, str], tuple[bool, int]]:
        """What is wrong with replicas, by the database's rows."""
        found, _ = self.binlogs.service.replicas.list_unhealthy(self.binlogs.instance, every=True)
        return {(r.tablet, r.backend): (r.bad, r.failed) for r in found if r.bad or r.failed >= 0}


def health(replica: FollowerState) -> dict[tuple[str, str], tuple[bool, int]]:
    return {key: (its.bad, its.failed) for key, its in replica.unhealthy().items()}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    rig = Rig(new_database())
    with Api(rig) as api:
        yield api
    rig.db.close()


@pytest.fixture
def served(api: Api) -> Iterator[Served]:
    made = Served(api, new_instance(api.app.state.service.db))
    yield made
    for client in made.clients:
        client.close()


def test_records_are_sent_in_repeatable_chunks(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "CHUNK_BYTES", 1_000)
    served.owner.keep_log(DB, ttl_seconds=60)
    records = [NewRecord(commit_seq=n, type="ALTER", data='"' * 400) for n in range(1, 10)]

    first, again = served.owner.add_records(DB, iter(records)), served.owner.add_records(DB, records)

    with pytest.raises(RequestRefused, match="no binlog of none") as unknown:
        served.owner.read_records("none")
    with pytest.raises(RequestRefused, match="ten years"):
        served.owner.keep_log(DB, ttl_seconds=-1)

    assert (unknown.value.code, unknown.value.status) == ("NOT_FOUND", 404)
    assert [len(chunk) for chunk in methods.chunks(records)] == [1] * 9  # a quote is two bytes in JSON
    assert (first.stored, again.stored, again.known) == (9, 0, 9)
    assert served.binlogs.readable_seqs() == list(range(1, 10))
    assert served.owner.logs().items[0].records == 9


def test_a_chunk_has_no_more_records_than_the_api_takes() -> None:
    records = [NewRecord(commit_seq=n, type="ALTER") for n in range(1, 10_002)]

    assert [len(chunk) for chunk in methods.chunks(records)] == [10_000, 1]
    assert list(methods.chunks([])) == []
    tables = tuple(f"t{n}" for n in range(1_000))
    records = [NewRecord(commit_seq=n, type="ALTER", tables=tables) for n in range(1, 52)]
    assert [len(chunk) for chunk in methods.chunks(records)] == [50, 1]
    partitions = json.dumps([{"partitionId": n, "version": 1} for n in range(30_000)])
    records = [NewRecord(commit_seq=n, data=partitions) for n in range(1, 4)]
    assert [len(chunk) for chunk in methods.chunks(records)] == [1, 1, 1]


def test_b28_a_consumer_blocks_unacknowledged_records(served: Served) -> None:
    served.owner.keep_log(DB, ttl_seconds=60)
    served.commit(1, 2, 3)
    served.owner.register_consumer("copy", DB)
    held = served.binlogs.cut_expired().held
    page = served.consumer.read_records(DB, consumer="copy", limit=2)
    served.consumer.acknowledge("copy", DB, page.records[-1].commit_seq)
    cut = served.binlogs.cut_expired().records

    assert (held, cut, page.status) == (1, 2, "OK")
    assert [r.commit_seq for r in page.records] == [1, 2]
    assert [(c.name, c.acked) for c in served.owner.consumers().items] == [("copy", 2)]
    assert served.owner.read_records(DB, after=3).status == "TOO_NEW"
    for ask in (
        lambda: served.owner.read_records(DB, after=1),
        lambda: served.owner.register_consumer("late", DB, after=0),
    ):
        with pytest.raises(TooOld) as told:
            ask()
        assert (told.value.first, told.value.code, told.value.status) == (3, "TOO_OLD", 410)
    served.consumer.remove_consumer("copy", DB)
    assert served.owner.consumers().items == ()


def test_only_a_backend_itself_reports_and_acknowledges(served: Served) -> None:
    served.owner.keep_log(DB, ttl_seconds=60)
    served.place()
    served.commit(1, 2, 3)
    served.binlogs.cut_expired()
    before = served.backend.cuts("b1").cuts
    served.report("b1", (0, 3))
    served.report("b2", (0, 2))
    (cut,) = served.backend.cuts("b1").cuts
    need = served.owner.replicas("t1").need
    taken = served.backend.acknowledge_cuts("b1", CutsDone(done=(CutDone(uid=cut.uid, version=cut.version),)))
    with pytest.raises(RequestRefused, match="token of scope"):
        served.backend.cuts("b2")

    assert (before, cut.uid, cut.version, need, taken.taken) == ((), "t1.b1", 2, 3, 1)
    assert served.backend.cuts("b1").cuts == ()
    assert served.binlogs.replica("t1", "b1").acked == 2
    served.owner.drop_log(DB, "orders", instance=served.binlogs.instance)
    Registry(served.binlogs.db).add_instance("another")  # so that a token of all has to name one
    cuts = HttpCuts(served.api.url, served.api.token("node:b1@*"), "b1", served.binlogs.instance)
    page = cuts.page("")
    cuts.acknowledge([CutDone(uid="t1.b1", version=MAX_COMMIT_SEQ, outcome=SweepOutcome.DONE)])
    cuts.close()
    assert [cut.uid for cut in page.cuts] == ["t1.b1"]
    assert served.binlogs.granted_cuts("b1") == {}


@pytest.mark.slow
def test_a_long_poll_is_answered_by_the_next_entry(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    nothing = served.follower.journal(0, wait=0.2, follower="f1")
    waited = time.monotonic() - began
    monkeypatch.setattr(journal, "time", Clock())  # its time is never over
    later = threading.Timer(0.2, lambda: served.owner.drop_log(DB, "orders"))
    later.start()
    page = served.follower.journal(0, wait=25, follower="f1")
    later.join()

    assert (nothing.entries, waited >= 0.2) == ((), True)
    assert ([e.seq for e in page.entries], page.head) == ([1], 1)


@pytest.mark.slow
def test_a_follower_restarts_where_entries_are_missing(served: Served) -> None:
    replica = FollowerState()
    following = served.follower.follow(replica, follower="f1")
    served.owner.keep_log(DB, ttl_seconds=60)
    served.place()
    for n in (1, 2, 3):
        served.commit(n)
        replica.record(DB, n, ("orders",))
    for b in ("b1", "b2"):
        replica.place("t1", b)
    served.report("b2", bad=True)
    following.catch_up()
    first = (replica.logs(), health(replica), following.restarts)
    served.binlogs.cut_expired()
    served.binlogs.later(HOLD + 1)  # it is silent for so long that nothing is kept for it
    served.binlogs.service.journal.trim(served.binlogs.instance, HOLD * 1_000, lambda: None)
    served.report("b2", (0, 1), (3, 3), sequence=2)
    served.binlogs.later(61)
    served.report("b2", (0, 1), (3, 3), sequence=3)
    served.binlogs.cut_expired()
    served.report("b1", bad=True)

    assert first == ({DB: {"": [1, 2, 3], "orders": [1, 2, 3]}}, {("t1", "b2"): (True, -1)}, 0)
    with pytest.raises(TooOld):
        served.follower.journal(replica.applied, follower="f1")
    following.catch_up()
    assert (following.restarts, replica.logs()) == (1, {})
    assert health(replica) == served.health() == {("t1", "b1"): (True, -1), ("t1", "b2"): (True, -1)}
    assert replica.applied == served.binlogs.service.journal.head(served.binlogs.instance)


def test_a_follower_of_a_restored_journal_restarts(served: Served) -> None:
    replica = FollowerState()
    replica.place("t1", "b1")
    replica.applied = 1_000
    served.place()
    served.report("b1", bad=True)
    following = served.follower.follow(replica, follower="f1")
    with pytest.raises(JournalAhead):
        served.follower.journal(1_000, follower="f1")

    assert (following.step(), following.step()) == (True, False)
    assert (replica.applied, following.restarts, health(replica)) == (1, 1, {("t1", "b1"): (True, -1)})


def test_the_async_client_sends_the_same_requests(served: Served) -> None:
    async def ask() -> object:
        async with AsyncSexton(served.api.url, served.api.token(f"operate@{served.binlogs.instance}")) as client:
            await client.keep_log(DB, ttl_seconds=60)
            stored = await client.add_records(DB, [NewRecord(commit_seq=n, type="ALTER") for n in (1, 2)])
            await client.register_consumer("copy", DB)
            await client.acknowledge("copy", DB, 2)
            copies = (Copy(backend="b1", uid="t1.b1"),)
            tablet = Tablet(tablet="t1", partition="p1", copies=copies)
            placed = await client.place_replicas(DB, "orders", Placements(tablets=(tablet,)))
            told = ReplicaReport(boot=1, sequence=1, tablets=(TabletReport(uid="t1.b1", bad=True),))
            heard = await client.report("b1", told)
            unwell = (await client.unwell()).items
            journal, snapshot = await client.journal(0, wait=1), await client.snapshot()
            (log, _), (consumer,) = (await client.logs()).items, (await client.consumers()).items
            read = await client.read_records(DB, after=1)
            await client.remove_consumer("copy", DB)
            cuts = ((await client.drop_log(DB, "orders")).replicas, len((await client.cuts("b1")).cuts))
            taken = await client.acknowledge_cuts("b1", CutsDone(done=(CutDone(uid="t1.b1", version=MAX_COMMIT_SEQ),)))
            return locals()

    its = asyncio.run(ask())

    assert isinstance(its, dict)
    assert (its["stored"].stored, its["placed"].added, its["heard"].bad) == (2, 1, 1)
    assert [r.backend for r in its["unwell"]] == ["b1"]
    assert [e.seq for e in its["journal"].entries] == [1]
    assert (its["snapshot"].seq, its["log"].last_seq, its["consumer"].acked) == (1, 2, 2)
    assert ([r.commit_seq for r in its["read"].records], its["cuts"], its["taken"].taken) == ([2], (1, 1), 1)
