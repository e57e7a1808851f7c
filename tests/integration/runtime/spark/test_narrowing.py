"""A comparison joins only what differs, also where some ten thousand rows do."""

import pytest
from pyspark.sql.connect import functions as f

from sexton.runtime.spark import reconcile
from sexton.runtime.spark.session import Sessions

ROWS, UNKNOWN = 400_000, 40_000


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_many_differing_rows_do_not_join_everything(sessions: Sessions) -> None:
    with sessions.of("narrowing") as session:
        vault, name = f.lit("disk").alias("vault"), f.concat(f.lit("data/"), f.col("id")).alias("name")
        size = f.lit(10).cast("bigint").alias("bytes")
        objects = session.range(ROWS).select(vault, name, size)
        exact = session.range(UNKNOWN, ROWS).select(vault, name, size)

        with reconcile.narrowed(objects, exact, 2 * reconcile.FEW_BUCKETS * reconcile.ROWS_A_BUCKET) as (some, known):
            joined = some.count()
            unknown = some.join(known, ["vault", "name"], "left_anti")
            found = unknown.agg(f.count("*").alias("rows"), f.count_distinct("name").alias("names")).collect()

    print(f"{joined} of {ROWS} rows were joined")
    assert (found[0].rows, found[0].names) == (UNKNOWN, UNKNOWN)
    assert UNKNOWN <= joined <= ROWS // 2
