"""Compare and delete with executors: the engine that a Spark worker's activities use."""

from sexton.runtime.engine import Engine
from sexton.runtime.spark.compare import SparkComparison
from sexton.runtime.spark.deleter import GROUP_FILES, SparkDeleter
from sexton.runtime.spark.deletion import Work
from sexton.runtime.spark.session import Sessions

AT_ONCE = 2
"""Activities that one Spark worker runs at the same time, on the same executors."""


class SparkEngine:
    """Compares and deletes on Spark."""

    def __init__(self, engine: Engine, sessions: Sessions, work: Work, *, connections: int, scratch: str) -> None:
        """Build the comparison and the recycler.

        Args:
            engine: claims, settles and stores findings, in this process.
            sessions: where jobs run.
            work: the settings that executors build their engines with.
            connections: to the database, of all executors together.
            scratch: a folder that every executor sees.
        """
        stores = engine.stores
        share = max(1, connections // AT_ONCE)
        self.compare = SparkComparison(
            sessions, work.where, stores.vaults, stores.live_side, stores.checks, scratch=scratch, connections=share
        )
        deleter = SparkDeleter(sessions, work, stores.pipeline.outcomes, share)
        self.recycler = engine.recycler(deleter, group_files=GROUP_FILES)
