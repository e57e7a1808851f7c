"""A comparison has more buckets for more rows, so that few of them differ where few rows do."""

import pytest

from sexton.runtime.spark.reconcile import FEW_BUCKETS, MOST_BUCKETS, bucket_counts


@pytest.mark.parametrize("rows", [0, 1_000_000])
def test_few_rows_are_compared_once(rows: int) -> None:
    assert bucket_counts(rows) == (FEW_BUCKETS,)


@pytest.mark.parametrize("rows", [10_000_000, 100_000_000])
def test_many_rows_are_compared_again_in_buckets_of_few_rows(rows: int) -> None:
    first, second = bucket_counts(rows)

    assert (first, second.bit_count()) == (FEW_BUCKETS, 1)
    assert 8 <= rows / second <= 16


def test_the_number_of_buckets_is_bounded() -> None:
    assert bucket_counts(10**12) == (FEW_BUCKETS, MOST_BUCKETS)
