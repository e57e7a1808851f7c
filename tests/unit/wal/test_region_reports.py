"""A leader's report changes its region's row by the truth table of ``regions.merge``."""

from typing import Any

from sexton.wal.model import MAX_EPOCH, MOST, KeepFromSource, Region
from sexton.wal.policy import LeaderReport, Stream
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


def test_a_need_up_to_the_known_end_raises_each_column() -> None:
    idle = {"source": KeepFromSource.IDLE}

    assert changes(merge(REGION, need(20, 15), log_end=20)) == {"keep_from": 20, "flushed": (15,), **idle}
    assert changes(merge(REGION, need(20, 4), log_end=30)) == {"keep_from": 20, **idle}
    assert changes(merge(REGION, need(5, 15), log_end=30)) == {"flushed": (15,)}


def test_a_need_above_the_known_end_waits_until_one_counts() -> None:
    for log_end in (None, 19):
        pending = merge(REGION, need(20, 15), log_end)
        assert changes(pending) == {"pending_keep_from": 20, "pending_flushed": (15,)}

        after = merge(pending, need(10, 10), log_end=30)
        assert (after.pending_keep_from, after.pending_flushed) == (None, None)


def test_of_two_pending_needs_the_lower_one_stays() -> None:
    pending = merge(REGION, need(20, 15), log_end=None)

    assert merge(pending, need(21, 16), log_end=None) == pending
    assert merge(pending, need(19, 14), log_end=None).pending_keep_from == 19
    for before in (REGION, pending):  # a report without marks changes nothing
        assert merge(before, need(None, 0), log_end=99) == before


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


def test_each_stream_stays_at_its_highest_position() -> None:
    for flushed, reported, after in (
        ((101, 51), (41, 121), (101, 121)),
        ((), (7,), (7,)),
        ((7,), (3, 9), (7, 9)),
        ((7, 9), (8,), (8, 9)),
    ):
        stored = REGION.model_copy(update={"flushed": flushed})
        assert merge(stored, need(10, *reported), log_end=200).flushed == after


def test_a_report_names_the_first_entry_needed() -> None:
    for streams, expected in (
        ([(9, None)], need(10, 10)),
        ([(9, 12)], need(13, 10)),
        ([(9, 12), (4, None)], need(5, 10, 5)),
        ([(None, 12)], need(13, 0)),
        ([(None, None)], need(None, 0)),
    ):
        assert reported_need(report(*streams)) == expected


def test_an_impossible_number_or_epoch_is_not_plausible() -> None:
    for surplus, plausible in ((0, True), (1, False)):
        number = MOST // 32 + surplus
        assert is_plausible(report((number, None))) is plausible
        assert is_plausible(report((1, number))) is plausible
        assert is_plausible(report((1, None), epoch=MAX_EPOCH + surplus)) is plausible
