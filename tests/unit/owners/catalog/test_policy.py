"""The catalog decides which versions are covered, which loads are fenced, and how long each kind is retained."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.sections import RecycleSection
from config.settings import Settings
from sexton.marks.model import Fenced
from sexton.owners.catalog.barrier import verdict
from sexton.owners.catalog.kinds import KINDS
from sexton.owners.catalog.model import TxnStatus
from sexton.owners.catalog.plugin import PLUGIN
from sexton.owners.catalog.rowsets import covered
from sexton.recycle.planning.policy import for_owner

ranges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda r: (min(r), max(r))), max_size=6)


@given(st.integers(0, 12), st.integers(0, 5), ranges)
def test_covered_means_every_version_is_in_some_range(first: int, more: int, given_: list[tuple[int, int]]) -> None:
    every = all(any(a <= v <= b for a, b in given_) for v in range(first, first + more + 1))

    assert covered(first, first + more, given_) == every


def test_only_an_aborted_or_forgotten_load_is_fenced() -> None:
    combinations = [(), *((s,) for s in TxnStatus), *product(TxnStatus, repeat=2)]

    let_go = [statuses for statuses in combinations if verdict(statuses)[0] is Fenced.FENCED]

    assert let_go == [(), (TxnStatus.ABORTED,), (TxnStatus.ABORTED, TxnStatus.ABORTED)]


@pytest.mark.parametrize("other", list(TxnStatus))
def test_unknown_status_blocks_and_is_named(other: TxnStatus) -> None:
    for statuses in (("visible",), ("visible", other), (other, "visible")):
        answer, why = verdict(statuses)

        assert answer is Fenced.UNKNOWN
        assert "'visible'" in why


def test_every_kind_has_the_retention_of_its_setting() -> None:
    names = sorted({kind.setting for kind in PLUGIN.kinds if kind.setting})
    seconds = {name: 4_000 + n for n, name in enumerate(names)}
    policy = for_owner(Settings(recycle=RecycleSection(**seconds)).policy(), "catalog")

    retained = {kind.name: policy.retention_seconds[kind.name] for kind in PLUGIN.kinds}

    assert retained == {kind.name: seconds.get(kind.setting, 0) for kind in PLUGIN.kinds}


def test_order_of_kinds_names_all_kinds_of_the_catalog() -> None:
    own = {kind.name for kind in PLUGIN.kinds}

    assert {*PLUGIN.after, *(k for before in PLUGIN.after.values() for k in before), *own} == KINDS.keys()
