"""Compare objects with records on Spark: list to scratch, read the live side to scratch, join, write findings.

Listings stay in scratch, pass by pass, and the run's row records which passes are done: an attempt that takes over
continues after them. Only counts pass through this process.
"""

import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import Field
from pyspark.sql import DataFrame
from pyspark.sql.connect import functions as f
from pyspark.sql.connect.session import SparkSession

from sexton.check.model import CheckOrder, Evidence, Heartbeat, Listing
from sexton.check.object_lookup import parts_to_check
from sexton.check.policy import inventory_at, latest_judged_write, with_live_counts
from sexton.check.sql.live_side import LiveSide
from sexton.check.sql.store import CheckStore
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message
from sexton.owners.port import NoLiveSide, OwnerSilent
from sexton.runtime.spark import reconcile
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.runtime.spark.session import Sessions, run
from sexton.runtime.spark.sources import (
    FindingWriter,
    ListedObjects,
    ListingOrder,
    ListingPart,
    LiveRecords,
    RecordsOrder,
)
from sexton.storage.model import VaultSpec
from sexton.storage.port import UnknownVault, VaultFault, Vaults

T = TypeVar("T")
PARTS = 64
"""Parts that a vault's listing is divided into, where that is possible."""
WRITTEN = "type string, number bigint"
"""The schema of what executors report after they have written findings."""
PASS_PARTS = 32
"""Parts listed by one job: so much is repeated when a worker dies."""
TRIES = 3
"""How often a part is listed while its store is busy."""


class Pass(Message):
    """One listing job that has ended: its parts, the failed ones with their errors, and those to list again."""

    number: int
    parts: tuple[int, ...]
    failed: dict[int, str] = Field(default_factory=dict)
    again: tuple[int, ...] = ()


class ListingProgress(Message):
    """How far a run's listing is."""

    parts: tuple[ListingPart, ...]
    faults: dict[str, str] = Field(default_factory=dict)
    """Vaults that could not be listed, with the reason."""
    passes: tuple[Pass, ...] = ()
    ended: int | None = None


def pending_parts(progress: ListingProgress) -> list[int]:
    """Return the parts still to be listed: not tried yet, or interrupted by a busy store less than ``TRIES`` times."""
    done = {n for p in progress.passes for n in p.parts if n not in p.again}
    interrupted = [n for p in progress.passes for n in p.again]
    return [p.number for p in progress.parts if p.number not in done and interrupted.count(p.number) < TRIES]


def listing_evidence(vault: str, progress: ListingProgress, old: int, young: int) -> Listing:
    """Return the evidence of one vault's listing."""
    ended = {n for p in progress.passes for n in p.parts if n not in p.failed}
    failed = {n: error for p in progress.passes for n, error in p.failed.items() if n not in ended}
    numbers = [p.number for p in progress.parts if p.vault == vault]
    errors = [progress.faults[vault]] if vault in progress.faults else []
    errors += [failed[n] for n in numbers if n in failed][:5]
    return Listing(
        vault=vault,
        parts=max(1, len(numbers)),
        ended=len(ended.intersection(numbers)) if numbers else int(not errors),
        objects=old,
        young=young,
        inventory_at=inventory_at(p.part for p in progress.parts if p.vault == vault),
        errors=tuple(errors),
    )


class _Run(NamedTuple):
    """One comparison: the check's order, its scratch folder, and the tagged session that its jobs run in."""

    order: CheckOrder
    vaults: Sequence[VaultSpec]
    folder: str
    session: SparkSession
    tag: str
    heartbeat: Heartbeat
    began: float

    def do(self, job: Callable[[], T]) -> T:
        """Run a job, with heartbeats meanwhile."""
        return run(self.session, self.tag, job, self.heartbeat)


class SparkComparison:
    """Implements ``check.model.Compare`` on Spark."""

    def __init__(
        self,
        sessions: Sessions,
        where: ConnectionTarget,
        vaults: Vaults,
        live: LiveSide,
        runs: CheckStore,
        *,
        scratch: str,
        connections: int = 16,
    ) -> None:
        """``where``: the deployment as executors reach it. ``connections``: to the database, of all executors together.

        ``scratch``: a folder that every executor sees: a path, or a URL that Spark reads.
        """
        self._sessions, self._where, self._vaults = sessions, where, vaults
        self._live, self._runs, self._scratch = live, runs, scratch.rstrip("/")
        self._connections = connections

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List every vault, then read the live side, and write down where they differ."""
        tag = f"check-{order.run.run}"  # a workflow's run id, so no other deployment has it
        folder = f"{self._scratch}/{tag}"
        if "://" not in self._scratch:
            # Remove the scratch of runs that were cancelled, or that continued without Spark when their worker died.
            others = {path.name.removeprefix("check-"): path for path in Path(self._scratch).glob("check-*")}
            for name in others.keys() - self._runs.running(others):
                self._remove_scratch(str(others[name]))
        with self._sessions.of(tag, heartbeat) as session:
            this = _Run(order, vaults, folder, session, tag, heartbeat, time.monotonic())
            session.dataSource.register(ListedObjects)
            session.dataSource.register(LiveRecords)
            progress = self._list(this)
            evidence, objects = self._evidence_of_listings(this, progress)
            try:
                evidence, known = self._read_live_side(this, evidence)
                if objects is not None:
                    self._count(this, this.do(known.count))
            except (OwnerSilent, NoLiveSide) as e:
                return evidence.model_copy(update={"errors": (str(e),)})
            counts = this.do(lambda: self._write_findings(this, evidence, objects, known))
            self._remove_scratch(folder)
            return evidence.model_copy(update={"found": counts})

    def _count(self, this: _Run, records: int = 0) -> None:
        """Store how far the comparison is: what is in scratch, and so many records."""
        listed = this.do(this.session.read.parquet(f"{this.folder}/objects/*").count)
        milliseconds = 0 if records else round(1000 * (time.monotonic() - this.began))  # 0: the rest is not known
        self._runs.count(this.order.run, listed, records, milliseconds)

    def _remove_scratch(self, folder: str) -> None:
        """Remove a run's scratch folder, where it is on this machine."""
        if "://" not in folder:
            shutil.rmtree(folder, ignore_errors=True)

    def _list(self, this: _Run) -> ListingProgress:
        """List the parts that are not listed yet, pass by pass."""
        progress = self._begin_or_resume(this)
        while pending := pending_parts(progress):
            parts = tuple(p for p in progress.parts if p.number in pending[:PASS_PARTS])
            ended_pass = self._list_pass(this, len(progress.passes), parts)
            progress = progress.model_copy(update={"passes": (*progress.passes, ended_pass)})
            self._runs.store_progress(this.order.run, progress.model_dump(mode="json"))
            self._count(this)
        if progress.ended is None:
            faults = dict(progress.faults)
            for spec in this.vaults:  # now that they are listed, each must still be provably this deployment's
                this.heartbeat()
                try:
                    self._vaults.confirm(spec.instance, spec.name)
                except (VaultFault, UnknownVault) as e:
                    faults[spec.name] = str(e)[:500]
            progress = progress.model_copy(update={"faults": faults, "ended": self._runs.now()})
            self._runs.store_progress(this.order.run, progress.model_dump(mode="json"))
        return progress

    def _list_pass(self, this: _Run, number: int, parts: tuple[ListingPart, ...]) -> Pass:
        """List some parts to scratch, by one job."""
        order = ListingOrder(
            where=self._where, vaults=tuple(this.vaults), parts=parts, grace_seconds=this.order.grace_seconds
        )
        rows = this.session.read.format(ListedObjects.name()).option("order", order.model_dump_json()).load()
        path = f"{this.folder}/objects/{number}"
        this.do(lambda: rows.write.mode("overwrite").parquet(path))
        errors = this.do(lambda: this.session.read.parquet(path).where("error is not null").collect())
        return Pass(
            number=number,
            parts=tuple(p.number for p in parts),
            failed={row.part: f"{row.vault}: {row.error}" for row in errors},
            again=tuple(row.part for row in errors if row.again),
        )

    def _begin_or_resume(self, this: _Run) -> ListingProgress:
        """Return the progress of an earlier attempt, or divide the vaults into parts."""
        stored = self._runs.progress(this.order.run)
        if stored:
            progress = ListingProgress.model_validate(stored)
            paths = (Path(f"{this.folder}/objects/{p.number}") for p in progress.passes)
            if "://" in this.folder or all(path.is_dir() for path in paths):
                return progress
        parts: list[ListingPart] = []
        faults: dict[str, str] = {}
        for spec in this.vaults:
            this.heartbeat()
            try:
                self._vaults.confirm(spec.instance, spec.name)
                vault = self._vaults.get(spec.instance, spec.name)
                vault_parts = parts_to_check(vault, PARTS, this.order.run.cutoff)
            except (VaultFault, UnknownVault) as e:
                faults[spec.name] = str(e)[:500]
            else:
                first = len(parts)
                parts += [ListingPart(number=n, vault=spec.name, part=p) for n, p in enumerate(vault_parts, first)]
        return ListingProgress(parts=tuple(parts), faults=faults)

    def _evidence_of_listings(self, this: _Run, progress: ListingProgress) -> tuple[Evidence, DataFrame | None]:
        """Return the evidence of the listings, and the listed objects with whether each is old enough to be judged.

        None in place of the objects without a pass.
        """
        objects: DataFrame | None = None
        for listing_pass in progress.passes:
            rows = this.session.read.parquet(f"{this.folder}/objects/{listing_pass.number}").where("error is null")
            if listing_pass.failed:
                rows = rows.where(~rows.part.isin(sorted(listing_pass.failed)))
            objects = rows if objects is None else objects.unionByName(rows)
        counts: dict[str, tuple[int, int]] = {}
        if objects is not None:
            until = latest_judged_write(this.order.run.cutoff, this.order.grace_seconds)
            is_old = f.coalesce((f.col("written") != "") & (f.col("written") <= until), f.lit(False)).alias("old")
            objects = objects.select("vault", "name", "key", "bytes", "etag", "written", is_old)
            old, young = f.count_if("old").alias("old"), f.count_if(~f.col("old")).alias("young")
            counted = objects.groupBy("vault").agg(old, young)
            counts = {row.vault: (row.old, row.young) for row in this.do(counted.collect)}
        listings = tuple(listing_evidence(spec.name, progress, *counts.get(spec.name, (0, 0))) for spec in this.vaults)
        return Evidence(cutoff=this.order.run.cutoff, listings=listings, listed_at=progress.ended), objects

    def _read_live_side(self, this: _Run, evidence: Evidence) -> tuple[Evidence, DataFrame]:
        """Read the live side as of one moment, over at most ``connections``; return evidence and rows."""
        path = f"{this.folder}/records-{uuid.uuid4().hex}"  # an earlier attempt may still be writing its own
        instance = this.order.instance
        self._live.wait_for_refresh(instance, evidence.listed_at or 0, this.heartbeat)
        with self._live.snapshot(instance) as moment:
            at_once = max(1, min(self._connections, len(moment.parts)))
            groups = tuple(tuple(moment.parts[n::at_once]) for n in range(at_once))
            order = RecordsOrder(where=self._where, instance=instance, moment=moment.name, parts=groups)
            rows = this.session.read.format(LiveRecords.name()).option("order", order.model_dump_json()).load()
            this.do(lambda: rows.write.mode("overwrite").parquet(path))
        known = this.session.read.parquet(path)
        errors = this.do(lambda: known.where("error is not null").select("error").limit(1).collect())
        if errors:
            raise OwnerSilent(errors[0].error)
        exact = f.when(~f.col("prefix"), f.col("name")).otherwise(None)
        numbers = f.count_distinct(exact).alias("files"), f.count_if("prefix").alias("prefixes")
        counts = this.do(known.where("live").groupBy("vault").agg(*numbers).collect)
        files = {row.vault: row.files for row in counts if row.files}
        prefixes = {row.vault: row.prefixes for row in counts if row.prefixes}
        return with_live_counts(evidence, moment.at, files, prefixes), known

    def _write_findings(
        self, this: _Run, evidence: Evidence, objects: DataFrame | None, known: DataFrame
    ) -> dict[str, int]:
        """Join both sides and have executors write the findings; return the number of each type."""
        if objects is None:
            return {}
        order = this.order
        complete_vaults = [listing.vault for listing in evidence.listings if listing.whole]
        writer = FindingWriter(self._where, order, self._live.pattern(order.instance))
        counts: dict[str, int] = {}
        rows = sum(listing.objects + listing.young for listing in evidence.listings)
        with reconcile.narrowed(objects, known.where("not prefix"), rows) as (some, exact):
            frames = [reconcile.forward(some, exact, complete_vaults)]
            if evidence.prefixes:
                frames.append(reconcile.empty_prefixes(objects, known.where("prefix"), complete_vaults))
            if order.inverted:
                frames.append(reconcile.inverted(some.where("old"), exact, known.where("prefix")))
            for frame in frames:
                # ``coalesce`` would compute the whole join below in as few tasks as there are connections.
                written = frame.repartition(self._connections).mapInArrow(writer, WRITTEN)
                for row in written.groupBy("type").agg(f.sum("number").alias("number")).collect():
                    counts[row.type] = counts.get(row.type, 0) + row.number
        return counts


def scratch_of(setting: str, home: Path, *, local: bool) -> str:
    """Return the folder that all executors see; raise ``BadInput`` where a cluster has none."""
    if setting or local:
        return setting or str((home / "spark").resolve())
    raise BadInput(
        "spark.scratch is empty: on a cluster, set it to a folder that every executor sees, e.g. s3a://BUCKET/sexton"
    )
