"""A comparison joins in as many tasks as Spark has for a shuffle, however few connections write its findings."""

import re

from pyspark.sql.connect import functions as f

from sexton.runtime.spark.compare import in_tasks
from sexton.runtime.spark.session import Sessions

SHUFFLE_TASKS = 4


def test_findings_are_distributed_only_after_the_join(sessions: Sessions) -> None:
    with sessions.of("plan") as session:
        left = session.range(100).withColumn("name", f.col("id").cast("string"))
        right = session.range(100).withColumn("name", f.col("id").cast("string"))
        joined = left.join(right.hint("merge"), "name", "left_anti")
        plan = in_tasks(joined, 2)._explain_string()

    exchanges = re.findall(r"Exchange (\w+)\((?:.*, )?(\d+)\), (\w+)", plan)
    assert "Coalesce" not in plan
    assert exchanges[0] == ("RoundRobinPartitioning", "2", "REPARTITION_BY_NUM")
    assert [number for kind, number, _ in exchanges if kind == "hashpartitioning"] == [str(SHUFFLE_TASKS)] * 2
