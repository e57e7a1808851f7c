"""A binlog GC over thousands of tablets is affordable, and a dead backend delays it little."""

from collections.abc import Callable
from typing import Any

import pytest

from config.settings import Settings
from sexton.interfaces.worker.control import build_backend
from sexton.replication.agent.model import CutDone, SweepOrder, Swept
from sexton.replication.binlog.model import GcReport, GcRequest
from sexton.replication.replicas.model import Copy, Placement, ReplicaReport, Tablet, TabletReport
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.servers.postgres import new_database
from tests.support.rig import DEPLOYMENT, Rig
from tests.support.transactions import recorded_transactions
from tests.workflows.conftest import Served
from tests.workflows.test_binlog import AWAY
from workflows import ids, options

BACKENDS = ("b1", "b2", "b3", "b4", "b5")
COPIES, PARTS = 3, 100
MOST_EVENTS, MOST_BYTES = 200, 4_096


class Pulls:
    """What stands beside a backend here: it pulls and acknowledges, and has no files."""

    def __init__(self, world: BinlogInstance, backend: str) -> None:
        self._world, self._backend, self.took = world, backend, 0

    def sweep(self, heartbeat: Callable[[], None], _order: SweepOrder | None = None) -> Swept:
        """Pull all pages."""
        after, pages, tablets = "", 0, 0
        while True:
            page = self._world.service.sender.page(SHOP, self._backend, after, queue=True)
            done = [CutDone(uid=c.uid, version=c.version) for c in page.cuts]
            self._world.service.sender.acknowledge(SHOP, self._backend, done)
            pages, tablets, after = pages + 1, tablets + len(done), page.next
            heartbeat()
            if not after:
                self.took += tablets
                return Swept(tablets=tablets, pages=pages)


class Field:
    """So many tablets, spread evenly."""

    def __init__(self, served: Served, tablets: int) -> None:
        self.served, self.world = served, BinlogInstance(served.rig.db)
        self.world.configure_log(10)
        self.on: dict[str, list[str]] = {b: [] for b in BACKENDS}
        placed = []
        for n in range(tablets):
            where = [BACKENDS[(n + k) % len(BACKENDS)] for k in range(COPIES)]
            for backend in where:
                self.on[backend].append(f"t{n:05}.{backend}")
            copies = tuple(Copy(backend=b, uid=f"t{n:05}.{b}") for b in where)
            placed.append(Tablet(tablet=f"t{n:05}", part=f"p{n % PARTS}", copies=copies))
        self.world.service.placements.place(SHOP, Placement(db=DB, table="orders", tablets=tuple(placed)))
        self.pulls = {b: Pulls(self.world, b) for b in BACKENDS}
        for its in self.pulls.values():
            its.sweep(lambda: None)
        self._seq = 0

    def commit(self) -> None:
        """Commit an upsert of all partitions that has expired, and let all backends report that they have it."""
        self._seq += 1
        versions = {f"p{n}": self._seq for n in range(PARTS)}
        self.world.commit(self._seq, self.world.now - 60_000, orders=versions)
        for backend, uids in self.on.items():
            for n in range(0, len(uids), 5_000):
                reports = tuple(TabletReport(uid=uid, version=self._seq) for uid in uids[n : n + 5_000])
                report = ReplicaReport(boot=1, sequence=self._seq * 100 + n, tablets=reports)
                self.world.service.reports.accept(SHOP, backend, report)

    def worker(self, backend: str, settings: Settings) -> Any:
        return build_backend(self.served.client, settings, backend, self.pulls[backend])  # type: ignore[arg-type]

    async def round(self) -> tuple[GcReport, list[int]]:
        """Run one; return its report and the bytes of each event of its history."""
        request = GcRequest(deployment=DEPLOYMENT, instance=SHOP)
        handle = await self.served.begin(ids.GC_BINLOG, request, ids.gc_binlog(DEPLOYMENT, SHOP), GcReport)
        report = await handle.result()
        return report, [e.ByteSize() async for e in handle.fetch_history_events()]


def cut_in(field: Field) -> list[int]:
    """Return how many statements each transaction has that cuts what has expired, whoever lets go of it later."""
    field.commit()
    with recorded_transactions(field.served.rig.db) as transactions:
        assert field.world.cut_expired().cut == 1
    return [len(transaction) for transaction in transactions]


@pytest.mark.slow
@pytest.mark.parametrize("tablets", [2_000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_binlog_run_costs_no_more_with_more_tablets(
    served: Served, settings: Settings, monkeypatch: pytest.MonkeyPatch, tablets: int
) -> None:
    monkeypatch.setitem(options.BACKEND_SWEEP, "schedule_to_start_timeout", AWAY)
    small = Rig(new_database())
    few = cut_in(Field(Served(small, served.client), 100))
    small.db.close()
    field = Field(served, tablets)
    per_backend = tablets * COPIES // len(BACKENDS)

    many = cut_in(field)
    field.commit()
    async with (
        field.worker("b1", settings),
        field.worker("b2", settings),
        field.worker("b3", settings),
        field.worker("b4", settings),
    ):
        report, sizes = await field.round()

        assert many == few
        assert (len(sizes) < MOST_EVENTS, max(sizes) < MOST_BYTES) == (True, True)
        assert (report.backends, report.away, "backend b5" in report.said[0]) == (5, 1, True)
        assert [field.pulls[b].took for b in BACKENDS] == [per_backend] * 4 + [0]
        async with field.worker("b5", settings):  # it is back
            report, _ = await field.round()
        assert (report.backends, report.away, field.pulls["b5"].took) == (1, 0, per_backend)
