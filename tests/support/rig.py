"""A round without Temporal: the same steps in the same order, over a real database and real vaults.

``Rig.round()`` is a small double of the workflow; a crash is an exception at a named point and a new ``Rig`` of the
same database.
"""

import atexit
import json
import shutil
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

from sqlalchemy import func, select, text

from config.engine_settings import EngineSettings
from sexton import contract
from sexton.check import model as check_model
from sexton.check.checker import Checker
from sexton.check.in_process import InProcessComparison
from sexton.check.model import CheckReport, CheckRequest, ConcludeOrder
from sexton.check.port import Compare
from sexton.check.sources.catalog_integrity import record_problems
from sexton.check.sources.live_side import LiveSide
from sexton.check.sql.orphans import Orphans
from sexton.check.sql.repair import Repairs
from sexton.check.sql.store import CheckStore
from sexton.database import schema
from sexton.database.engine import Database
from sexton.database.tables import Tables
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.registry.add_vault import add_vault
from sexton.operators.stores import operator_stores
from sexton.owners.port import Owner
from sexton.owners.sql.owner import SqlOwner
from sexton.protection import model as protection
from sexton.protection.registrar import Registrar
from sexton.protection.sql.store import ProtectionStore
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.port import DeletionLog
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.deleter import Deleter
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.sql.store import pipeline_stores
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.planning.policy import policy, waves
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import OpenedRound
from sexton.recycle.rounds.recycler import Parts, Recycler
from sexton.recycle.rounds.sql.store import RoundStore
from sexton.runtime.stores import DeploymentStores, keepers
from sexton.storage.model import VaultSpec
from sexton.storage.port import Vault
from sexton.storage.vaults import ProvenVaults

RETENTION = {"prepared": 259_200, "compacted": 1_800, "dropped": 10_800, "orphan": 259_200}
GRACE = 3_600
DAY = 86_400
INTERVAL = 3_600
DEPLOYMENT = "test-rig"
SHARED: dict[str, tuple[Tables, dict[Any, Any], Any]] = {}
"""By dialect: its tables, what was compiled, and the dialect itself."""


class Rig:
    """One deployment, one instance ``shop``, one worker's worth of wiring."""

    def __init__(
        self,
        url: str,
        *,
        endpoint_url: str = "",
        threads: int = 4,
        beside: bool = True,
        owner: Owner | None = None,
        audit: DeletionLog | None = None,
        look_seconds: float = 1.7,
    ) -> None:
        """One with everything that a worker has.

        Args:
            url: its database, made where it is not there.
            endpoint_url: of S3.
            threads: requests at the same time.
            beside: whether sweeps go on beside their batch.
            owner: by default the one whose marks are its own.
            audit: by default a list, ``Rig.told``.
            look_seconds: what passes for vault proofs at each look at their clock; from 2.5 on none is used twice.
        """
        _make(url)
        self.url, self.endpoint_url = url, endpoint_url
        self.db = opened(url)
        self.operators = operator_stores(self.db)
        self.registry, self.controls, self.holds, _ = self.operators
        self.protections = ProtectionStore(self.db, protection.ProtectionSettings())
        self.stores = pipeline_stores(self.db, self.controls, keepers(self.db))
        self.leases = LeaseStore(self.db)
        knows = self.registry.knows_round
        self.vaults = OneAtATime(
            self.registry.vault, DEPLOYMENT, endpoint_url, clock=Steps(look_seconds), knows_round=knows
        )
        self.deleter = ThreadDeleter(self.stores, self.vaults, threads, beside=beside)
        self.owner, self.told = owner or SqlOwner(self.db), Told()
        self.audit: DeletionLog = audit or self.told
        self.recycler = self.recycler_of(self.owner)
        self.registrar = Registrar(self.protections, self.vaults)
        self.rounds = RoundStore(self.db, self.leases, self.operators, INTERVAL, protections=self.protections)
        self.policy = policy(RETENTION, GRACE)
        self.runs, self.live_side = CheckStore(self.db), LiveSide(self.db, self.registry)
        self.repairs = Repairs(self.db, self.runs, self.vaults)
        self.checker = Checker(
            self.runs,
            self.live_side,
            self.vaults,
            self.registry.vaults,
            partial(record_problems, self.db, self.registry),
            Orphans(self.db).remove_refuted_marks,
            check_model.CheckSettings(grace_seconds=DAY),
        )
        self.direct = InProcessComparison(self.vaults, self.live_side, self.runs)

    def recycler_of(self, owner: Owner, sweeps: Deleter | None = None) -> Recycler:
        sweeps = sweeps or self.deleter
        parts = Parts(self.stores, self.leases, self.controls, self.vaults, owner, self.audit)
        return Recycler(parts, sweeps)

    def copy(self, file: Path) -> "Rig":
        """Return a rig of a copy of the SQLite database as it is now: restored from a backup, or cloned."""
        with closing(sqlite3.connect(file)) as to, closing(sqlite3.connect(str(self.db.engine.url.database))) as of:
            of.backup(to)
        return Rig(f"sqlite:///{file}", endpoint_url=self.endpoint_url)

    def instance(self, name: str = "shop", *, enable: bool = True) -> "Rig":
        self.registry.add_instance(name)
        if enable:
            self.registry.enable(name)
        return self

    def local(self, root: Path, name: str = "disk", instance: str = "shop") -> Path:
        root.mkdir(parents=True, exist_ok=True)
        spec = VaultSpec(instance=instance, name=name, kind="local", location=str(root))
        add_vault(self.registry, spec, DEPLOYMENT, self.endpoint_url)
        return root

    def s3(self, bucket: str, name: str = "cold", instance: str = "shop", prefix: str = "") -> Vault:
        spec = VaultSpec(instance=instance, name=name, kind="s3", location=bucket, prefix=prefix)
        add_vault(self.registry, spec, DEPLOYMENT, self.endpoint_url)
        return self.vaults.get(instance, name)

    def mark(self, kind: str, *marks: contract.NewMark, instance: str = "shop") -> None:
        with self.db.write() as c:
            contract.mark(c, instance, kind, marks)

    def later(self, seconds: int) -> None:
        schema.move_clock(self.db, seconds)

    def round(self, instance: str = "shop", *, plan: int | None = None, run: str | None = None) -> RoundReport:
        opened, ledger = self.rounds.open(instance, run or uuid.uuid4().hex, plan, self.policy), Ledger()
        ledger.leases = 1
        opened = opened.model_copy(update={"excluded_vaults": self.recycler.announce(opened, lambda: None)})
        if opened.may_delete:
            order = AdoptOrder(
                round=opened.round,
                lease=opened.lease,
                upload_grace_seconds=GRACE,
                cutoffs=opened.cutoffs,
                excluded_vaults=opened.excluded_vaults,
            )
            ledger.adopted(self.recycler.adopt(order, 1, lambda: None))
        body = self.rounds.find_plan(plan) if plan is not None else self.plan(instance)
        by_name = {k.kind: k for k in body.kinds} if opened.may_delete else {}
        for wave in waves(by_name, body.policy.after):
            for kind in wave:
                self.recycle(opened, body, by_name[kind], ledger)
        return self.rounds.close(ledger.close_order(opened, body.id, body, "SUCCEEDED", ""))

    def recycle(self, opened: OpenedRound, plan: Plan, kind: KindPlan, ledger: Ledger) -> None:
        """Go through one kind, range by range, as the workflow does."""
        ledger.begin(plan)
        while not ledger.kinds[kind.kind].finished:
            order = ledger.next_range(opened, plan, kind)
            ledger.done(kind.kind, self.recycler.recycle(order, 1, lambda: None), 0)

    def plan(self, instance: str = "shop") -> Plan:
        return self.rounds.plan(instance, self.policy, "test")

    def check(self, how: Compare | None = None, *, run: str | None = None, instance: str = "shop") -> CheckReport:
        """Check once, as the workflow does."""
        order = self.checker.begin(CheckRequest(instance=instance, by="test"), run or uuid.uuid4().hex).order
        evidence = self.checker.compare(how or self.direct, order, lambda: None)
        evidence = self.checker.check_again(order, evidence, lambda: None)
        return self.checker.conclude(ConcludeOrder(instance=instance, run=order.run, evidence=evidence))

    def found(self, instance: str = "shop", *, confirmed: bool = False) -> dict[str, set[str]]:
        """Return type → keys of the open findings."""
        by_type: dict[str, set[str]] = {}
        for f in self.runs.findings(instance, limit=1_000_000, confirmed=confirmed):
            by_type.setdefault(f.type.value, set()).add(f.key)
        return by_type

    def count(self, table: str, **where: object) -> int:
        t = getattr(self.db.t, table)
        with self.db.read() as c:
            conditions = [t.c[k].is_(None) if v is None else t.c[k] == v for k, v in where.items()]
            return int(c.execute(select(func.count()).select_from(t).where(*conditions)).scalar_one())

    def row(self, kind: str, id_: str, instance: str = "shop") -> Any:
        t = self.db.t.mark
        with self.db.read() as c:
            return c.execute(select(t).where(t.c.instance == instance, t.c.kind == kind, t.c.id == id_)).one_or_none()

    def instance_row(self, instance: str = "shop") -> Any:
        t = self.db.t.instance
        with self.db.read() as c:
            return c.execute(select(t).where(t.c.id == instance)).one()

    def sql(self, statement: str, **given: object) -> None:
        name = "sexton." if self.db.dialect == "postgresql" else "sexton_"
        with self.db.write() as c:
            c.execute(text(statement.replace("{}", name)), given)


def migrated(file: Path, deployment: str) -> Path:
    """Make an empty SQLite database with the schema; a copy costs a hundredth of the migrations."""
    shutil.copyfile(_template(), file)
    if deployment != DEPLOYMENT:
        with closing(sqlite3.connect(file)) as c, c:
            c.execute("UPDATE sexton_clock SET deployment = ?", (deployment,))
    return file


@cache
def _template() -> Path:
    """Run the migrations on SQLite, once for this process."""
    file = Path(tempfile.mkdtemp(prefix="sexton-template-")) / "empty.db"
    schema.init(f"sqlite:///{file}", DEPLOYMENT)
    with sqlite3.connect(file) as c:
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    atexit.register(shutil.rmtree, file.parent)
    return file


def _make(url: str) -> None:
    """Create the schema, unless it is there."""
    file = Path(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///"):
        _upgrade(url)
    elif not file.exists():
        migrated(file, DEPLOYMENT)


@cache
def _upgrade(url: str) -> None:
    """Run the migrations on PostgreSQL, once for each database: tests empty theirs and go on with it."""
    schema.init(url, DEPLOYMENT)


class Told:
    """An audit kept in a list."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []

    def write(self, rows: Sequence[AuditRow]) -> None:
        self.rows += rows

    def forget(self, instance: str, now: int, heartbeat: Callable[[], None] = lambda: None) -> int:
        return 0


def stores_of(db: Database) -> DeploymentStores:
    """Return the stores of the rig's deployment over a database, as commands and workers build them."""
    return DeploymentStores(db, EngineSettings(DEPLOYMENT))


def opened(url: str) -> Database:
    """Open a database with what others of its dialect compiled: each test would compile the same statements anew."""
    db = Database.open(url)
    tables, compiled, dialect = SHARED.setdefault(db.dialect, (db.t, {}, db.engine.dialect))
    db.t, db.engine = tables, db.engine.execution_options(compiled_cache=compiled)
    db.engine.dialect = dialect
    return db


class OneAtATime(ProvenVaults):
    """Proofs of several threads do not mingle, so that ``Steps`` passes for each alone."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._turn = threading.RLock()

    def get(self, instance: str, name: str) -> Vault:
        with self._turn:
            return super().get(instance, name)


class Steps:
    """A clock for vault proofs that goes on at every look: hardly any proof is used twice."""

    def __init__(self, seconds: float) -> None:
        self._now, self._seconds = 0.0, seconds

    def __call__(self) -> float:
        self._now += self._seconds
        return self._now


def put(root: Path, key: str, size: int = 10) -> Path:
    """Write one file of a local vault."""
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def listing(root: Path) -> dict[str, int]:
    """List a local vault without Sexton: key → bytes."""
    files = (p for p in root.rglob("*") if p.is_file() and "_sexton" not in p.parts)
    return {p.relative_to(root).as_posix(): p.stat().st_size for p in files}


def keys(*names: str) -> str:
    """Return keys as the JSON an owner's own INSERT would carry."""
    return json.dumps(names)
