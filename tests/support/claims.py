"""A hand to claim with: lease, round and batch over a ``Rig``'s database, without a vault or a file."""

from sexton.marks.model import Candidate, ClaimRequest, ClaimResult, File, Ref, WriteToken
from sexton.recycle.model import RangeOrder
from tests.support.rig import Rig

AGES = 10**13
"""A cutoff in milliseconds after everything that a test marks."""


def token(
    rig: Rig,
    kind: str = "dropped",
    *,
    run: str = "run",
    number: int = 0,
    attempt: int = 1,
    instance: str = "shop",
) -> WriteToken:
    """Open a round as ``run`` and in it one batch."""
    opened = rig.rounds.open(instance, run, None, rig.policy)
    order = RangeOrder(
        round=opened.round,
        number=number,
        lease=opened.lease,
        kind=kind,
        cutoff=AGES,
        limit=1_000,
        upload_grace_seconds=600,
    )
    return rig.stores.batches.open(order, attempt)[0]


def claim(rig: Rig, with_: WriteToken, kind: str, *ids: str) -> ClaimResult:
    """Resolve each mark to one file of its own and claim what may be claimed."""
    rig.stores.files.store(with_, [File(kind, i, "disk", f"data/{i}.dat", 1) for i in ids])
    return rig.stores.claims.claim(ClaimRequest(with_, [Candidate(Ref(kind, i)) for i in ids], AGES))


def finish(rig: Rig, with_: WriteToken, kind: str, *ids: str) -> None:
    """Take claimed marks of keys for gone: their files were forgotten, so nothing is left to do."""
    rig.stores.files.drop(with_, [Ref(kind, i) for i in ids])
    rig.stores.settlements.settle(with_, rig.stores.settlements.progress(with_, [Ref(kind, i) for i in ids]), 600)
