"""Random histories reach and survive every crash point that the code names."""

import ast
from pathlib import Path
from typing import Any

import pytest

import sexton
from tests.fault import operations as op
from tests.fault.histories import OF_OWNER, History, play
from tests.support.crashes import NAMES, OF_FENCES, OF_ROUNDS

SOURCE = Path(sexton.__file__).parent
LOADS = (op.Load(), op.Load(), op.Drop(), op.Drop(how="keys"))
OPERATIONS: dict[str, Any] = {
    "commit.deleted": op.Load(fate="dies in its commit"),
    "undrop.deleted": op.Undrop(dies=("undrop.deleted", 1)),
    "hold.guarded": op.Hold(n=1, dies=("hold.guarded", 1)),
    "hold.written": op.Hold(n=1, dies=("hold.written", 1)),
}
"""The operation that reaches a point which no round reaches."""


@pytest.mark.slow
@pytest.mark.parametrize("point", sorted(OF_ROUNDS))
def test_history_reaches_and_survives_each_crash_point(point: str) -> None:
    """Another attempt goes on after the first death of a round, another round after the second."""
    operations: list[Any] = [op.Enable(), op.Load(files=1, table=None)]
    if point in OPERATIONS:
        operations += [*LOADS, OPERATIONS[point], op.Later(10_801), op.Round()]
    for then in ("retried", "adopted") if point not in OPERATIONS else ():
        fenced = op.Load(fate="dies before committing" if point in OF_FENCES else "commits")
        time = op.Later(270_000 if point in OF_FENCES else 10_801)
        operations += [*LOADS, fenced, time, op.Round(dies=((point, 1),), then=then)]
    world = play(History(tuple(operations), barrier=True))

    assert world.deaths == {point: 1 if point in OPERATIONS else 2}


@pytest.mark.slow
def test_code_names_exactly_the_listed_crash_points() -> None:
    named_points = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reached":
                [argument] = node.args
                assert isinstance(argument, ast.Constant), f"{file}:{node.lineno}: name the point in the call"
                named_points.add(argument.value)

    assert named_points == NAMES


def test_owner_crash_points_are_listed() -> None:
    assert set(OF_OWNER) == OPERATIONS.keys()
    assert set(OF_OWNER) <= NAMES
