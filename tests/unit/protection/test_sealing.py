"""A registration is sealed only with all of its chunks, and their results are summed."""

from collections.abc import Mapping

import pytest

from sexton.protection.errors import Invalid
from sexton.protection.model import NAMED, Sealed
from sexton.protection.policy import sealing

COMPLETE = Sealed(objects=3)
PARTIAL = Sealed(objects=2, claimed=1, missing=1, named=("v/a: claimed", "v/b: not there"))


@pytest.mark.parametrize("count", [None, 2])
def test_results_of_all_chunks_are_summed(count: int | None) -> None:
    sealed = sealing("j", {0: PARTIAL, 1: COMPLETE}, count, is_filter=False)

    assert sealed == Sealed(objects=5, claimed=1, missing=1, named=("v/a: claimed", "v/b: not there"))
    assert sealed.verified


def test_only_the_first_objects_are_named() -> None:
    many = Sealed(objects=80, missing=80, named=tuple(f"v/{n}: not there" for n in range(80)))

    sealed = sealing("j", {0: many, 1: many}, None, is_filter=False)

    assert (sealed.missing, len(sealed.named)) == (160, NAMED)


@pytest.mark.parametrize(
    ("results", "count", "chunk"),
    [
        ({0: COMPLETE, 1: None}, None, 1),
        ({1: COMPLETE}, None, 0),
        ({0: COMPLETE, 2: COMPLETE}, None, 1),
        ({0: COMPLETE}, 2, 1),
        ({0: COMPLETE, 1: COMPLETE, 2: COMPLETE}, 2, 2),
        ({}, 1, 0),
    ],
)
def test_unfinished_missing_or_extra_chunks_are_invalid(
    results: Mapping[int, Sealed | None], count: int | None, chunk: int
) -> None:
    with pytest.raises(Invalid, match=f"chunk {chunk} of job j is not registered correctly"):
        sealing("j", results, count, is_filter=False)


@pytest.mark.parametrize("count", [None, 0])
def test_registration_without_chunks_is_invalid(count: int | None) -> None:
    with pytest.raises(Invalid, match="no chunk"):
        sealing("j", {}, count, is_filter=False)


def test_filter_needs_no_chunk_and_is_not_verified() -> None:
    assert sealing("j", {}, None, is_filter=True) == Sealed(objects=0, verified=False)
