"""Joins of objects and records: narrowed to what differs, in parallel, and with planted differences."""

import re

import pytest
from pyspark.sql.connect import functions as f

from sexton.runtime.spark import reconcile
from sexton.runtime.spark.session import Sessions
from tests.integration.check.conftest import Owned
from tests.integration.check.planted_faults import plant
from tests.integration.runtime.spark.test_check_on_spark import OnIt

ROWS, UNKNOWN = 400_000, 40_000
SHUFFLE_TASKS = 4
FAULTS = 1_000


@pytest.mark.slow
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


def test_findings_are_distributed_only_after_the_join(sessions: Sessions) -> None:
    with sessions.of("plan") as session:
        left = session.range(100).withColumn("name", f.col("id").cast("string"))
        right = session.range(100).withColumn("name", f.col("id").cast("string"))
        joined = left.join(right.hint("merge"), "name", "left_anti")
        plan = joined.repartition(2)._explain_string()

    exchanges = re.findall(r"Exchange (\w+)\((?:.*, )?(\d+)\), (\w+)", plan)
    assert "Coalesce" not in plan
    assert exchanges[0] == ("RoundRobinPartitioning", "2", "REPARTITION_BY_NUM")
    assert [number for kind, number, _ in exchanges if kind == "hashpartitioning"] == [str(SHUFFLE_TASKS)] * 2


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_findings_on_spark_are_exactly_the_planted_faults(owned: Owned, on_spark: OnIt) -> None:
    planted = plant(owned, 1_000_000, FAULTS)
    report = owned.check(on_spark(owned))

    assert report.whole
    assert owned.open_findings() == {
        "LOST": planted.lost,
        "SIZE_MISMATCH": planted.mismatched,
        "ORPHAN": planted.orphans,
    }
    assert report.confirmed == {"LOST": FAULTS, "SIZE_MISMATCH": FAULTS}
