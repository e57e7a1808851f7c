"""A leader's report changes its region's row by the truth table of ``regions.merge``."""

from typing import Any

import pytest

from sexton.wal.model import MAX_EPOCH, MOST, KeepFromSource, Region
from sexton.wal.orders import LeaderReport, Stream
from sexton.wal.regions import ReportedNeed, accept_pending, is_plausible, merge, reported_need

REGION = Region(topic="wal-0", region="r1", keep_from=10, flushed=(10,), source=KeepFromSource.FLUSHED)


def need(keep_from: int | None, *flushed: int) -> ReportedNeed:
    return ReportedNeed(keep_from, flushed)


def changes(after: Region, before: Region = REGION) -> dict[str, Any]:
    """Return the columns that differ."""
    old = before.model_dump()
    return {name: value for name, value in after.model_dump().items() if value != old[name]}


def report(*streams: tuple[int | None, int | None], epoch: int = 0) -> LeaderReport:
    marks = tuple(Stream(flushed=flushed, idle=idle) for flushed, idle in streams)
    return LeaderReport(topic="wal-0", region="r1", epoch=epoch, streams=marks)


def test_a_need_up_to_the_known_end_counts() -> None:
    after = merge(REGION, need(20, 15), log_end=20)

    assert changes(after) == {"keep_from": 20, "flushed": (15,), "source": KeepFromSource.IDLE}


def test_each_column_is_raised_on_its_own() -> None:
    assert changes(merge(REGION, need(20, 4), log_end=30)) == {"keep_from": 20, "source": KeepFromSource.IDLE}
    assert changes(merge(REGION, need(5, 15), log_end=30)) == {"flushed": (15,)}


def test_a_need_that_counts_clears_the_pending_one() -> None:
    pending = REGION.model_copy(update={"pending_keep_from": 40, "pending_flushed": (3,)})

    after = merge(pending, need(10, 10), log_end=30)

    assert (after.pending_keep_from, after.pending_flushed) == (None, None)


@pytest.mark.parametrize("log_end", [None, 19])
def test_a_need_above_the_known_end_waits(log_end: int | None) -> None:
    after = merge(REGION, need(20, 15), log_end)

    assert changes(after) == {"pending_keep_from": 20, "pending_flushed": (15,)}


def test_of_two_pending_needs_the_lower_one_stays() -> None:
    pending = merge(REGION, need(20, 15), log_end=None)

    assert merge(pending, need(21, 16), log_end=None) == pending
    assert merge(pending, need(19, 14), log_end=None).pending_keep_from == 19


def test_a_report_without_marks_changes_nothing() -> None:
    pending = merge(REGION, need(20, 15), log_end=None)

    assert merge(REGION, need(None, 0), log_end=99) == REGION
    assert merge(pending, need(None, 0), log_end=99) == pending


def test_a_pending_report_counts_once_the_end_is_as_high() -> None:
    pending = merge(REGION, need(20, 15), log_end=None)

    assert accept_pending(REGION, 99) is None
    assert accept_pending(pending, 19) is None
    assert accept_pending(pending, 20) == {"keep_from": 20, "flushed": (15,), "source": KeepFromSource.IDLE}


def test_an_older_pending_report_lowers_no_stream() -> None:
    pending = merge(REGION, need(20, 4), log_end=None)
    lower = merge(REGION, need(10, 15), log_end=None)

    assert accept_pending(pending, 20) == {"keep_from": 20, "flushed": (10,), "source": KeepFromSource.IDLE}
    assert accept_pending(lower, 20) == {"keep_from": 10, "flushed": (15,), "source": KeepFromSource.FLUSHED}


@pytest.mark.parametrize(
    ("flushed", "reported", "after"),
    [
        ((101, 51), (41, 121), (101, 121)),
        ((), (7,), (7,)),
        ((7,), (3, 9), (7, 9)),
        ((7, 9), (8,), (8, 9)),
    ],
)
def test_each_stream_stays_at_its_highest_position(
    flushed: tuple[int, ...], reported: tuple[int, ...], after: tuple[int, ...]
) -> None:
    region = REGION.model_copy(update={"flushed": flushed})

    assert merge(region, need(10, *reported), log_end=200).flushed == after


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ([(9, None)], ReportedNeed(10, (10,))),
        ([(9, 12)], ReportedNeed(13, (10,))),
        ([(9, 12), (4, None)], ReportedNeed(5, (10, 5))),
        ([(None, 12)], ReportedNeed(13, (0,))),
        ([(None, None)], ReportedNeed(None, (0,))),
    ],
)
def test_a_report_names_the_first_entry_needed(
    streams: list[tuple[int | None, int | None]], expected: ReportedNeed
) -> None:
    assert reported_need(report(*streams)) == expected


@pytest.mark.parametrize(("number", "plausible"), [(MOST // 32, True), (MOST // 32 + 1, False)])
def test_an_impossible_number_is_not_plausible(number: int, plausible: bool) -> None:
    assert is_plausible(report((number, None))) is plausible
    assert is_plausible(report((1, number))) is plausible


@pytest.mark.parametrize(("epoch", "plausible"), [(MAX_EPOCH, True), (MAX_EPOCH + 1, False)])
def test_an_impossible_epoch_is_not_plausible(epoch: int, plausible: bool) -> None:
    assert is_plausible(report((1, None), epoch=epoch)) is plausible
