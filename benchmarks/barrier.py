"""What the barrier for uncommitted loads costs: a round over loads that ran out of time and over compacted files.

Every mark is a prefix, so that each is compared with the loads that may still write. The store answers at once. Goal: a
round with the barrier takes at most a tenth longer than one without.
"""

import statistics
import time

from benchmarks import contenders
from benchmarks.contenders import DEPLOYMENT, GRACE_SECONDS, INSTANCE, RETENTION_SECONDS, VAULT
from benchmarks.heavy import stub
from benchmarks.results import Figure, Result, at_most
from benchmarks.store import log_in
from config.settings import EngineSettings
from sexton import contract
from sexton.database import schema
from sexton.database.engine import Database
from sexton.marks.sql.prepared import PREPARED, PreparedKeeper
from sexton.recycle.planning.policy import policy
from sexton.runtime.engine import Engine
from sexton.runtime.stores import DeploymentStores
from tests.servers.postgres import Cluster

MARKS, PAIRS = 100_000, 3
MOST = 1.1
KINDS = {PREPARED: RETENTION_SECONDS, "compacted": RETENTION_SECONDS}
POLICY = policy(KINDS, GRACE_SECONDS, unlimited=(), max_delete_objects=20_000_000, max_delete_fraction=0.1)
TTL_SECONDS, PAGE = 60, 1_000


def run(marks: int = MARKS, pairs: int = PAIRS) -> Result:
    """Measure, in turns; the first pair is not counted."""
    log_in()
    took: dict[str, list[float]] = {"with": [], "without": []}
    cpu: dict[str, list[float]] = {"with": [], "without": []}
    cluster = Cluster()
    try:
        for pair in range(-1, pairs):
            for name in sorted(took, reverse=bool(pair % 2)):
                database = cluster.new_database(DEPLOYMENT)
                with stub() as endpoint:  # a vault tells a copy of its database from the original
                    _mark(database, endpoint, marks)
                    seconds, used = _round(database, endpoint, marks, has_barrier=name == "with")
                cluster.drop_database(database)
                if pair >= 0:
                    took[name].append(seconds)
                    cpu[name].append(used)
    finally:
        cluster.stop()
    ratios = [statistics.median(a / b for a, b in zip(*of.values(), strict=True)) for of in (took, cpu)]
    figures = [
        at_most("a round with the barrier, against one without: seconds", ratios[0], MOST, "x"),
        Figure("the same: CPU seconds of the worker", f"{ratios[1]:.2f} x"),
        Figure("marks a second, with the barrier", f"{marks / statistics.median(took['with']):,.0f}"),
    ]
    sizes = {"marks": f"{marks:,}", "pairs": pairs, "database": "PostgreSQL, fsync"}
    return Result("barrier", sizes, figures, {"seconds": took, "cpu": cpu})


def _mark(url: str, endpoint: str, marks: int) -> None:
    """Make due marks: half of them are loads that ran out of time, and half compacted files."""
    contenders.prepare(url, endpoint, 0)
    db = Database.open(url)
    for first in range(0, marks // 2, PAGE):
        ids = [f"{n:08}" for n in range(first, min(first + PAGE, marks // 2))]
        with db.write() as c:
            contract.prepare(c, INSTANCE, f"load-{first}", ids, VAULT, [f"load/{i}/" for i in ids], TTL_SECONDS)
            new = [contract.NewMark(id=i, vault=VAULT, prefix=f"data/{i}/") for i in ids]
            contract.mark(c, INSTANCE, "compacted", new)
    schema.move_clock(db, RETENTION_SECONDS + TTL_SECONDS + 1)
    with db.write() as c:
        c.exec_driver_sql("ANALYZE")
    db.close()


def _round(url: str, endpoint: str, marks: int, *, has_barrier: bool) -> tuple[float, float]:
    """Return the seconds and CPU seconds of a round."""
    db, settings = Database.open(url), EngineSettings(DEPLOYMENT, endpoint)
    stores = DeploymentStores(db, settings)
    if not has_barrier:
        stores.keepers = tuple(keeper for keeper in stores.keepers if not isinstance(keeper, PreparedKeeper))
    engine = Engine(db, settings, stores)
    began, used = time.perf_counter(), time.process_time()
    report = contenders.whole_round(engine, engine.recycler(engine.deleter), POLICY)
    spent = time.perf_counter() - began, time.process_time() - used
    db.close()
    if report.deleted != marks:
        raise AssertionError(f"the round did not do all: {report}")
    return spent
