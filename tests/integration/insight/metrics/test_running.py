"""While a round runs, its gauges move with each page, and counters grow and never fall, also at its end."""

import pytest
from sqlalchemy import insert, text

from sexton.check.model import RunState
from sexton.kernel.crash_points import installed
from sexton.recycle.model import RoundState
from sexton.recycle.rounds.sql.reports import RUNNING
from tests.integration.insight.conftest import FILES, SIZE
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig
from tests.support.scrape import Scraped, collector, scrape

DROPPED = {"instance_id": "shop", "kind": "dropped"}


def counters(s: Scraped) -> tuple[float | None, ...]:
    names = ("sexton_deleted_objects_total", "sexton_freed_bytes_total", "sexton_removed_marks_total")
    return tuple(s(name, **DROPPED) for name in names)


def test_figures_move_during_a_round_and_counters_never_fall(worker: Rig) -> None:
    cached = collector(worker, cache_seconds=3600)
    scrape(cached)  # the only full reading
    seen: list[tuple[str, tuple[float | None, ...], tuple[float | None, ...]]] = []

    def watch(point: str) -> None:
        found = scrape(cached)
        stages = (found("sexton_round_objects", instance_id="shop", stage=s) for s in ("deleted", "remaining"))
        seen.append((point, counters(scrape(worker)), (*stages, counters(found)[0])))

    with installed(watch):
        worker.round()
    values = [counts for _, counts, _ in seen] + [counters(scrape(worker))]
    ended = scrape(cached)
    worker.round(after=worker.policy.upload_grace_seconds + 10_801)  # the second pass of the prefix
    after = counters(scrape(worker))

    assert {counts[0] for counts in values} == {0, 10, 20, 30}
    assert values == sorted(values)
    assert values[-1][:2] == (FILES, FILES * SIZE)
    assert after == (FILES, FILES * SIZE, 1)
    assert "round.closed" in {point for point, *_ in seen}
    assert {(10, 20, 10), (20, 10, 20), (30, 0, 30)} <= {between for *_, between in seen}
    assert (ended("sexton_round_running", instance_id="shop"), counters(ended)[0]) == (0, FILES)


def test_gauges_show_how_far_a_round_or_check_is(worker: Rig) -> None:
    before = scrape(worker)
    with pytest.raises(Crash), installed(crash_at("outcomes.recorded", 2)):
        worker.round()
    during = scrape(worker)
    worker.sql("UPDATE {}round SET waiting = 'paused', waiting_since = started_at")
    with worker.db.write() as c:
        began = worker.db.now(c) - 60_000
        c.execute(insert(worker.db.t.check_run).values(instance="shop", run="r", state=RunState.RUNNING, cutoff=began))
    paused = scrape(worker)

    assert before("sexton_round_running", instance_id="shop") == 0
    assert before.starting_with("sexton_round_objects") == {}
    assert during("sexton_round_running", instance_id="shop") == 1
    assert during("sexton_round_waiting", instance_id="shop") == 0
    assert paused("sexton_round_waiting", instance_id="shop") == 1
    assert (paused("sexton_check_elapsed_seconds", instance_id="shop") or 0) >= 60
    objects = {s: during("sexton_round_objects", instance_id="shop", stage=s) for s in ("deleted", "remaining")}
    assert objects == {"deleted": 20, "remaining": 10}
    assert during("sexton_round_objects", instance_id="shop", stage="expected") == FILES
    assert during("sexton_round_marks", instance_id="shop", stage="due") == 1
    assert (during("sexton_round_eta_seconds", instance_id="shop") or 0) > 0
    assert (during("sexton_round_objects_per_second", instance_id="shop") or 0) > 0


def test_running_rounds_are_found_by_their_index(rig: Rig) -> None:
    round_ = rig.db.t.round
    query = f"SELECT instance FROM {round_.fullname} WHERE state = {RUNNING}"
    with rig.db.read() as c:
        c.execute(text("SET LOCAL enable_seqscan = off"))
        plan = "\n".join(str(row) for row in c.execute(text("EXPLAIN " + query)))

    assert str(RUNNING) == f"'{RoundState.RUNNING}'"
    assert "round_running" in plan
