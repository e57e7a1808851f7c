"""The steps of one run of the check. Each may be repeated; only the last one draws conclusions."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from sexton.check.model import (
    CheckOrder,
    CheckReport,
    CheckRequest,
    ConcludeOrder,
    Discrepancy,
    Evidence,
    OpenedCheck,
    Run,
    Type,
)
from sexton.check.object_lookup import there
from sexton.check.policy import judged_until, listed_by, still, tells_too_late
from sexton.check.port import CheckRuns, Compare, Heartbeat, Live, NoLiveSide
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry
from sexton.owners.port import OwnerSilent
from sexton.storage.model import VaultSpec
from sexton.storage.port import UnknownVault, VaultFault, Vaults

LOOK = 500
"""Findings looked at a second time at once."""
UPLOAD_SECONDS = 86_400
"""An upload that was begun before this and is not finished will hardly ever be."""


class Checker:
    """What a worker does for a check. Safe for several instances at once."""

    def __init__(
        self,
        runs: CheckRuns,
        live: Live,
        vaults: Vaults,
        registered: Callable[[str], Sequence[VaultSpec]],
        records: Callable[[str], Iterator[Discrepancy]],
        take_back: Callable[[Run], int],
        *,
        grace_seconds: int,
        inverted: bool = True,
        expected: Callable[[str], int | None] = lambda _: None,
        heavy_objects: int = 250_000,
        interval_seconds: int = 43_200,
    ) -> None:
        """Put it together.

        Args:
            runs: where findings are kept.
            live: the live side.
            vaults: the deployment's vaults.
            registered: returns the vaults of an instance.
            records: yields an instance's records that do not agree with each other.
            take_back: takes back the marks of orphans that a whole run did not find again.
            grace_seconds: younger objects are not judged (``check_grace_seconds``).
            inverted: whether unknown objects are looked for (``enable_inverted_check``).
            expected: returns how many live objects an instance has, None where nobody knows quickly.
            heavy_objects: from so many objects on it is Spark's work (``spark_threshold_objects``).
            interval_seconds: from one check to the next (``check_object_interval_seconds``).
        """
        self._runs, self._live, self._vaults = runs, live, vaults
        self._registered, self._records, self._take_back = registered, records, take_back
        self._grace, self._inverted = grace_seconds, inverted
        self._expected, self._heavy, self._interval = expected, heavy_objects, interval_seconds

    def begin(self, request: CheckRequest, run: str) -> OpenedCheck:
        """Begin a run; a repeated attempt goes on with the same one."""
        if not self._registered(request.instance):
            raise BadInput(f"instance {request.instance} has no vault to check; add one with: sexton vault add")
        last = self._runs.last(request.instance)
        try:
            expected = self._expected(request.instance) or 0
        except OwnerSilent:
            expected = 0  # the run will say so itself
        order = CheckOrder(
            instance=request.instance,
            run=self._runs.begin(request.instance, run, request.by),
            grace_seconds=self._grace,
            inverted=self._inverted,
        )
        return OpenedCheck(order=order, heavy=max(expected, listed_by(last)) >= self._heavy)

    def compare(self, how: Compare, order: CheckOrder, heartbeat: Heartbeat) -> Evidence:
        """Compare objects with records, in the way given."""
        try:
            self._live.check(order.instance)
        except (NoLiveSide, OwnerSilent) as e:  # listing would be for nothing
            return Evidence(cutoff=order.run.cutoff, listings=(), errors=(str(e),))
        return how.compare(order, self._registered(order.instance), heartbeat)

    def look_again(self, order: CheckOrder, evidence: Evidence, heartbeat: Heartbeat) -> Evidence:
        """Look once more at what is lost or of another size, and at what no listing shows."""
        notes: list[str] = []
        too_late = self._too_late(order, notes, heartbeat)
        try:
            self._look_at_objects(order.run, heartbeat)
        except (VaultFault, UnknownVault, OwnerSilent, NoLiveSide) as e:
            notes.append(f"not everything was looked at a second time: {e}")
        counts = dict(evidence.found)
        for found in (self._uploads(order, notes, heartbeat), self._records(order.instance)):
            page: list[Discrepancy] = []
            for one in found:
                counts[one.type] = counts.get(one.type, 0) + 1
                page.append(one)
                if len(page) == LOOK:
                    heartbeat()
                    self._runs.saw(order.run, page)
                    page = []
            self._runs.saw(order.run, page)
        return evidence.model_copy(
            update={"found": counts, "notes": (*evidence.notes, *notes), "too_late": tuple(too_late)}
        )

    def conclude(self, order: ConcludeOrder) -> CheckReport:
        """End the run."""
        if self._runs.conclude(order.run, order.evidence).whole:
            self._take_back(order.run)  # while a GuardBusy is, this step is tried again
        return self._runs.report(order.run.id)

    def _look_at_objects(self, run: Run, heartbeat: Heartbeat) -> None:
        after = 0
        while findings := self._runs.seen_in(run, (Type.LOST, Type.SIZE_MISMATCH), after, LOOK):
            after = findings[-1].id
            heartbeat()
            named: dict[str, list[LiveEntry]] = defaultdict(list)
            for known in self._live.named(run.instance, sorted({f.record for f in findings})):
                named[known.record].append(known)
            keys: dict[str, set[str]] = defaultdict(set)
            for f in findings:
                keys[f.vault].add(f.key)
            now = there(self._vaults, run.instance, keys, heartbeat)
            again = {f.id: still(f, named[f.record], now) for f in findings}
            self._runs.confirm(run, [i for i, yes in again.items() if yes])
            self._runs.refute(run, [i for i, yes in again.items() if not yes])

    def _too_late(self, order: CheckOrder, notes: list[str], heartbeat: Heartbeat) -> list[str]:
        """Return the vaults in which a loss may be told when its versions are gone already."""
        found = []
        for spec in self._registered(order.instance):
            heartbeat()
            try:
                days = self._vaults.get(order.instance, spec.name).versions_days()
            except (VaultFault, UnknownVault) as e:
                notes.append(f"nobody can say how long versions stay: {e}")
                continue
            if days is not None and tells_too_late(self._interval, days):
                found.append(spec.name)
                hours = self._interval / 3600
                notes.append(
                    f"vault {spec.name} keeps versions for {days} days: with a check every {hours:g} h a loss may be "
                    "told too late to undo it; keep them longer, or lower check_object_interval_seconds"
                )
        return found

    def _uploads(self, order: CheckOrder, notes: list[str], heartbeat: Heartbeat) -> Iterator[Discrepancy]:
        """Yield the uploads that were never finished."""
        before = judged_until(order.run.cutoff, UPLOAD_SECONDS)
        for spec in self._registered(order.instance):
            heartbeat()
            try:
                for listed in self._vaults.get(order.instance, spec.name).uploads(before):
                    said = f"begun {listed.written}, upload {listed.etag}"
                    yield Discrepancy(type=Type.UPLOAD, vault=spec.name, key=listed.key, detail=said)
            except (VaultFault, UnknownVault) as e:
                notes.append(f"unfinished uploads were not listed: {e}")
