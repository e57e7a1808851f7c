"""Compare objects with records on Spark: list to scratch, read the live side to scratch, join, tell.

What is listed stays in scratch, pass by pass, and the run's row says which passes are done: an attempt that takes over
goes on behind them. Nothing but counts comes to this process.
"""

import shutil
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field
from pyspark.sql import DataFrame
from pyspark.sql.connect import functions as f
from pyspark.sql.connect.session import SparkSession

from sexton.check.model import CheckOrder, Evidence, Listing
from sexton.check.policy import judged_until, live_read
from sexton.check.port import CheckRuns, Heartbeat, Live, NoLiveSide
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message
from sexton.owners.port import OwnerSilent
from sexton.runtime.spark import reconcile
from sexton.runtime.spark.findings import FindingWriter
from sexton.runtime.spark.locations import ConnectionTarget, check_reachable
from sexton.runtime.spark.session import Sessions, run
from sexton.runtime.spark.sources import ListedObjects, ListingOrder, ListingPart, LiveRecords, RecordsOrder
from sexton.storage.model import Shard, VaultSpec
from sexton.storage.port import UnknownVault, VaultFault, Vaults

PARTS = 64
"""Parts a vault's listing is cut into, where it can be."""
PASS_PARTS = 32
"""Parts listed by one job: what is repeated when a worker dies."""
TRIES = 3


class Pass(Message):
    """One listing job that has ended: where its rows are, and which of its parts are no good."""

    number: int
    parts: tuple[int, ...]
    failed: dict[int, str] = Field(default_factory=dict)
    again: tuple[int, ...] = ()


class ListingProgress(Message):
    """How far a run's listing is."""

    parts: tuple[ListingPart, ...]
    faults: dict[str, str] = Field(default_factory=dict)
    """Vaults that could not be cut, and why."""
    passes: tuple[Pass, ...] = ()
    ended: int | None = None


class OnSpark:
    """Implements ``check.port.Compare``."""

    def __init__(
        self,
        sessions: Sessions,
        where: ConnectionTarget,
        vaults: Vaults,
        live: Live,
        runs: CheckRuns,
        *,
        scratch: str,
        connections: int = 16,
    ) -> None:
        """Nothing runs yet.

        Args:
            sessions: where jobs run.
            where: the deployment as executors reach it.
            vaults: the vaults, compared with our database.
            live: the live side.
            runs: where findings are kept.
            scratch: a folder that every executor sees: a path, or a URL of what Spark reads.
            connections: to the database, of all executors together.
        """
        check_reachable(where.database_url, local=sessions.local)
        self._sessions, self._where, self._vaults = sessions, where, vaults
        self._live, self._runs, self._scratch = live, runs, scratch.rstrip("/")
        self._connections = 1 if where.database_url.startswith("sqlite") else connections

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List every vault, then read the live side, and tell what does not agree."""
        tag = f"check-{order.run.run}"  # the run of a workflow, which no other deployment has
        folder = f"{self._scratch}/{tag}"
        self._forget_others()
        with self._sessions.of(tag) as session:
            do = partial(run, session, tag, heartbeat=heartbeat)
            session.dataSource.register(ListedObjects)
            session.dataSource.register(LiveRecords)
            progress = self._list(session, do, order, vaults, folder, heartbeat)
            seen, objects = self._listed(session, do, order, vaults, progress, folder)
            try:
                seen, known = self._read(session, do, order, seen, folder)
            except (OwnerSilent, NoLiveSide) as e:
                return seen.model_copy(update={"errors": (str(e),)})
            found = do(lambda: self._tell(order, seen, objects, known))
            self._forget(folder)
            return seen.model_copy(update={"found": found})

    def _forget(self, folder: str) -> None:
        """Remove the scratch of a run, where it is a folder of this machine."""
        if "://" not in folder:
            shutil.rmtree(folder, ignore_errors=True)

    def _forget_others(self) -> None:
        """Remove what runs left that were cancelled, or went another way when their worker died."""
        if "://" in self._scratch:
            return
        left = {folder.name.removeprefix("check-"): folder for folder in Path(self._scratch).glob("check-*")}
        for name in left.keys() - self._runs.running(left):
            self._forget(str(left[name]))

    def _list(
        self,
        session: SparkSession,
        do: Any,
        order: CheckOrder,
        vaults: Sequence[VaultSpec],
        folder: str,
        heartbeat: Heartbeat,
    ) -> ListingProgress:
        """List what is not listed yet, pass by pass."""
        progress = self._begun(order, vaults, folder, heartbeat)
        while pending := _pending(progress):
            parts = tuple(p for p in progress.parts if p.number in pending[:PASS_PARTS])
            number = len(progress.passes)
            asked = ListingOrder(where=self._where, vaults=tuple(vaults), parts=parts)
            rows = session.read.format(ListedObjects.name()).option("order", asked.model_dump_json()).load()
            path = f"{folder}/objects/{number}"
            do(lambda rows=rows, path=path: rows.write.mode("overwrite").parquet(path))
            bad = do(lambda path=path: session.read.parquet(path).where("error is not null").collect())
            failed = {row.part: f"{row.vault}: {row.error}" for row in bad}
            again = tuple(row.part for row in bad if row.again)
            one = Pass(number=number, parts=tuple(p.number for p in parts), failed=failed, again=again)
            progress = progress.model_copy(update={"passes": (*progress.passes, one)})
            self._runs.went_on(order.run, progress.model_dump(mode="json"))
        if progress.ended is None:
            for spec in vaults:
                heartbeat()
                try:
                    self._vaults.confirm(spec.instance, spec.name)
                except (VaultFault, UnknownVault) as e:
                    progress = progress.model_copy(update={"faults": progress.faults | {spec.name: str(e)[:500]}})
            progress = progress.model_copy(update={"ended": self._runs.now()})
            self._runs.went_on(order.run, progress.model_dump(mode="json"))
        return progress

    def _begun(
        self, order: CheckOrder, vaults: Sequence[VaultSpec], folder: str, heartbeat: Heartbeat
    ) -> ListingProgress:
        """Return how far an earlier attempt came, or cut the vaults into parts."""
        if before := self._runs.progress(order.run):
            progress = ListingProgress.model_validate(before)
            if "://" in folder or all(Path(f"{folder}/objects/{p.number}").is_dir() for p in progress.passes):
                return progress
        parts: list[ListingPart] = []
        faults: dict[str, str] = {}
        for spec in vaults:
            heartbeat()
            try:
                self._vaults.confirm(spec.instance, spec.name)
                shards: Sequence[Shard] = self._vaults.get(spec.instance, spec.name).shards(PARTS)
            except (VaultFault, UnknownVault) as e:
                faults[spec.name] = str(e)[:500]
            else:
                parts += [ListingPart(number=len(parts) + n, vault=spec.name, shard=s) for n, s in enumerate(shards)]
        return ListingProgress(parts=tuple(parts), faults=faults)

    def _listed(
        self,
        session: SparkSession,
        do: Any,
        order: CheckOrder,
        vaults: Sequence[VaultSpec],
        progress: ListingProgress,
        folder: str,
    ) -> tuple[Evidence, DataFrame | None]:
        """Return what was seen of the listings, and their objects with whether each is judged."""
        until = judged_until(order.run.cutoff, order.grace_seconds)
        objects: DataFrame | None = None
        for one in progress.passes:
            rows = session.read.parquet(f"{folder}/objects/{one.number}").where("error is null")
            rows = rows.where(~rows.part.isin(sorted(one.failed))) if one.failed else rows
            objects = rows if objects is None else objects.unionByName(rows)
        counts: dict[str, tuple[int, int]] = {}
        if objects is not None:
            old = (f.col("written") != "") & (f.col("written") <= until)
            objects = objects.select(
                "vault", "name", "key", "bytes", "etag", f.coalesce(old, f.lit(False)).alias("old")
            )
            counted = objects.groupBy("vault").agg(
                f.count_if("old").alias("old"), f.count_if(~f.col("old")).alias("young")
            )
            counts = {row.vault: (row.old, row.young) for row in do(counted.collect)}
        ended = {n for one in progress.passes for n in one.parts if n not in one.failed}
        said = {n: why for one in progress.passes for n, why in one.failed.items() if n not in ended}
        listings = []
        for spec in vaults:
            mine = [p.number for p in progress.parts if p.vault == spec.name]
            errors = [progress.faults[spec.name]] if spec.name in progress.faults else []
            errors += [said[n] for n in mine if n in said][:5]
            old_, young = counts.get(spec.name, (0, 0))
            done = len(ended.intersection(mine))
            listings.append(
                Listing(
                    vault=spec.name,
                    parts=max(1, len(mine)),
                    ended=done if mine else int(not errors),
                    objects=old_,
                    young=young,
                    errors=tuple(errors),
                )
            )
        return Evidence(cutoff=order.run.cutoff, listings=tuple(listings), listed_at=progress.ended), objects

    def _read(
        self, session: SparkSession, do: Any, order: CheckOrder, seen: Evidence, folder: str
    ) -> tuple[Evidence, DataFrame]:
        """Read the live side, at one moment, by at most so many connections; return what was seen of it."""
        path = f"{folder}/records-{uuid.uuid4().hex}"  # an earlier attempt may still be writing its own
        with self._live.moment(order.instance) as moment:
            at_once = max(1, min(self._connections, len(moment.parts)))
            groups = tuple(tuple(moment.parts[n::at_once]) for n in range(at_once))
            asked = RecordsOrder(where=self._where, instance=order.instance, moment=moment.name, parts=groups)
            rows = session.read.format(LiveRecords.name()).option("order", asked.model_dump_json()).load()
            do(lambda: rows.write.mode("overwrite").parquet(path))
        known = session.read.parquet(path)
        errors = do(lambda: known.where("error is not null").select("error").limit(1).collect())
        if errors:
            raise OwnerSilent(errors[0].error)
        each = (
            known.where("live")
            .groupBy("vault")
            .agg(
                f.count_distinct(f.when(~f.col("prefix"), f.col("name")).otherwise(None)).alias("files"),
                f.count_if("prefix").alias("prefixes"),
            )
        )
        counted = do(each.collect)
        files, prefixes = ({row.vault: row[n] for row in counted if row[n]} for n in (1, 2))
        return live_read(seen, moment.at, files, prefixes), known

    def _tell(self, order: CheckOrder, seen: Evidence, objects: DataFrame | None, known: DataFrame) -> dict[str, int]:
        """Join both sides and have executors tell what they find; return how many of each type."""
        whole = [its.vault for its in seen.listings if its.whole]
        counts: dict[str, int] = {}
        if objects is None:
            return counts
        covers, tell = known.where("prefix"), FindingWriter(self._where, order, self._live.pattern(order.instance))
        nothing = [f.lit(None).cast(t).alias(n) for n, t in (("type", "string"), ("expected", "bigint"))]
        record = f.lit(None).cast("string").alias("record")
        with reconcile.narrowed(objects, known.where("not prefix")) as (some, exact):
            found = [reconcile.forward(some, exact, whole)]
            if order.inverted:
                unknown = reconcile.inverted(some.where("old"), exact, covers)
                found.append(unknown.select(nothing[0], "vault", "key", nothing[1], "size", "etag", record))
            for frame in found:
                told = frame.coalesce(self._connections).mapInArrow(tell, "type string, number bigint")
                for row in told.groupBy("type").agg(f.sum("number").alias("number")).collect():
                    counts[row.type] = counts.get(row.type, 0) + row.number
        return counts


def _pending(progress: ListingProgress) -> list[int]:
    """Return the parts that are still to be listed: not yet, or cut short by a busy store less than ``TRIES`` times."""
    over = {n for one in progress.passes for n in one.parts if n not in one.again}
    tried = [n for one in progress.passes for n in one.again]
    return [p.number for p in progress.parts if p.number not in over and tried.count(p.number) < TRIES]


def scratch_of(setting: str, home: Path, *, local: bool) -> str:
    """Return the folder that all executors see; ``BadInput`` where nobody named one for a cluster."""
    if setting or local:
        return setting or str((home / "spark").resolve())
    raise BadInput("spark.scratch names no folder: on a cluster every executor must see it, e.g. s3a://BUCKET/sexton")
