"""Mimir #2560: one tenant with much garbage, or with a slow store, blocked all others.

In Sexton the tenant that waited longest is served first and no tenant has more than one slot, so that one delays no
other.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.model import LeaseBusy, NoFreeSlot
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.registry.markers import MarkerStore
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.sql.reports import RoundSchedule
from sexton.recycle.rounds.sql.store import RoundStore
from sexton.storage.vaults import ProvenVaults
from tests.museum.tables import rows
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.eventually import eventually
from tests.support.rig import DEPLOYMENT, GRACE, Rig, listing, put
from tests.support.unpaced import Unpaced

BIG, TENANTS = "big", [f"tenant-{n}" for n in range(9)]
SLOTS, INTERVAL, TURNS = 3, 1, 2
KEEP = {"live/keep.dat": 10}
SMALL_PAGE = 10
PAGES, SLOW_SECONDS = 100, 10
"""Of the big tenant, and of each request: it takes longer than the others' turns, on any machine."""


class Small(Unpaced):
    """No pace, and so few keys in a page that a small backlog has many."""

    def page_keys(self, place: str) -> int:
        return SMALL_PAGE


@pytest.fixture
def store(s3_server: RunningS3) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        yield proxy


def worker(url: str, endpoint: str) -> Rig:
    """Return the wiring of one worker of several; what is marked is due at once, and a turn comes every second."""
    rig = Rig(url, endpoint_url=endpoint, threads=1)
    rig.policy = policy({"dropped": 0}, GRACE)
    rig.leases = LeaseStore(rig.db, at_once=SLOTS)
    rig.rounds = RoundStore(rig.db, rig.leases, rig.operators, INTERVAL)
    in_process(rig, threads=1)
    return rig


def in_process(rig: Rig, threads: int) -> None:
    """Give a rig one pool for all its rounds, and proofs by the real clock, which rounds side by side may share."""
    vaults = ProvenVaults(rig.registry.vault, DEPLOYMENT, rig.endpoint_url, records=MarkerStore(rig.db))
    rig.deleter, rig.vaults = ThreadDeleter(rig.stores, vaults, threads, Small()), vaults
    rig.recycler = rig.recycler_of(rig.owner)


def backlog(rig: Rig, bucket: str, pages: int) -> None:
    """Mark so many pages of keys of the big tenant; the store says of each that it is deleted."""
    rig.instance(BIG).s3(bucket, instance=BIG)
    names = ([f"data/{p}/{n}.dat" for n in range(SMALL_PAGE)] for p in range(pages))
    rig.mark("dropped", *(NewMark(id=f"b{p}", vault="cold", keys=tuple(k)) for p, k in enumerate(names)), instance=BIG)


def garbage(rig: Rig, root: Path, tenant: str, n: int) -> None:
    put(root / tenant, f"data/{n}.dat")
    rig.mark("dropped", NewMark(id=f"t{n}", vault="disk", keys=(f"data/{n}.dat",)), instance=tenant)


def ended(rig: Rig) -> Counter[str]:
    """Return how many rounds of each tenant have ended well; one that found another at work is cut off later."""
    return Counter(str(r[0]) for r in rows(rig, "SELECT instance FROM {}round WHERE state = 'SUCCEEDED'"))


def until(what: str, happened: Callable[[], object], working: Sequence[Future[None]] = ()) -> None:
    """Wait for something; who works must not have ended meanwhile."""

    def happened_at_work() -> object:
        for one in working:
            assert not one.done() or one.result()
        return happened()

    eventually(what, happened_at_work)


@contextmanager
def working(workers: list[Rig], store: FaultProxy) -> Iterator[Sequence[Future[None]]]:
    """Let each worker take whose turn it is, one round after the other, until the end of the block."""
    over = threading.Event()

    def work(rig: Rig) -> None:
        turns = RoundSchedule(rig.db, rig.controls, INTERVAL, SLOTS)
        while not over.wait(0.05):
            for name in turns.due().instances:
                try:
                    rig.round(name)
                except (LeaseBusy, NoFreeSlot):
                    continue
                break

    with ThreadPoolExecutor(len(workers)) as pool:
        all_ = [pool.submit(work, rig) for rig in workers]
        try:
            yield all_
        finally:
            over.set()
            store.delay("DeleteObjects", 0)
        for one in all_:
            one.result()


@pytest.mark.slow
def test_mimir_2560_tenants_have_turns_beside_a_slow_one(
    database_url: str, tmp_path: Path, store: FaultProxy, bucket: str
) -> None:
    workers = [worker(database_url, store.url) for _ in range(SLOTS)]
    rig = workers[0]
    backlog(rig, bucket, PAGES)
    for tenant in TENANTS:
        put(rig.instance(tenant).local(tmp_path / tenant, instance=tenant), "live/keep.dat")
        garbage(rig, tmp_path, tenant, 0)
    store.delay("DeleteObjects", SLOW_SECONDS)

    with working(workers, store) as at_work:
        known: Counter[str] = Counter()

        def all_had_their_turns() -> bool:
            had = ended(rig)
            for tenant in TENANTS:
                if known[tenant] < had[tenant] < TURNS:  # so that there is something to do in each
                    known[tenant] = had[tenant]
                    garbage(rig, tmp_path, tenant, had[tenant])
            return min(had[t] for t in TENANTS) >= TURNS

        until("every tenant had its turns", all_had_their_turns, at_work)
        before = ended(rig)[BIG]
        store.delay("DeleteObjects", 0)
        until("the big one's first round has ended", lambda: ended(rig)[BIG], at_work)
        late = ended(rig)
        until("everybody had one more", lambda: all(ended(rig)[t] >= late[t] + 1 for t in TENANTS), at_work)

    [big] = [r for r in rig.rounds.reports.find_round(BIG, last=100) if r.removed]
    assert before == 0, rig.rounds.reports.find_round(BIG, last=9)  # it was at work all the while
    assert (big.state, big.removed, big.faults) == ("SUCCEEDED", PAGES, 0)
    assert all(listing(tmp_path / t) == KEEP for t in TENANTS)
    assert rows(rig, "SELECT count(*) FROM {}mark") == [(0,)]
    for each in workers:
        each.db.close()


@pytest.mark.slow
def test_mimir_2560_slow_round_shares_the_threads_of_its_process(
    database_url: str, tmp_path: Path, store: FaultProxy, bucket: str
) -> None:
    rig = worker(database_url, store.url)
    in_process(rig, threads=2)
    backlog(rig, bucket, PAGES)
    for tenant in TENANTS[:2]:
        put(rig.instance(tenant).local(tmp_path / tenant, instance=tenant), "live/keep.dat")
        garbage(rig, tmp_path, tenant, 0)
    store.delay("DeleteObjects", SLOW_SECONDS)

    with ThreadPoolExecutor(1) as pool:
        big = pool.submit(rig.round, BIG)
        until("both threads are with the slow store", lambda: rig.deleter.in_flight[BIG, "cold"] == 2)
        others = [rig.round(tenant) for tenant in TENANTS[:2]]
        first = not big.done()
        store.delay("DeleteObjects", 0)
        report = big.result()
    rig.db.close()

    assert first  # they did not wait for all of it
    assert [(r.removed, r.faults) for r in others] == [(1, 0)] * 2
    assert (report.removed, report.faults) == (PAGES, 0)
    assert all(listing(tmp_path / t) == KEEP for t in TENANTS[:2])
