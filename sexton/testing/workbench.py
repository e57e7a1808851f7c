"""A deployment of one instance in this process: a database, a vault in a directory, and rounds without Temporal."""

import atexit
import os
import re
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import mkdtemp

from config.settings import Settings
from sexton.check.model import CheckReport, CheckRequest, ConcludeOrder
from sexton.contract import NewMark, mark
from sexton.database import schema
from sexton.database.engine import Database
from sexton.marks.model import Ref
from sexton.operators.registry.add_remove import add_vault
from sexton.owners.plugins import add_instance
from sexton.owners.port import NotAsked
from sexton.protection.model import Item, Protection
from sexton.protection.policy import digest
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.planning.policy import waves
from sexton.recycle.planning.sql.measure import no_heartbeat
from sexton.recycle.rounds.ledger import Ledger
from sexton.runtime.embedded.ports import Ports
from sexton.runtime.embedded.postgres import ADMIN, PostgresServer
from sexton.runtime.engine import Engine
from sexton.storage.model import VaultSpec

INSTANCE, VAULT, DEPLOYMENT = "lake", "disk", "test-workbench"
FALLS_DUE_SECONDS = 30 * 86_400
"""More than any default retention."""


@cache
def server() -> PostgresServer:
    """Start a PostgreSQL for this process, which needs the extra ``embedded``; it ends and is removed with it."""
    home = Path(mkdtemp(prefix="sexton-workbench-"))
    server = PostgresServer(home, Ports(home), "", {"fsync": "off"})
    server.start()
    atexit.register(rmtree, home, ignore_errors=True)
    atexit.register(server.stop)
    return server


def new_database() -> str:
    """Return the URL of a new empty database of ``server()``."""
    import psycopg

    name = f"bench_{token_hex(6)}"
    with psycopg.connect(server().url("postgres", ADMIN), autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}".encode())
    return server().url(name, ADMIN)


class Workbench:
    """One instance with one vault. Time is moved by ``later``; ``restart`` begins as another process would."""

    def __init__(self, directory: Path, owner: str, options: Mapping[str, str], database_url: str = "") -> None:
        """Create the schema in an empty database, by default a new one of ``server()``; register the instance."""
        self.url = database_url or new_database()
        self.root = directory / "vault"
        self.root.mkdir(parents=True)
        deployment = schema.belongs_to(self.url) or DEPLOYMENT
        self.settings = Settings(deployment=deployment, database_url=self.url)
        schema.init(self.url, deployment)
        self.db = Database.open(self.url, live_url=re.sub("//[^:@]*", "//{instance}_reader", self.url))
        self.restart()
        registry = self.engine.stores.registry
        add_instance(self.db, registry, INSTANCE, owner, options)
        self.asked_early = self._ask()
        """Whether the owner was asked before the instance had a vault."""
        vault = VaultSpec(instance=INSTANCE, name=VAULT, kind="local", location=str(self.root))
        add_vault(registry, vault, deployment, "")
        registry.enable(INSTANCE)

    def _ask(self) -> bool:
        """Ask the owner what plans and `sexton instance add` ask; return whether it was asked."""
        self.owner.mark_due(INSTANCE, {}, no_heartbeat)
        self.owner.live_objects(INSTANCE)
        try:
            self.owner.live(INSTANCE, (), no_heartbeat)
        except NotAsked:
            return False
        return True

    def restart(self) -> None:
        """Build the engine and its owners again, with nothing left in memory."""
        self.engine = Engine(self.db, self.settings.engine_settings())
        self.owner = self.engine.stores.owners
        self._recycler = self.engine.recycler(self.engine.deleter)

    def close(self) -> None:
        """Close every connection."""
        self.db.close()

    def later(self, seconds: int = FALLS_DUE_SECONDS) -> None:
        """Move the database's clock forward."""
        schema.move_clock(self.db, seconds)

    def put(self, key: str) -> None:
        """Write one object, as if it was written long ago."""
        file = self.root / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 10)
        os.utime(file, (0, 0))

    def keys(self) -> set[str]:
        """Return the keys of all objects, listed without Sexton; not those of its own folder."""
        files = (file.relative_to(self.root) for file in self.root.rglob("*") if file.is_file())
        return {file.as_posix() for file in files if file.parts[0] != "_sexton"}

    def marks(self) -> set[Ref]:
        """Return the marks."""
        t = self.db.t.mark
        with self.db.read() as c:
            return {Ref(row.kind, row.id) for row in c.execute(t.select())}

    def mark_by_mistake(self, key: str) -> None:
        """Mark one object as a confused owner would, also if it is live."""
        with self.db.write() as c:
            mark(c, INSTANCE, "dropped", [NewMark(id=uuid.uuid4().hex, vault=VAULT, keys=(key,))])

    def protect(self, job: str, keys: set[str]) -> None:
        """Register a protection of objects, as a job that copies them does; raise unless all of them are there."""
        items = sorted(Item(VAULT, key) for key in keys)
        protection = Protection(instance=INSTANCE, job=job, owner="suite", digest=digest(items))
        self.engine.stores.registrar.register_at_once(protection, items)

    def round(self) -> RoundReport:
        """Run one whole round as the workflow does."""
        rounds, policy, ledger = self.engine.rounds, self.settings.policy(), Ledger()
        opened = rounds.open(INSTANCE, uuid.uuid4().hex, None, policy)
        ledger.leases = 1
        opened = self._recycler.announce(opened, no_heartbeat)
        adopt = AdoptOrder(
            round=opened.round,
            lease=opened.lease,
            upload_grace_seconds=policy.upload_grace_seconds,
            cutoffs=opened.cutoffs,
            excluded_vaults=opened.excluded_vaults,
        )
        ledger.add_adoption(self._recycler.adopt(rounds.checked_adoption(adopt, policy), 1, no_heartbeat))
        plan = rounds.plan(INSTANCE, policy, "suite")
        ledger.begin(plan)
        kinds = {kind.kind: kind for kind in plan.kinds}
        for kind in (kinds[name] for wave in waves(kinds, plan.policy.after) for name in wave):
            while shards := ledger.unfinished_shards(kind.kind):
                order = rounds.checked_range(ledger.next_range(opened, plan, kind, shards[0]), policy)
                ledger.add_range(order, self._recycler.recycle(order, 1, no_heartbeat))
        return rounds.close(ledger.close_order(opened, plan.id or None, plan, "SUCCEEDED", ""))

    def check(self) -> CheckReport:
        """Compare records with objects once, as the workflow does."""
        checker = self.engine.checker
        order = checker.begin(CheckRequest(instance=INSTANCE, requested_by="suite"), uuid.uuid4().hex).order
        evidence = checker.compare(self.engine.in_process_compare, order, no_heartbeat)
        evidence = checker.check_again(order, evidence, no_heartbeat)
        return checker.conclude(ConcludeOrder(instance=INSTANCE, run=order.run, evidence=evidence))

    def findings(self) -> set[tuple[str, str]]:
        """Return (type, key) of each open finding."""
        return {(str(f.type), f.key) for f in self.engine.stores.checks.findings(INSTANCE, limit=10_000)}
