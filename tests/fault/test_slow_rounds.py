"""A round survives a store that throttles everything, and a stop ends it; plans and waits of a round are recorded."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.contract import NewMark
from sexton.operators.controls.model import ControlKind, Halted
from sexton.recycle.pacing import policy
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.rounds.sql.reports import Reports
from tests.fault.conftest import Faulty
from tests.servers.fault_proxy import FaultProxy, _Fault
from tests.servers.postgres import new_database
from tests.servers.s3 import RunningS3
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.rig import Rig

pytestmark = pytest.mark.slow


def test_plan_of_an_observing_round_can_be_applied(rig: Rig, tmp_path: Path) -> None:
    rig.registry.observe("shop")
    rig.drop(rig.local(tmp_path / "v"), "a.dat", "m", later=10_801)
    observed = rig.round()
    rig.registry.enable("shop")

    assert rig.round(plan=observed.plan).deleted == 1


def test_round_waits_for_its_lease_since_its_first_attempt(rig: Rig) -> None:
    rig.rounds.open("shop", "first", None, rig.policy)
    for _ in range(2):
        with pytest.raises(Exception, match="is running"):
            rig.rounds.open("shop", "second", None, rig.policy)
        rig.later(5)

    with rig.db.read() as c:
        row = c.execute(select(rig.db.t.round).where(rig.db.t.round.c.run_id == "second")).one()
    assert (row.waiting_since, row.report) == (row.started_at, None)

    rig.rounds.abandon("second", "halted: stopped")

    [ended] = [r.report for r in Reports(rig.db).rounds("shop", last=1)]
    assert ended is not None
    assert (ended.state, ended.error) == ("FAILED", "ended before it had a lease: halted: stopped")


MARKS, KEYS = 12, 300


class Storm(FaultProxy):
    """Refuses every request for a while from the third delete on, once ``seconds`` is set."""

    seconds = 0.0
    began: float | None = None
    _deletes = 0

    def take(self, operation: str) -> tuple[float, _Fault | None]:
        self._deletes += operation == "DeleteObjects"
        if self.seconds and self.began is None and self._deletes >= 3:
            self.began = time.monotonic()
        if self.raging:
            return 0.0, _Fault("fail", 1, 503, "SlowDown")
        return super().take(operation)

    @property
    def raging(self) -> bool:
        return self.began is not None and time.monotonic() - self.began < self.seconds

    def begin(self, seconds: float) -> None:
        self._deletes, self.seconds, self.began = 0, seconds, None


@pytest.fixture
def stormy(s3_server: RunningS3, bucket: str) -> Iterator[tuple[Rig, Storm]]:
    """One instance with a vault ``cold`` behind the proxy, and due marks whose keys nobody wrote: S3 deletes those."""
    with Storm(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        rig = Rig(new_database(), endpoint_url=proxy.url).instance()
        rig.deleter.pacer = SharedPacer(rig.all_stores.paces, rig.registry.vault, proxy.url)
        rig.vaults._clock = time.monotonic  # the rig's own clock passes quickly where several threads look at it
        rig.s3(bucket)
        names = [tuple(f"data/{mark}/{n}.dat" for n in range(KEYS)) for mark in range(MARKS)]
        rig.mark("dropped", *(NewMark(id=f"t{n}", vault="cold", keys=keys) for n, keys in enumerate(names)))
        rig.later(10_801)
        yield rig, proxy
        rig.db.close()


def test_r39_store_outage_fails_no_mark_and_slows_requests(stormy: tuple[Rig, Storm]) -> None:
    rig, proxy = stormy
    proxy.begin(3_600)

    def slowest() -> int:
        return min((f.keys_per_second for f in rig.all_stores.paces.figures()), default=int(policy.FIRST_RATE))

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(rig.round)
        rate = eventually("requests are slower", slowest, lambda rate: rate < policy.FIRST_RATE / 4)
        proxy.seconds = 0.0  # the storm ends
        report = ended.result(PATIENCE_SECONDS)

    refused = [e for e in proxy.log if e.operation == "DeleteObjects" and e.status == 503]
    assert (report.removed, report.failed, report.waiting, report.faults) == (MARKS, 0, 0, 0), report
    assert report.vaults == {"cold": "normal"}
    assert 0 < len(refused) <= 20
    [figures] = rig.all_stores.paces.figures()
    rig.deleter.pacer.reserve(
        {figures.place: 1}, time.monotonic() + 3
    )  # it tells what it learned with its next request
    [figures] = rig.all_stores.paces.figures()
    assert figures.keys_per_second > 2 * rate
    assert figures.throttled > 0


def test_stop_ends_a_round_during_a_store_outage(stormy: tuple[Rig, Storm]) -> None:
    rig, proxy = stormy
    proxy.begin(3_600)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(rig.round)
        eventually("the store refuses", lambda: proxy.raging)
        rig.controls.put(ControlKind.STOP, "shop", "drill")
        with pytest.raises(Halted):
            ended.result(PATIENCE_SECONDS)

    assert rig.count("mark", state="CLAIMED") > 0
    rig.controls.remove(ControlKind.STOP, "shop")
    proxy.seconds = 0.0
    rig.later(61)
    assert rig.round().failed == 0
    assert rig.count("mark") == 0


def test_vault_with_a_long_outage_is_excluded(stormy: tuple[Rig, Storm], monkeypatch: pytest.MonkeyPatch) -> None:
    rig, proxy = stormy
    monkeypatch.setattr(policy, "GIVE_UP_SECONDS", 2.0)
    proxy.begin(3_600)

    report = rig.round()

    assert (report.removed + report.waiting, report.failed, report.waiting > 0) == (MARKS, 0, True)
    assert report.vaults == {"cold": policy.THROTTLED}
    assert rig.count("mark", state="CLAIMED") == report.waiting
    proxy.seconds = 0.0
    assert rig.round().failed == 0
    assert rig.count("mark") == 0


def test_always_refused_key_blocks_no_other_mark_of_its_vault(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.recycle.pacing.model.TRIES", 3)
    faulty.drop("t1", "data/1/a.dat", "data/1/b.dat")
    faulty.drop("t2", "data/2/a.dat")
    faulty.proxy.fail_keys({"data/1/b.dat": "InternalError"})

    report = faulty.rig.round()

    assert (report.removed, report.failed, report.waiting) == (1, 1, 1)
    assert report.vaults == {"cold": "normal"}
    assert set(faulty.listing()) == {"data/1/b.dat"}
    assert [e.keys for e in faulty.proxy.log].count(("data/1/b.dat",)) == 2
    faulty.proxy.fail_keys({"data/1/b.dat": ""}, times=0)
    assert faulty.rig.round().removed == 1


def test_store_too_slow_for_full_pages_gets_smaller_ones(stormy: tuple[Rig, Storm]) -> None:
    rig, proxy = stormy
    proxy.reset_next("DeleteObjects", times=2)

    report = rig.round()

    assert (report.removed, report.faults) == (MARKS, 0)
    sizes = [len(e.keys) for e in proxy.log if e.operation == "DeleteObjects" and e.keys[0].startswith("data/")]
    assert min(sizes) < max(sizes)
