"""A running round shows what it has listed and deleted, page by page, and about how long the rest takes."""

import json
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.insight.progress import NOTHING, round_progress
from sexton.insight.views import KindCounts, RoundCounts
from sexton.interfaces.cli.render.rounds import expected_text
from sexton.kernel.crash_points import installed
from sexton.operators.registry.markers import MarkerStore
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig, put

FILES, PAGE = 30, 10


@pytest.fixture
def worker(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A worker that deletes pages of ten keys one after the other; a prefix with thirty files is due."""
    monkeypatch.setattr("sexton.marks.file_list.PAGE_KEYS", PAGE)
    worker = Rig(rig.url, threads=1, beside=False)
    root = worker.local(tmp_path / "v")
    for n in range(FILES):
        put(root, f"t/{n:02}.dat")
    worker.mark("dropped", NewMark(id="p", vault="disk", prefix="t/"))
    worker.later(10_801)
    return worker


def cut_off(rig: Rig, point: str, times: int = 1) -> None:
    """Run a round whose worker dies at a point."""
    with pytest.raises(Crash), installed(crash_at(point, times)):
        rig.round()


@pytest.mark.parametrize(
    ("point", "times", "listed", "gone"),
    [("claim.committed", 1, FILES, 0), ("outcomes.recorded", 1, FILES, 10), ("outcomes.recorded", 2, FILES, 20)],
)
def test_counts_move_with_each_page(worker: Rig, point: str, times: int, listed: int, gone: int) -> None:
    cut_off(worker, point, times)
    [kind] = round_progress(worker.db, MarkerStore(worker.db).last_round("shop")).kinds
    worker.db.close()

    assert (kind.kind, kind.due, kind.claimed, kind.planned, kind.estimated) == ("dropped", 1, 1, 10, True)
    assert (kind.listed, kind.objects, kind.expected) == (listed, gone, FILES)


def test_each_shard_shows_how_far_it_is(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.recycle.planning.policy.SHARD_OBJECTS", 10)
    rig.local(tmp_path / "v")
    rig.mark("dropped", *(NewMark(id=f"m{n:02}", vault="disk", keys=(f"{n}.dat",)) for n in range(35)))
    rig.later(10_801)

    cut_off(rig, "claim.committed", 2)
    [kind] = round_progress(rig.db, MarkerStore(rig.db).last_round("shop")).kinds

    assert [(s.due, s.claimed, s.finished) for s in kind.shards] == [
        (9, 9, True),
        (9, 9, False),
        (9, 0, False),
        (8, 0, False),
    ]


def test_commands_show_how_far_a_round_is(worker: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    cut_off(worker, "outcomes.recorded", 2)
    number = str(MarkerStore(worker.db).last_round("shop"))

    shown = run(worker, capsys, "round", "show", number).out
    status = run(worker, capsys, "status").out
    as_json = json.loads(run(worker, capsys, "round", "show", number, "--json").out)
    worker.db.close()

    assert "20 of about 30 objects gone, about " in shown
    assert "is running since" in status
    assert ": 20 of about 30 objects deleted, about " in status
    assert as_json["progress"]["kinds"][0]["objects"] == 20


def test_a_round_that_does_not_exist_has_no_progress(rig: Rig) -> None:
    assert round_progress(rig.db, 2**40) == NOTHING


def test_objects_are_a_guess_until_the_kind_was_listed(worker: Rig, tmp_path: Path) -> None:
    [first] = worker.plan().kinds
    worker.round()
    worker.mark("dropped", NewMark(id="q", vault="disk", prefix="u/"))
    worker.later(10_801)
    [second] = worker.plan().kinds
    worker.db.close()

    assert (first.estimated, first.guessed, first.objects) == (True, True, 10)
    assert (second.estimated, second.guessed, second.objects) == (True, False, FILES)


def test_a_guess_ends_with_the_first_listing() -> None:
    planned = KindCounts(kind="dropped", due=9, planned=90, estimated=True, guessed=True)

    assert planned.is_guess
    assert not planned.model_copy(update={"listed": 1}).is_guess


def test_marks_of_this_round_say_more_than_the_plan() -> None:
    half = KindCounts(kind="dropped", due=100, claimed=50, planned=1_000, estimated=True, listed=25_000, objects=20_000)

    assert half.expected == 50_000
    assert half.model_copy(update={"held": 50}).expected == 25_000
    assert half.model_copy(update={"kept": 40}).expected == 30_000


def test_time_left_is_unknown_while_earlier_marks_are_finished() -> None:
    adopting = KindCounts(kind="dropped", objects=90)
    beside_plan = KindCounts(kind="dropped", due=9, planned=90, listed=80, objects=90)
    counts = RoundCounts(kinds=(adopting,), elapsed_ms=1_000)

    assert (counts.exceeds_expected, counts.seconds_left) == (True, None)
    assert expected_text(counts) == "an unknown number of"
    assert not beside_plan.exceeds_expected
