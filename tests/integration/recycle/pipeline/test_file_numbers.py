"""Numbers of files are never used again by one attempt: a late outcome must not count for another file."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sexton.kernel import crash_points
from sexton.marks.model import WriteToken
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.deleter import Deleter, Deletion
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, hang_once, range_order
from tests.support.crashes import Crash, crash_at
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, listing


class DuplicatedFirst:
    """Runs its first deletion twice, as Spark may: a lost executor goes on while its task is repeated elsewhere."""

    leaves_requests = True

    def __init__(self, deleter: Deleter, start_other: Any) -> None:
        self._deleter, self._start_other, self._first = deleter, start_other, True

    def begin(self, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> Deletion:
        if self._first:
            self._first = False
            self._start_other(token)
        return self._deleter.begin(token, active_lease, after)


def test_a_late_outcome_is_not_that_of_another_file(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        rig.drop(root, f"{name}.dat", name)
        rig.later(10)
    rig.later(DUE_SECONDS)
    order = range_order(rig)
    with crash_points.installed(crash_at("claim.committed")), pytest.raises(Crash):
        rig.recycler.recycle(order.model_copy(update={"limit": 1}), 1, lambda: None)
    assert rig.row("dropped", "a").state == "CLAIMED"
    sent, answering = hang_once(monkeypatch)
    recorded = threading.Event()

    def start_other(token: WriteToken) -> None:
        lease = ActiveLease(rig.leases, rig.controls, order.lease, lambda: None)

        def delete() -> None:
            with rig.deleter.begin(token, lease) as deletion:
                deletion.release_up_to(rig.stores.files.last_number(token))
                deletion.finish()
            recorded.set()

        threading.Thread(target=delete, daemon=True).start()
        assert sent.wait(PATIENCE_SECONDS)

    def answer_after_claim(point: str) -> None:
        if point == "claim.committed":
            answering.set()
            assert recorded.wait(PATIENCE_SECONDS)

    with crash_points.installed(answer_after_claim):
        rig.recycler_of(rig.owner, DuplicatedFirst(rig.deleter, start_other)).recycle(order, 2, lambda: None)

    assert (listing(root), rig.count("mark"), rig.count("mark_history")) == ({}, 0, 2)
