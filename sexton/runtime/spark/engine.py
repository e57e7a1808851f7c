"""The steps of the engine with their heavy part on executors: what a Spark worker's activities use."""

from sexton.runtime.engine import Engine
from sexton.runtime.spark.compare import OnSpark
from sexton.runtime.spark.deleter import LAP_FILES, RANGE_OBJECTS, SparkDeleter
from sexton.runtime.spark.deletion import Work
from sexton.runtime.spark.session import Sessions

AT_ONCE = 2
"""Pieces of work that one worker does at the same time; executors share them."""


class SparkEngine:
    """Compares and deletes on Spark."""

    def __init__(self, engine: Engine, sessions: Sessions, work: Work, *, connections: int, scratch: str) -> None:
        """Nothing runs yet.

        Args:
            engine: what claims, settles and keeps findings, in this process.
            sessions: where jobs run.
            work: what executors put theirs together with.
            connections: to the database, of all executors together.
            scratch: a folder that every executor sees.
        """
        share = max(1, connections // AT_ONCE)
        self.compare = OnSpark(
            sessions, work.where, engine.vaults, engine.live_side, engine.check_runs, scratch=scratch, connections=share
        )
        sweeper = SparkDeleter(sessions, work, engine.marks, share)
        self.recycler = engine.recycler(sweeper, lap_files=LAP_FILES, range_objects=RANGE_OBJECTS)
