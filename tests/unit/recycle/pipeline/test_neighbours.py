"""Prefixes of a second pass are divided into groups of one vault, neighbours together."""

import pytest

from sexton.marks.model import Ref
from sexton.recycle.pipeline.adopt import MarkPrefix, neighbours


def prefixes(vault: str, number: int) -> list[MarkPrefix]:
    return [MarkPrefix(vault, f"t{n:02}/", Ref("dropped", str(n))) for n in range(number)]


@pytest.mark.parametrize(
    ("number", "groups", "sizes"),
    [(0, 4, []), (1, 4, [1]), (4, 4, [1, 1, 1, 1]), (5, 4, [2, 2, 1]), (40, 4, [10, 10, 10, 10])],
)
def test_neighbours_stand_together_in_few_groups(number: int, groups: int, sizes: list[int]) -> None:
    divided = neighbours(prefixes("disk", number), groups)

    assert [len(group) for group in divided] == sizes
    assert [prefix for group in divided for prefix in group] == prefixes("disk", number)


def test_a_group_has_prefixes_of_one_vault() -> None:
    divided = neighbours([*prefixes("cold", 3), *prefixes("disk", 2)], 2)

    assert [[prefix.vault for prefix in group] for group in divided] == [["cold"] * 2, ["cold"], ["disk"], ["disk"]]
