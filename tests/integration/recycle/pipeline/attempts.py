"""Attempts of one adoption or range that overlap, and stores that throttle or hang meanwhile."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sexton.kernel.errors import SextonError
from sexton.marks.model import WriteToken
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.port import Throttled
from tests.integration.recycle.pipeline.refusing import refused_round
from tests.support.door import Door, held_call
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import GRACE, Rig, put
from tests.support.unpaced import Unpaced

DUE_SECONDS = 10_801
Delete = Callable[[LocalVault, Sequence[str], Sequence[str]], Sequence[KeyResult]]


def work_off(rig: Rig, order: AdoptOrder | RangeOrder, number: int) -> None:
    """Run an attempt at an adoption or a range."""
    if isinstance(order, RangeOrder):
        rig.recycler.recycle(order, number, lambda: None)
    else:
        rig.recycler.adopt(order, number, lambda: None)


@contextmanager
def attempt(rig: Rig, order: AdoptOrder | RangeOrder, number: int) -> Iterator[list[SextonError]]:
    """Run an attempt in a thread, to its end; yield the list of its errors."""
    errors: list[SextonError] = []

    def work() -> None:
        try:
            work_off(rig, order, number)
        except SextonError as e:
            errors.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield errors
    finally:
        thread.join(PATIENCE_SECONDS)


@contextmanager
def stuck_attempt(
    rig: Rig, order: AdoptOrder | RangeOrder, stop: AbstractContextManager[Door]
) -> Iterator[list[SextonError]]:
    """Run a first attempt up to a door, and to its end at the end."""
    with stop as door, attempt(rig, order, 1) as errors:
        assert door.reached.wait(PATIENCE_SECONDS)
        try:
            yield errors
        finally:
            door.open()


@contextmanager
def replaced_worker(rig: Rig, order: AdoptOrder | RangeOrder, *, then_refuse: bool = False) -> Iterator[None]:
    """Let a second attempt finish while the first one's request is on its way; the request arrives at the end."""
    with stuck_attempt(rig, order, hanging_request()):
        with pytest.MonkeyPatch.context() as patch:
            if then_refuse:
                patch.setattr(LocalVault, "delete", refuse)
            work_off(rig, order, 2)
        yield


def refuse(_vault: LocalVault, keys: Sequence[str], _etags: Sequence[str] = ()) -> Sequence[KeyResult]:
    """Delete nothing."""
    return [KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="AccessDenied") for key in keys]


def delete_claimed(rig: Rig, token: WriteToken, last: int, vaults: Any = None) -> None:
    """Delete the claimed files up to a number, as an executor of Spark does whose task may be repeated elsewhere."""
    lease = ActiveLease(rig.leases, rig.controls, token.lease, lambda: None)
    with ThreadDeleter(rig.stores, vaults or rig.vaults, 1, Unpaced()).begin(token, lease) as deletion:
        deletion.release_up_to(last)
        deletion.finish()


def adopt_order(rig: Rig, run: str = "second round") -> AdoptOrder:
    """Open a round; return the order for its adoption."""
    opened = rig.rounds.open("shop", run, None, rig.policy)
    return AdoptOrder(round=opened.round, lease=opened.lease, upload_grace_seconds=GRACE, cutoffs=opened.cutoffs)


def claimed_prefix(rig: Rig, root: Path, *changed: str) -> None:
    """Claim a prefix with one file, and make its first pass, which finds that these keys have changed."""
    rig.drop_files(root, "m", "t/a.dat", prefix="t/")
    rig.later(DUE_SECONDS)
    refused_round(rig, *changed, outcome=KeyOutcome.CHANGED) if changed else rig.round()


def second_pass_due(rig: Rig, root: Path) -> None:
    """Claim a prefix, put a late upload under it, and let its second pass be due."""
    claimed_prefix(rig, root)
    put(root, "t/late.dat")
    rig.later(GRACE + 1)


def prefix_in_second_pass(rig: Rig, root: Path) -> AdoptOrder:
    """Let the second pass over a prefix be due; return the order for it."""
    second_pass_due(rig, root)
    return adopt_order(rig)


def range_order(rig: Rig, *, limit: int = 1_000) -> RangeOrder:
    """Open a round, and return the order of its range of dropped marks."""
    opened = rig.rounds.open("shop", "a round", None, rig.policy)
    return RangeOrder(
        round=opened.round,
        number=0,
        lease=opened.lease,
        kind="dropped",
        cutoff=opened.cutoffs["dropped"],
        limit=limit,
        upload_grace_seconds=GRACE,
    )


@contextmanager
def throttling() -> Iterator[Door]:
    """Let local vaults throttle until the door opens."""
    real: Delete = LocalVault.delete
    door = Door()

    def delete(vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        if not door.is_open():
            door.reached.set()
            raise Throttled("disk", "slow down", retry_after=0.1)
        return real(vault, keys, etags)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalVault, "delete", delete)
        yield door


def hanging_request() -> AbstractContextManager[Door]:
    """Let the next request to a local vault hang until the door opens; those after it delete."""
    return held_call(LocalVault, "delete")
