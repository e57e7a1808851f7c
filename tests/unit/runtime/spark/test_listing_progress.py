"""A check's listing on Spark lists each pending part again until its passes prove the result."""

from sexton.runtime.spark.listing_progress import TRIES, ListingProgress, Pass, listing_evidence, pending_parts
from sexton.runtime.spark.sources import ListingPart
from sexton.storage.model import VaultPart

PARTS = tuple(ListingPart(number=n, vault="disk", part=VaultPart()) for n in range(3))


def progress(*passes: Pass, faults: dict[str, str] | None = None) -> ListingProgress:
    return ListingProgress(parts=PARTS, passes=passes, faults=faults or {})


def test_every_part_is_pending_before_the_first_pass() -> None:
    assert pending_parts(progress()) == [0, 1, 2]


def test_a_listed_part_is_no_longer_pending() -> None:
    assert pending_parts(progress(Pass(number=0, parts=(0, 1)))) == [2]


def test_a_failed_part_is_not_listed_again() -> None:
    assert pending_parts(progress(Pass(number=0, parts=(0, 1, 2), failed={1: "gone"}))) == []


def test_an_interrupted_part_is_listed_again_a_few_times() -> None:
    busy = [Pass(number=n, parts=(0, 1, 2), failed={1: "busy"}, again=(1,)) for n in range(TRIES)]

    assert pending_parts(progress(*busy[:-1])) == [1]
    assert pending_parts(progress(*busy)) == []


def test_a_part_that_a_later_pass_listed_counts_as_ended() -> None:
    busy, done = Pass(number=0, parts=(0, 1, 2), failed={1: "busy"}, again=(1,)), Pass(number=1, parts=(1,))

    evidence = listing_evidence("disk", progress(busy, done), 7, 2)

    assert (evidence.parts, evidence.ended, evidence.errors) == (3, 3, ())
    assert (evidence.objects, evidence.young) == (7, 2)


def test_a_fault_of_the_vault_is_an_error_of_its_listing() -> None:
    evidence = listing_evidence("disk", progress(faults={"disk": "NO_MARKER"}), 0, 0)

    assert (evidence.ended, evidence.errors) == (0, ("NO_MARKER",))
