"""Ticks start due rounds, the schedule is applied once, and an operator's pause stays."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.settings import Settings
from sexton.runtime.temporal import schedules, search_attributes
from tests.servers.postgres import new_database
from tests.servers.temporal import schedule_rests
from tests.support.eventually import eventually_async
from tests.support.rig import Rig, listing
from tests.workflows.conftest import Served, changed, settings_of
from workflows import ids


@pytest.fixture
def deployment() -> str:
    """A deployment of this test alone: the schedule lives in a server that other tests use too."""
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def rig(deployment: str) -> Iterator[Rig]:
    rig = Rig(new_database(deployment), deployment=deployment)
    yield rig
    rig.db.close()


@pytest.fixture
def settings(rig: Rig) -> Settings:
    return settings_of(rig, recycle={"recycle_concurrency": 2})


@pytest.fixture
def fast(settings: Settings) -> Settings:
    """Settings that let the schedule tick every three seconds; the worker's rounds have the usual interval."""
    return changed(settings, recycle={"recycle_interval_seconds": 10})


async def until_ended(rig: Rig, rounds: int) -> None:
    await eventually_async(
        f"{rounds} rounds have ended, and none is under way",
        lambda: (rig.count("round", state="SUCCEEDED"), rig.count("lease", state="BUSY")),
        lambda seen: seen[0] >= rounds and seen[1] == 0,
    )


@pytest.mark.slow
async def test_paused_rounds_take_no_slots(served: Served, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        served.filled(name, tmp_path / name, 2)
    paused = [await served.start(name, signal="pause") for name in ("a", "b")]

    due = await (await served.tick()).result()
    for handle in paused:
        await handle.signal("cancel")
        await handle.result()
    await until_ended(served.rig, 2)

    assert due.instances == ("c", "d")


async def test_applying_the_schedule_again_keeps_a_pause(
    served: Served, settings: Settings, fast: Settings, deployment: str
) -> None:
    client = served.client

    outcomes = [await schedules.apply(client, fast) for _ in "12"]
    await schedules.pause(client, deployment, "hands off")
    outcomes.append(await schedules.apply(client, fast))
    outcomes.append(await schedules.apply(client, settings))
    (schedule,) = await schedules.describe(client, deployment)

    assert outcomes == ["created", "unchanged", "unchanged", "updated"]
    assert (schedule.id, schedule.paused, schedule.note, schedule.every_seconds) == (
        f"{deployment}/tick",
        True,
        "hands off",
        53.0,
    )
    await schedules.resume(client, deployment, "go on")
    assert not (await schedules.describe(client, deployment))[0].paused
    await schedules.handle(client, deployment).delete()


@pytest.mark.slow
async def test_schedule_starts_every_instance_unless_paused(
    served: Served, fast: Settings, deployment: str, tmp_path: Path
) -> None:
    rig = served.rig
    for name in ("a", "b", "c"):
        served.filled(name, tmp_path / name, 2)

    await schedules.apply(served.client, fast)
    await until_ended(rig, 3)
    await schedules.pause(served.client, deployment, "for the test")
    await schedule_rests(served.client, ids.tick(deployment))
    for name in ("a", "b", "c"):  # a tick before the pause may have started another round, and a round asks for a tick
        await served.client.get_workflow_handle(ids.recycle(deployment, name)).result()
    await schedule_rests(served.client, ids.tick(deployment))
    ended, before = rig.count("round"), await schedules.handle(served.client, deployment).describe()
    await schedules.nudge(served.client, deployment)
    rig.later(3_600)
    beside = f"{deployment}-beside"
    await schedules.apply(served.client, fast.model_copy(update={"deployment": beside}))
    await eventually_async(
        "a schedule beside it, which is not paused, has ticked three times",
        schedules.handle(served.client, beside).describe,
        lambda seen: seen.info.num_actions + seen.info.num_actions_skipped_overlap >= 3,
    )
    await schedule_rests(served.client, ids.tick(deployment))
    after = await schedules.handle(served.client, deployment).describe()

    assert after.info.num_actions == before.info.num_actions
    assert rig.count("round") == ended
    assert [listing(tmp_path / name) for name in "abc"] == [{}, {}, {}]
    for schedule in (deployment, beside):
        await schedules.handle(served.client, schedule).delete()


INTERVALS = [(10, 3), (60, 16), (313, 53), (1_800, 59), (43_200, 60)]
"""Seconds of the shortest interval, and between ticks."""


def test_work_begins_soon_after_its_interval() -> None:
    for interval, tick in INTERVALS:
        begun = 1  # after its tick; it begins again with the first tick that finds it due
        late = -(begun + interval) % tick

        assert (schedules.tick_seconds(interval), late <= interval // 10) == (tick, True), interval


class TestOneSlotAndRareTicks:
    """A tick every twelve minutes, one slot."""

    @pytest.fixture
    def settings(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Settings:
        monkeypatch.setattr(schedules, "LONGEST_TICK_SECONDS", 900)
        rare = {"binlog": {"gc_binlog_interval_seconds": 3_600}, "wal": {"auto_purge_interval_seconds": 3_600}}
        return settings_of(rig, recycle={"recycle_concurrency": 1}, **rare)

    @pytest.mark.slow
    async def test_the_end_of_a_round_starts_the_next_one(
        self, served: Served, settings: Settings, deployment: str, tmp_path: Path
    ) -> None:
        rig = served.rig
        for name in ("a", "b", "c"):
            served.filled(name, tmp_path / name, 2)

        await schedules.apply(served.client, settings)
        await schedules.nudge(served.client, deployment)
        await until_ended(rig, 3)
        await schedules.handle(served.client, deployment).delete()

        assert [r.instance for r in reversed(rig.rounds.reports.rounds())] == ["a", "b", "c"]


async def test_search_attributes_are_registered_once(served: Served) -> None:
    before = await search_attributes.missing(served.client)

    assert set(await search_attributes.register(served.client)) == set(before)
    assert await search_attributes.missing(served.client) == []
    assert await search_attributes.register(served.client) == []
