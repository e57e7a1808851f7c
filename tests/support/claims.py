"""Claim and settle marks over a ``Rig``'s database directly, without a vault or a file."""

from sexton.contract import NewMark
from sexton.marks.model import Candidate, ClaimRequest, ClaimResult, File, Ref, WriteToken
from sexton.recycle.pipeline.model import RangeOrder
from tests.support.rig import Rig

FAR_MS = 10**13
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
    """Open a round as ``run`` and in it one batch, as an attempt does."""
    opened = rig.rounds.open(instance, run, None, rig.policy)
    order = RangeOrder(
        round=opened.round,
        number=number,
        lease=opened.lease,
        kind=kind,
        cutoff=FAR_MS,
        limit=1_000,
        upload_grace_seconds=600,
    )
    write_token = rig.stores.batches.open(order, attempt)[0]
    drop_unclaimed(rig, write_token)
    return write_token


def mark_keys(rig: Rig, *names: str) -> None:
    """Mark the key ``NAME.dat`` for each name."""
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in names))


def drop_unclaimed(rig: Rig, write_token: WriteToken) -> None:
    """Drop what an older attempt left in the batch, as each attempt does before it reads files."""
    after = 0
    while page := rig.stores.files.drop_unclaimed(write_token, after, second_pass=True):
        after = page.last


def claim(rig: Rig, write_token: WriteToken, kind: str, *ids: str) -> ClaimResult:
    """Resolve each mark to one file of its own, and claim; return the result of the claim."""
    rig.stores.files.store(write_token, [File(kind, i, "disk", f"data/{i}.dat", 1) for i in ids])
    return rig.stores.claims.claim(ClaimRequest(write_token, [Candidate(Ref(kind, i)) for i in ids], FAR_MS))


def finish(rig: Rig, write_token: WriteToken, kind: str, *ids: str) -> None:
    """Settle claimed marks as deleted: drop their files, so that no file remains to be deleted."""
    rig.stores.files.drop(write_token, [Ref(kind, i) for i in ids])
    rig.stores.settlements.settle(
        write_token, rig.stores.settlements.progress(write_token, [Ref(kind, i) for i in ids]), 600
    )
