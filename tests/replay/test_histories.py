"""Workflow histories of released versions replay with today's code."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from sexton.runtime.temporal.client import CONVERTER
from tests.replay.record import HISTORIES
from workflows import registry

RECORDED = sorted(HISTORIES.glob("*.json"))


def test_there_is_a_recorded_history_of_every_workflow() -> None:
    names = {getattr(w, "__temporal_workflow_definition").name for w in registry.ALL}
    assert names == {name for name in names for p in RECORDED if p.name.startswith(f"{name}-")}


FIRST = {
    "recycle-tick": "due_instances",
    "recycle-instance": "adopt_claimed",
    "check-instance": "begin_check",
    "purge-wal": "prepare_purge",
    "purge-wal-round": "review_topics",
    "gc-binlog": "cut_binlogs",
}
"""One of the first steps of each workflow."""


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    replayer = Replayer(workflows=registry.ALL, data_converter=CONVERTER, workflow_runner=registry.sandbox())

    result = await replayer.replay_workflow(WorkflowHistory.from_json("recorded", path.read_text()))

    assert result.replay_failure is None


def name_of(path: Path) -> str:
    """Return the workflow of a history."""
    return max((name for name in FIRST if path.name.startswith(f"{name}-")), key=len)


@pytest.mark.parametrize(("kind", "first"), FIRST.items())
async def test_a_history_of_other_steps_does_not_replay(kind: str, first: str) -> None:
    text = next(path for path in RECORDED if name_of(path) == kind).read_text()
    assert f'"name": "{first}"' in text
    other = text.replace(f'"name": "{first}"', '"name": "something_else"')
    replayer = Replayer(workflows=registry.ALL, data_converter=CONVERTER, workflow_runner=registry.sandbox())

    result = await replayer.replay_workflow(WorkflowHistory.from_json("recorded", other), raise_on_replay_failure=False)

    assert result.replay_failure is not None
