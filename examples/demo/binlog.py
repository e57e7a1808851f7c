"""Tell the story of binlogs: backends delete the binlogs that have expired and that no consumer and no copy lacks.

What must remain is computed from what minidb committed; what remains is read from the backends' directories.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from examples.demo.backends import Backends, Versions
from examples.demo.console import Console, DemoFailed
from examples.demo.ending import Sight
from examples.demo.temporal import purge_binlogs
from examples.demo.world import World
from examples.minidb.binlogs import Leader, uid
from examples.minidb.follower import Follower
from sexton.client import Sexton, TooOld
from sexton.database.engine import Database
from sexton.replication.binlog.model import GcReport
from sexton.runtime.embedded.stack import Stack

DB, TABLES, CONSUMER = "sales", ("orders", "users"), "warehouse"
TTL_SECONDS, JUMP_SECONDS, NEXT_SECONDS = 600, 1_800, 200
EXPIRED, RECENT = 20, 2
"""How many versions of each table expire, and how many do not."""
LAGGING_TABLET, LAGS_FROM = "orders.0", 16
"""One copy of this tablet does not receive the versions from here on."""
DAMAGED_TABLET, LOST = "users.0", 18
"""One copy of this tablet loses this version."""


def expire_binlogs(console: Console, world: World, stack: Stack) -> list[Sight]:
    """Show the part; return rows of the table at the end."""
    console.act("Fear: binlogs expire before their consumer has read them")
    with BinlogStory(console, world, stack, stack.home / "backends") as story:
        story.fill()
        story.jump()
        story.wait_for_consumer()
        console.act("Fear: a damaged copy of a tablet can no longer be repaired from binlogs")
        story.cut()
        story.repair()
    return [
        Sight("retained binlogs", f"sexton binlog list {world.instance}", "binlog-integration.md"),
    ]


class BinlogStory:
    """One database with its leader, follower and backends; their workers end with the block."""

    def __init__(self, console: Console, world: World, stack: Stack, directory: Path) -> None:
        """Create tokens, backends, leader and follower.

        Args:
            console: where it is shown.
            world: whose database, API and instance are used.
            stack: which runs workers beside the backends.
            directory: for the directories of the backends and of the leader.
        """
        self._console, self._world, self._stack, self._instance = console, world, stack, world.instance
        self._closing = ExitStack()
        self._database = Database.open(world.environment["SEXTON_DATABASE_URL"])
        self._closing.callback(self._database.close)
        names = [f"{world.instance}-b{n}" for n in (1, 2, 3)]
        self._healthy, self._damaged, self._lagging = names
        scopes = [f"{scope}@{world.instance}" for scope in ("operate", *(f"node:{name}" for name in names))]
        owner, *nodes = console.tokens(*scopes)
        url, root = f"http://{world.environment['SEXTON_API__LISTEN']}", directory / world.instance
        tokens = dict(zip(names, nodes, strict=True))
        self._backends = Backends(stack, self._closing, root, world.instance, url, tokens)
        self._owner = self._closing.enter_context(Sexton(url, owner))
        (root / "leader").mkdir()
        self._leader = Leader(DB, self._owner, self._backends.by_name, root / "leader", self._instance, self._now)
        self._follower = Follower(f"{world.instance}-follower", DB, self._owner, self._instance)
        self._leader.lead(self._follower)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def fill(self) -> None:
        """Commit, while one copy lags, one loses a version, and a consumer reads nothing."""
        self._leader.keep(TTL_SECONDS)
        for table in TABLES:
            self._leader.create_table(table, tablets=1)
        self._owner.register_consumer(CONSUMER, DB, instance=self._instance)
        self._commit(1, EXPIRED)
        self._backends.by_name[self._damaged].lose(uid(DAMAGED_TABLET, self._damaged), LOST)
        self._backends.report()
        commits, binlogs = len(self._leader.committed), self._compare_binlogs(0, "at first")
        self._console.say(f"{commits} commits leave {binlogs} binlogs on three backends; they expire in 10 min.")
        self._console.say(f"{self._lagging} does not receive {LAGGING_TABLET} from version {LAGS_FROM} on.")
        self._console.say(f"{self._damaged} loses version {LOST} of {DAMAGED_TABLET}.")

    def jump(self) -> None:
        """Skip half an hour at once: the first run after a jump of the clock cuts nothing."""
        self._backends.await_workers()
        self._purge()
        self._world.move_clock(JUMP_SECONDS)
        cut = self._purge().cut
        self._console.same("records cut by a clock that has jumped", (0, True), (cut.records, bool(cut.refused)))
        self._console.say("Half an hour of demo time passes at once. The first run refuses:")
        self._console.show(cut.refused.partition(",")[0])
        self._console.say("Some minutes of demo time later, the next run accepts the time.")
        self._world.move_clock(NEXT_SECONDS)

    def wait_for_consumer(self) -> None:
        """Purge expired records that a consumer has not read: none is cut."""
        self._commit(EXPIRED + 1, EXPIRED + RECENT)
        self._backends.report()
        cut = self._purge().cut
        self._console.same("records cut, and logs held, before the consumer reads", (0, 1), (cut.records, cut.held))
        self._compare_binlogs(0, "before the consumer reads")
        total = len(self._leader.committed)
        self._console.say(f"Seen: consumer {CONSUMER} has read nothing, so all {total} records stay.")

    def cut(self) -> None:
        """Let the consumer read and acknowledge; expired binlogs are deleted, except those that two copies lack."""
        committed = [record.commit_seq for record in self._leader.committed]
        expired = committed[: -RECENT * len(TABLES)]
        read = self._owner.read_records(DB, instance=self._instance).records
        self._console.same("records that the consumer reads", committed, [record.commit_seq for record in read])
        self._owner.acknowledge(CONSUMER, DB, expired[-1], instance=self._instance)
        self._console.same("records cut", len(expired), self._purge().cut.records)
        self._console.same("the first record for a late reader", expired[-1] + 1, self._first_record())
        remaining = self._compare_binlogs(EXPIRED, "after the cut")
        self._compare_follower({(DAMAGED_TABLET, self._damaged): (False, LOST)})
        self._console.say(f"The consumer acknowledges {len(expired)} records: they are cut, with their binlogs.")
        self._console.say(
            f"Seen: {remaining} binlogs remain. Two copies still need {LAGGING_TABLET} from {LAGS_FROM} on"
        )
        self._console.say(f"and {DAMAGED_TABLET} from {LOST} on, so every backend retains these.")

    def repair(self) -> None:
        """Repair the two copies from the retained binlogs; then those expire too."""
        source, upto, repaired = self._backends.by_name[self._healthy], EXPIRED + RECENT, list[list[int]]()
        for tablet, name in ((LAGGING_TABLET, self._lagging), (DAMAGED_TABLET, self._damaged)):
            backend = self._backends.by_name[name]
            repaired.append(backend.repair(uid(tablet, name), source, uid(tablet, source.name), upto))
        self._console.same("versions repaired", [list(range(LAGS_FROM, upto + 1)), [LOST]], repaired)
        self._backends.report()
        self._purge()
        remaining = self._compare_binlogs(EXPIRED, "after the repair")
        for tablet in (LAGGING_TABLET, DAMAGED_TABLET):
            copies = {json.dumps(b.read(uid(tablet, name))) for name, b in self._backends.by_name.items()}
            self._console.same(f"different copies of {tablet}", 1, len(copies))
        self._compare_follower({})
        self._console.say(f"{sum(map(len, repaired))} versions are repaired from them; then they are deleted too.")
        self._console.say(f"Seen: all copies are the same, and {remaining} recent binlogs remain.")

    def _commit(self, first: int, last: int) -> None:
        """Commit versions of both tables; the lagging copy does not receive all of them."""
        for version in range(first, last + 1):
            for table in TABLES:
                lags = [self._lagging] if f"{table}.0" == LAGGING_TABLET and version >= LAGS_FROM else []
                self._leader.upsert(table, rows=f"version {version}", but=lags)
                self._backends.record_received(f"{table}.0", version, lags)

    def _purge(self) -> GcReport:
        """Purge all binlogs once, as the schedule does; when it returns, the backends' workers have deleted files."""
        report = purge_binlogs(self._stack, self._instance)
        if report.away or report.swept.failed or report.swept.quarantined:
            raise DemoFailed(f"a purge of binlogs failed: {'; '.join((*report.said, *report.swept.said))}")
        return report

    def _compare_binlogs(self, cut: int, moment: str) -> int:
        """Compare the binlogs on the backends with what must be there; return how many there are."""
        present = _pairs(self._backends.present(self._console))
        self._console.same(f"binlogs {moment}", _pairs(self._backends.expected(cut)), present)
        return len(present)

    def _compare_follower(self, unwell: dict[tuple[str, str], tuple[bool, int]]) -> None:
        """Compare the follower with its leader."""
        self._follower.catch_up()
        self._console.same("the follower's records", self._leader.logs(), self._follower.logs())
        self._console.same("copies to be repaired", unwell, self._leader.unwell())
        self._console.same("copies to be repaired, as the follower knows them", unwell, self._follower.unwell())

    def _first_record(self) -> int:
        try:
            self._owner.read_records(DB, after=0, instance=self._instance)
        except TooOld as e:
            return e.first
        return 0

    def _now(self) -> int:
        with self._database.read() as c:
            return self._database.now(c)


def _pairs(versions: Versions) -> set[tuple[str, int]]:
    return {(copy, version) for copy, copy_versions in versions.items() for version in copy_versions}
