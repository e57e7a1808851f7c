"""The progress of a check's listings: passes, failed parts, and the parts still to be listed. Pure."""

from pydantic import Field

from sexton.check.model import Listing
from sexton.kernel.message import Message
from sexton.runtime.spark.sources import ListingPart

TRIES = 3
"""How often a part is listed while its store is busy."""


class Pass(Message):
    """One listing job that has ended: its parts, the failed ones with their errors, and those to list again."""

    number: int
    parts: tuple[int, ...]
    failed: dict[int, str] = Field(default_factory=dict)
    again: tuple[int, ...] = ()


class ListingProgress(Message):
    """How far a run's listing is."""

    parts: tuple[ListingPart, ...]
    faults: dict[str, str] = Field(default_factory=dict)
    """Vaults that could not be listed, with the reason."""
    passes: tuple[Pass, ...] = ()
    ended: int | None = None


def pending_parts(progress: ListingProgress) -> list[int]:
    """Return the parts still to be listed: not tried yet, or interrupted by a busy store less than ``TRIES`` times."""
    done = {n for p in progress.passes for n in p.parts if n not in p.again}
    interrupted = [n for p in progress.passes for n in p.again]
    return [p.number for p in progress.parts if p.number not in done and interrupted.count(p.number) < TRIES]


def listing_evidence(vault: str, progress: ListingProgress, old: int, young: int) -> Listing:
    """Return the evidence of one vault's listing."""
    ended = {n for p in progress.passes for n in p.parts if n not in p.failed}
    failed = {n: error for p in progress.passes for n, error in p.failed.items() if n not in ended}
    numbers = [p.number for p in progress.parts if p.vault == vault]
    errors = [progress.faults[vault]] if vault in progress.faults else []
    errors += [failed[n] for n in numbers if n in failed][:5]
    return Listing(
        vault=vault,
        parts=max(1, len(numbers)),
        ended=len(ended.intersection(numbers)) if numbers else int(not errors),
        objects=old,
        young=young,
        errors=tuple(errors),
    )
