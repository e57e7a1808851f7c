"""Binlogs expire: storage backends let go of what no consumer and no copy of a tablet lacks any more.

What must be there is counted from what minidb committed; what is there is read from the backends' directories.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from examples.demo.backends import Backends
from examples.demo.console import Console, DemoFailed
from examples.demo.rounds import gc_binlogs
from examples.demo.world import World
from examples.minidb.binlogs import Leader, uid
from examples.minidb.follower import Follower
from sexton.client import Sexton, TooOld
from sexton.database.engine import Database
from sexton.replication.binlog.messages import GcReport
from sexton.runtime.embedded.stack import Stack

DB, TABLES, CONSUMER = "sales", ("orders", "users"), "warehouse"
TTL_SECONDS, JUMP_SECONDS, NEXT_SECONDS = 600, 1_800, 200
OLD, YOUNG = 20, 2
"""Versions of each table that expire, and that do not."""
LAGGING, LAGS_FROM = "orders.0", 16
"""A tablet of which one copy does not take the versions from here on."""
DAMAGED, LOST = "users.0", 18
"""One of which a copy loses a version."""


class Expiring:
    """One database with its front ends and backends; all of it ends with the block."""

    def __init__(self, console: Console, world: World, stack: Stack, directory: Path) -> None:
        """Make tokens, backends and front ends.

        Args:
            console: where it is shown.
            world: whose database, API and name are used.
            stack: which runs workers beside the backends.
            directory: for the directories of the backends and of the leader.
        """
        self._console, self._world, self._stack, self._instance = console, world, stack, world.instance
        self._closing = ExitStack()
        self._database = Database.open(world.environment["SEXTON_DATABASE_URL"])
        self._closing.callback(self._database.close)
        names = [f"{world.instance}-b{n}" for n in (1, 2, 3)]
        self._healthy, self._damaged, self._lagging = names
        owner, *nodes = self._tokens("operate", *(f"node:{name}" for name in names))
        url, its = f"http://{world.environment['SEXTON_API__LISTEN']}", directory / world.instance
        tokens = dict(zip(names, nodes, strict=True))
        self._backends = Backends(stack, self._closing, its, world.instance, url, tokens)
        self._owner = self._closing.enter_context(Sexton(url, owner))
        (its / "leader").mkdir()
        self._leader = Leader(DB, self._owner, self._backends.all, its / "leader", self._instance, self._now)
        self._follower = Follower(f"{world.instance}-follower", DB, self._owner, self._instance)
        self._leader.lead(self._follower)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def fill(self) -> None:
        """Commit, with a copy that lags, one that loses a version, and a consumer that has read nothing."""
        self._leader.keep(TTL_SECONDS)
        for table in TABLES:
            self._leader.create_table(table, tablets=1)
        self._owner.register_consumer(CONSUMER, DB, instance=self._instance)
        self._commit(1, OLD)
        self._backends.all[self._damaged].lose(uid(DAMAGED, self._damaged), LOST)
        self._backends.report()
        commits, binlogs = len(self._leader.committed), self._left(0, "at first")
        self._console.say(f"  {commits} commits; {binlogs} binlogs of versions on three backends")
        self._console.say(f"  {self._lagging} does not take {LAGGING} from version {LAGS_FROM} on")
        self._console.say(f"  {self._damaged} loses version {LOST} of {DAMAGED}")

    def jump(self) -> None:
        """Half an hour passes at once: a clock that jumps is not believed at the first look."""
        self._backends.await_workers()
        self._gc()
        self._world.move_clock(JUMP_SECONDS)
        cut = self._gc().cut
        self._console.same("records cut by a clock that has jumped", (0, True), (cut.records, bool(cut.refused)))
        self._console.say(f"  refused: {cut.refused.partition(',')[0]}; the next look, minutes later, believes it")
        self._world.move_clock(NEXT_SECONDS)

    def hold(self) -> None:
        """Expired, and still there: a consumer has not read it."""
        self._commit(OLD + 1, OLD + YOUNG)
        self._backends.report()
        cut = self._gc().cut
        self._console.same("records cut, and logs held, while the consumer has none", (0, 1), (cut.records, cut.held))
        self._left(0, "while the consumer has none")
        self._console.say(f"  consumer {CONSUMER} has read nothing: all {len(self._leader.committed)} records stay")

    def cut(self) -> None:
        """The consumer reads and acknowledges; what has expired goes, but for what two copies lack."""
        committed = [r.commit_seq for r in self._leader.committed]
        old = committed[: -YOUNG * len(TABLES)]
        read = self._owner.read_records(DB, instance=self._instance).records
        self._console.same("records that the consumer reads", committed, [r.commit_seq for r in read])
        self._owner.acknowledge(CONSUMER, DB, old[-1], instance=self._instance)
        self._console.same("records cut", len(old), self._gc().cut.records)
        self._console.same("the first record, for who comes late", old[-1] + 1, self._first())
        left = self._left(OLD, "after the cut")
        self._equal({(DAMAGED, self._damaged): (False, LOST)})
        self._console.say(f"  it acknowledges {len(old)}: they are cut, and their binlogs go; {left} are left:")
        kept = f"from {LAGS_FROM} on of {LAGGING}, from {LOST} on of {DAMAGED}"
        self._console.say(f"  {kept}, for one copy of each lacks them")

    def repair(self) -> None:
        """The two copies take what they lack from the binlogs that were kept for them; then those go too."""
        source, upto, taken = self._backends.all[self._healthy], OLD + YOUNG, list[list[int]]()
        for tablet, name in ((LAGGING, self._lagging), (DAMAGED, self._damaged)):
            its = self._backends.all[name]
            taken.append(its.repair(uid(tablet, name), source, uid(tablet, source.name), upto))
        self._console.same("versions repaired", [list(range(LAGS_FROM, upto + 1)), [LOST]], taken)
        self._backends.report()
        self._gc()
        left = self._left(OLD, "after the repair")
        for tablet in (LAGGING, DAMAGED):
            copies = {json.dumps(its.read(uid(tablet, name))) for name, its in self._backends.all.items()}
            self._console.same(f"different copies of {tablet}", 1, len(copies))
        self._equal({})
        self._console.say(
            f"  {sum(map(len, taken))} versions are back, all copies are the same; {left} binlogs are left"
        )
        self._console.say("  the follower has the records of its leader, and knows all copies to be well")

    def _commit(self, first: int, last: int) -> None:
        """Commit versions of both tables; the lagging copy does not take all of them."""
        for version in range(first, last + 1):
            for table in TABLES:
                lags = [self._lagging] if f"{table}.0" == LAGGING and version >= LAGS_FROM else []
                self._leader.upsert(table, rows=f"version {version}", but=lags)
                self._backends.took(f"{table}.0", version, lags)

    def _gc(self) -> GcReport:
        """Look once at all binlogs, as the tick has it done; the workers have done what is theirs when it ends."""
        report = gc_binlogs(self._stack, self._instance)
        if report.away or report.swept.failed or report.swept.quarantined:
            raise DemoFailed(f"a look at binlogs went wrong: {'; '.join((*report.said, *report.swept.said))}")
        return report

    def _left(self, cut: int, when: str) -> int:
        """Hold the binlogs on the backends against what must be there; return how many there are."""
        found = self._backends.found(self._console)
        self._console.same(f"binlogs {when}", _pairs(self._backends.expected(cut)), _pairs(found))
        return len(_pairs(found))

    def _equal(self, unwell: dict[tuple[str, str], tuple[bool, int]]) -> None:
        """Hold the follower against its leader."""
        self._follower.catch_up()
        self._console.same("the follower's records", self._leader.logs(), self._follower.logs())
        self._console.same("copies to be repaired", unwell, self._leader.unwell())
        self._console.same("copies to be repaired, as the follower knows them", unwell, self._follower.unwell())

    def _first(self) -> int:
        try:
            self._owner.read_records(DB, after=0, instance=self._instance)
        except TooOld as e:
            return e.first
        return 0

    def _now(self) -> int:
        with self._database.read() as c:
            return self._database.now(c)

    def _tokens(self, *scopes: str) -> list[str]:
        words = ("token", "create", "--days", "1", "--json", "--scope")
        with ExitStack() as all_:
            made = [all_.enter_context(self._console.began(*words, scope)) for scope in scopes]
            return [json.loads(self._console.ended(its))["token"] for its in made]


def _pairs(versions: dict[str, set[int]]) -> set[tuple[str, int]]:
    return {(copy, version) for copy, its in versions.items() for version in its}
