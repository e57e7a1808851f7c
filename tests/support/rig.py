"""A round without Temporal: the same steps in the same order, over a real database and real vaults.

``Rig.round()`` is a small double of the workflow; a crash is an exception at a named point and a new ``Rig`` of the
same database.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select, text, update

from config.settings import EngineSettings, Settings
from sexton import contract
from sexton.check.model import CheckReport, CheckRequest, CheckSettings, Compare, ConcludeOrder
from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.registry.add_remove import add_vault
from sexton.owners.plugin import OwnerContext
from sexton.owners.port import Owner
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.audit.writer import ParquetAudit
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.pipeline.parts import Deleter, Parts
from sexton.recycle.planning.model import KindPlan, Plan, Policy
from sexton.recycle.planning.policy import policy, waves
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import OpenedRound
from sexton.recycle.rounds.recycler import Recycler
from sexton.runtime.deployment import Deployment
from sexton.runtime.engine import Engine
from sexton.runtime.stores import DeploymentStores
from sexton.storage.model import VaultSpec
from sexton.storage.port import Vault
from tests.servers.postgres import DEPLOYMENT, shared
from tests.servers.postgres import live_url as live_url_of
from tests.support.files import stored_files
from tests.support.in_turn import InTurnDeleter
from tests.support.places import AuditList, SerializedVaults, SteppingClock
from tests.support.unpaced import Unpaced

RETENTION = {"prepared": 259_200, "compacted": 1_800, "dropped": 10_800, "orphan": 259_200}
GRACE = 3_600
DAY = 86_400
INTERVAL = 3_600
COMPILED: dict[Any, Any] = {}
"""Compiled statements, shared by the engines of all tests."""
DIALECTS: list[Any] = []
"""Their dialect, once a first engine has connected."""

Checked = Callable[[RangeOrder, Policy], RangeOrder]
"""Compares an order with the rows of its round."""


class Rig:
    """One deployment with one instance ``shop``, and the parts of one worker."""

    def __init__(
        self,
        url: str,
        *,
        endpoint_url: str = "",
        threads: int = 4,
        beside: bool = True,
        owner: Owner | None = None,
        audit: ParquetAudit | None = None,
        clock_step_seconds: float = 1.7,
        live_url: str | None = None,
        deployment: str = "",
    ) -> None:
        """Open the database and wire everything that a worker has.

        Args:
            url: a database with the schema.
            endpoint_url: of S3.
            threads: concurrent requests to a store.
            beside: whether deletes run in threads beside the claim.
            owner: by default the owner without a catalog, ``SqlOwner``.
            audit: by default a list, ``Rig.audit_list``.
            clock_step_seconds: added to the clock of vault proofs at each reading; from 2.5 on no proof is used twice.
            live_url: the database with the logins that read live views; None: the usual ones; empty: there are none.
            deployment: that of the database; empty: the one of ``new_database``.
        """
        self.url, self.endpoint_url = url, endpoint_url
        self.live_url = live_url_of(url) if live_url is None else live_url
        self.db = open_database(url, self.live_url)
        self.deployment = deployment or DEPLOYMENT
        settings = EngineSettings(self.deployment, endpoint_url, check=CheckSettings(grace_seconds=DAY))
        self.all_stores = stores = DeploymentStores(self.db, settings)
        self.operators, self.protections = stores.operators, stores.protections
        self.registry, self.controls, self.holds, self.calls = self.operators
        clock = SteppingClock(clock_step_seconds)
        self.vaults = stores.vaults = SerializedVaults(
            self.registry.vault, self.deployment, endpoint_url, clock=clock, records=stores.markers
        )
        self.owner = stores.owners = owner or SqlOwner(OwnerContext(self.db, self.registry))
        engine = Engine(self.db, settings, stores)
        self.stores, self.leases, self.rounds = stores.pipeline, engine.leases, engine.rounds
        self.deleter = (ThreadDeleter if beside else InTurnDeleter)(self.stores, self.vaults, threads, Unpaced())
        self.audit_list = AuditList()
        self.audit: Any = audit or self.audit_list
        self.recycler = self.recycler_of(self.owner)
        self.policy = policy(RETENTION, GRACE)
        self.registrar, self.runs = stores.registrar, stores.checks
        self.live_side, self.repairs = stores.live_side, stores.repairs
        self.check_ports, self.checker, self.direct = engine.check_ports, engine.checker, engine.in_process_compare

    def recycler_of(self, owner: Owner, deleter: Deleter | None = None) -> Recycler:
        """Return a recycler for an owner, with the rig's own deleter by default."""
        deleter = deleter or self.deleter
        return Recycler(Parts(self.stores, self.leases, self.controls, self.vaults, owner, self.audit, deleter))

    def copy(self) -> "Rig":
        """Return a rig of a copy of the database as it is now, like a restored backup or a clone."""
        return Rig(shared().create_database(self.url), endpoint_url=self.endpoint_url)

    def instance(self, name: str = "shop", *, enable: bool = True) -> "Rig":
        """Add an instance, enabled by default; return the rig."""
        self.registry.add_instance(name)
        if enable:
            self.registry.enable(name)
        return self

    def local(self, root: Path, name: str = "disk", instance: str = "shop") -> Path:
        """Add a vault in a directory; return the directory."""
        root.mkdir(parents=True, exist_ok=True)
        spec = VaultSpec(instance=instance, name=name, kind="local", location=str(root))
        add_vault(self.registry, spec, self.deployment, self.endpoint_url)
        return root

    def s3(
        self, bucket: str, name: str = "cold", instance: str = "shop", prefix: str = "", inventory: str = ""
    ) -> Vault:
        """Add a vault in a bucket; return the vault."""
        spec = VaultSpec(instance=instance, name=name, kind="s3", location=bucket, prefix=prefix, inventory=inventory)
        add_vault(self.registry, spec, self.deployment, self.endpoint_url)
        return self.vaults.get(instance, name)

    def mark(self, kind: str, *marks: contract.NewMark, instance: str = "shop") -> None:
        """Make marks in a transaction of their own, as an owner does."""
        with self.db.write() as c:
            contract.mark(c, instance, kind, marks)

    def prepare(self, *ids: str, vault: str = "disk", ttl: int = 60) -> None:
        """Announce a load that writes below ``data/ID/`` for each id, as an owner does."""
        with self.db.write() as c:
            contract.prepare(c, "shop", "load", ids, vault, [f"data/{id_}/" for id_ in ids], ttl)

    def commit(self, *ids: str) -> None:
        """Commit what was prepared, in a transaction of its own."""
        with self.db.write() as c:
            contract.commit(c, "shop", ids)

    def undrop_marks(self, kind: str, *ids: str) -> int:
        """Remove marks in a transaction of their own, as an undrop does; return their number."""
        with self.db.write() as c:
            return contract.undrop(c, "shop", kind, ids)

    def drop(self, root: Path, key: str, id_: str, *, later: int = 0) -> None:
        """Write a file of the vault ``disk`` and mark it as dropped; then move the clock forward."""
        put(root, key)
        self.mark("dropped", contract.NewMark(id=id_, vault="disk", keys=(key,)))
        if later:
            self.later(later)

    def drop_files(self, root: Path, id_: str, *keys: str, prefix: str | None = None) -> None:
        """Write files of the vault ``disk``, and mark them as dropped by their keys, or all by a prefix."""
        for key in keys:
            put(root, key)
        self.mark("dropped", contract.NewMark(id=id_, vault="disk", keys=None if prefix else keys, prefix=prefix))

    def mark_file(self, root: Path, id_: str, parent: tuple[str, str] | None = None, kind: str = "dropped") -> None:
        """Write the file ``ID.dat`` of the vault ``disk`` and mark it."""
        put(root, f"{id_}.dat")
        self.mark(kind, contract.NewMark(id=id_, vault="disk", keys=(f"{id_}.dat",), parent=parent))

    def later(self, seconds: int) -> None:
        """Move the database's clock forward."""
        schema.move_clock(self.db, seconds)

    def now(self) -> int:
        """Return the database's time, in ms since 1970."""
        with self.db.read() as c:
            return self.db.now(c)

    def set_year_ahead(self, table: str, column: str) -> None:
        """Set a column of times to a year from now, as a database clock does that was wrong for a moment."""
        self.update(table, **{column: self.now() + 365 * DAY * 1000})

    def insert(self, table: str, **values: object) -> None:
        """Insert a row into one of Sexton's tables."""
        with self.db.write() as c:
            c.execute(insert(getattr(self.db.t, table)).values(values))

    def update(self, table: str, where: Mapping[str, object] | None = None, **values: object) -> None:
        """Change the rows of one of Sexton's tables that have some values, by default all."""
        t = getattr(self.db.t, table)
        with self.db.write() as c:
            c.execute(update(t).where(*[t.c[k] == v for k, v in (where or {}).items()]).values(values))

    def rows(self, table: str) -> Sequence[Any]:
        """Return all rows of one of Sexton's tables."""
        with self.db.read() as c:
            return c.execute(select(getattr(self.db.t, table))).all()

    def round(
        self, instance: str = "shop", *, after: int = 0, plan: int | None = None, run: str | None = None
    ) -> RoundReport:
        """Run a whole round as the workflow does, with a given plan or a new one; return its report.

        ``after``: first move the database's clock forward by so many seconds.
        """
        if after:
            self.later(after)
        if plan is not None and not self.count("round", run_id=run or ""):
            self.approve(plan, instance)
        opened, ledger = self.rounds.open(instance, run or uuid.uuid4().hex, plan, self.policy), Ledger()
        ledger.leases = 1
        opened = self.recycler.announce(opened, lambda: None)
        if opened.may_delete:
            order = AdoptOrder(
                round=opened.round,
                lease=opened.lease,
                upload_grace_seconds=GRACE,
                cutoffs=opened.cutoffs,
                excluded_vaults=opened.excluded_vaults,
            )
            order = self.rounds.checked_adoption(order, self.policy)
            ledger.add_adoption(self.recycler.adopt(order, 1, lambda: None))
        body = self.rounds.plans.find_plan(plan) if plan is not None else self.plan(instance)
        by_name = {k.kind: k for k in body.kinds} if opened.may_delete else {}
        for wave in waves(by_name, body.policy.after):
            for kind in wave:
                self.recycle(opened, body, by_name[kind], ledger, self.rounds.checked_range)
        report = self.rounds.close(ledger.close_order(opened, body.id or None, body, "SUCCEEDED", ""))
        self.rounds.forget_expired(instance, lambda: None)
        return report

    def recycle(
        self,
        opened: OpenedRound,
        plan: Plan,
        kind: KindPlan,
        ledger: Ledger,
        checked: Checked = lambda order, _: order,
    ) -> None:
        """Recycle one kind of a plan, range by range, as the workflow does; ``checked``: compares orders with rows."""
        ledger.begin(plan)
        while shards := ledger.unfinished_shards(kind.kind):
            order = ledger.next_range(opened, plan, kind, shards[0])
            order = checked(order, self.policy)
            ledger.add_range(order, self.recycler.recycle(order, 1, lambda: None))

    def approve(self, plan: int, instance: str = "shop") -> None:
        """Approve a plan, unless it is, as `sexton apply` does before it starts the round."""
        if self.count("plan", id=plan, approved_by="anna"):
            return
        with self.rounds.plans.approvals.approving(plan, instance, "anna"):
            pass

    def plan(self, instance: str = "shop") -> Plan:
        """Plan as a round does; return the plan."""
        return self.rounds.plan(instance, self.policy, "test")

    def check(
        self, compare: Compare | None = None, *, after: int = 0, run: str | None = None, instance: str = "shop"
    ) -> CheckReport:
        """Check once after so many seconds, as the workflow does; return the report."""
        if after:
            self.later(after)
        order = self.checker.begin(CheckRequest(instance=instance, requested_by="test"), run or uuid.uuid4().hex).order
        evidence = self.checker.compare(compare or self.direct, order, lambda: None)
        evidence = self.checker.check_again(order, evidence, lambda: None)
        return self.checker.conclude(ConcludeOrder(instance=instance, run=order.run, evidence=evidence))

    def open_findings(self, instance: str = "shop", *, confirmed: bool = False) -> dict[str, set[str]]:
        """Return type → keys of the open findings."""
        by_type: dict[str, set[str]] = {}
        for f in self.runs.findings(instance, limit=1_000_000, confirmed=confirmed):
            by_type.setdefault(f.type.value, set()).add(f.key)
        return by_type

    def count(self, table: str, **where: object) -> int:
        """Return the number of rows of one of Sexton's tables with these values; None: NULL."""
        t = getattr(self.db.t, table)
        with self.db.read() as c:
            conditions = [t.c[k].is_(None) if v is None else t.c[k] == v for k, v in where.items()]
            return int(c.execute(select(func.count()).select_from(t).where(*conditions)).scalar_one())

    def count_files(self, **where: object) -> int:
        """Return the number of stored files with these values of ``StoredFile``."""
        return len(stored_files(self.db, **where))

    def row(self, kind: str, id_: str, instance: str = "shop") -> Any:
        """Return the row of a mark, None if there is none."""
        t = self.db.t.mark
        with self.db.read() as c:
            return c.execute(select(t).where(t.c.instance == instance, t.c.kind == kind, t.c.id == id_)).one_or_none()

    def instance_row(self, instance: str = "shop") -> Any:
        """Return the row of an instance."""
        t = self.db.t.instance
        with self.db.read() as c:
            return c.execute(select(t).where(t.c.id == instance)).one()

    def sql(self, statement: str, **parameters: object) -> None:
        """Execute SQL; ``{}`` stands for what precedes the names of Sexton's tables."""
        with self.db.write() as c:
            c.execute(text(statement.replace("{}", "sexton.")), parameters)


def stores_of(db: Database) -> DeploymentStores:
    """Return the stores of the rig's deployment over a database, as commands and workers build them."""
    return DeploymentStores(db, EngineSettings(DEPLOYMENT))


def service_of(db: Database, **settings: Any) -> Deployment:
    """Return the rig's deployment over a database, with settings of this process."""
    return Deployment(Settings(deployment=DEPLOYMENT, **settings), db)


def open_database(url: str, live_url: str = "") -> Database:
    """Open a database that shares compiled statements with others, to save time in each test."""
    db = Database.open(url, live_url=live_url)
    if not DIALECTS:
        db.engine.connect().close()  # completes the dialect: another engine may connect first
        DIALECTS.append(db.engine.dialect)
    db.engine = db.engine.execution_options(compiled_cache=COMPILED)
    db.engine.dialect = DIALECTS[0]
    return db


def put(root: Path, key: str, size: int = 10) -> Path:
    """Write one file of a local vault; return its path."""
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def listing(root: Path) -> dict[str, int]:
    """Return key → bytes of every file of a local vault, without Sexton's own files."""
    files = (p for p in root.rglob("*") if p.is_file() and "_sexton" not in p.parts)
    return {p.relative_to(root).as_posix(): p.stat().st_size for p in files}
