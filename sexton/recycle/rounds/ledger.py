"""Keep the books of a round in its workflow, from the receipts of its ranges. Pure.

The database counts what was deleted (``tally``). The ledger knows how far the round is, which marks were kept and why,
and which errors occurred.
"""

from collections import Counter

from sexton.marks.kept import Kept, name_first
from sexton.recycle.pipeline.model import RangeOrder, RangeReceipt
from sexton.recycle.planning.model import KindPlan, Plan, PlannedShard
from sexton.recycle.rounds.model import Carried, CloseOrder, KindProgress, OpenedRound, ShardProgress


class Ledger:
    """The books of one round; a workflow that continues as new carries them to its next run."""

    def __init__(self, carried: Carried | None = None) -> None:
        carried = carried or Carried(run="", plan=None, leases=0, lost_leases=0, tries=0, kinds=(), faults={})
        self.kinds = {k.kind: k for k in carried.kinds}
        self.leases, self.leases_lost, self.tries = carried.leases, carried.lost_leases, carried.tries
        self._faults, self._fault_details = carried.faults, carried.fault_details
        self._adopted = carried.kept_by_adoption
        self._quarantined_by_adoption, self._adoption_ms = carried.quarantined_by_adoption, carried.adoption_ms
        self._adoption_note = carried.adoption_note

    def begin(self, plan: Plan) -> None:
        """Open the books of a plan's kinds."""
        for planned in plan.kinds:
            carried = self.kinds.get(planned.kind)
            if carried is not None and carried.shards:
                continue
            # Ranges that code without shards began return their stored receipts again: they are of one shard.
            divided = planned.shards if carried is None else ()
            cursor = planned.begin
            shards: list[ShardProgress] = []
            for shard in divided or (PlannedShard(marks=planned.marks),):
                shards.append(ShardProgress(limit=shard.marks, cursor=cursor, until=shard.until))
                cursor = shard.until or cursor
            self.kinds[planned.kind] = KindProgress(kind=planned.kind, due=planned.marks, shards=tuple(shards))

    def add_adoption(self, receipt: RangeReceipt) -> None:
        """Enter the receipt for earlier rounds' claims; of the marks that it kept, the last receipt counts."""
        self._adopted = receipt.kept
        self._quarantined_by_adoption += receipt.quarantined
        self._add_faults(receipt)

    def add_adoption_time(self, took_ms: int) -> None:
        """Enter for how long (ms) the round worked on marks that earlier rounds had claimed."""
        self._adoption_ms += took_ms

    def note_adoption(self, note: str, _again: bool) -> None:
        """Enter that many objects of earlier rounds are deleted on Spark, or why not."""
        self._adoption_note = note

    def unfinished_shards(self, kind: str) -> list[int]:
        """Return the numbers of a kind's shards that are not finished."""
        return [number for number, shard in enumerate(self.kinds[kind].shards) if not shard.finished]

    def next_range(self, opened: OpenedRound, plan: Plan, kind: KindPlan, shard: int) -> RangeOrder:
        """Return the order for the next range of a kind's shard."""
        shards = self.kinds[kind.kind].shards
        progress = shards[shard]
        return RangeOrder(
            round=opened.round,
            number=progress.ranges * len(shards) + shard,
            lease=opened.lease,
            plan=plan.id,
            kind=kind.kind,
            shard=shard,
            cutoff=kind.cutoff,
            limit=progress.limit,
            after=progress.cursor,
            until=progress.until,
            upload_grace_seconds=plan.policy.upload_grace_seconds,
            allowance=plan.allowance if kind.limited else None,
            excluded_vaults=opened.excluded_vaults,
        )

    def add_range(self, order: RangeOrder, receipt: RangeReceipt) -> None:
        """Enter the receipt of a range."""
        kind, number = order.kind, order.shard
        before = self.kinds[kind]
        self._add_faults(receipt)
        shards = list(before.shards)
        shard = shards[number]
        changed = {"limit": shard.limit - receipt.claimed, "cursor": receipt.last, "finished": receipt.finished}
        shards[number] = shard.model_copy(update={**changed, "ranges": shard.ranges + 1})
        self._update(
            kind,
            shards=tuple(shards),
            finished=all(shard.finished for shard in shards),
            scanned=before.scanned + receipt.scanned,
            claimed=before.claimed + receipt.claimed,
            quarantined=before.quarantined + receipt.quarantined,
            kept=name_first(Counter(before.kept) + Counter(receipt.kept)),
            protected_bytes=before.protected_bytes + receipt.protected_bytes,
            # Counts of the whole round: the receipt of another shard may have been newer.
            removed=max(before.removed, receipt.removed),
            objects=max(before.objects, receipt.objects),
            bytes=max(before.bytes, receipt.bytes),
        )

    def add_elapsed(self, kind: str, took_ms: int) -> None:
        """Enter for how long (ms) ranges of the kind ran."""
        self._update(kind, elapsed_ms=self.kinds[kind].elapsed_ms + took_ms)

    def set_error(self, kind: str, error: str) -> None:
        """Enter the error of a kind; empty: it is tried again."""
        self._update(kind, error=error)

    def note_spark(self, kind: str, note: str, again: bool) -> None:
        """Enter that a kind with many objects is deleted on Spark, or why not; ``again``: its next range may be."""
        self._update(kind, note=note, tries_spark=self.kinds[kind].tries_spark and again)

    def waits_for(self, plan: Plan, kind: str) -> list[str]:
        """Return the unfinished kinds that must be deleted before this one; enter that it waits for them."""
        earlier_kinds = plan.policy.after.get(kind, ())
        unfinished = [k for k in earlier_kinds if k in self.kinds and not self.kinds[k].finished]
        if unfinished:
            self.set_error(kind, f"waits for {', '.join(unfinished)}")
        return unfinished

    @property
    def unfinished(self) -> bool:
        """Return whether a kind of the plan is not finished."""
        return any(not k.finished for k in self.kinds.values())

    @property
    def errors(self) -> list[str]:
        """Return the errors, each with its kind."""
        return [f"{k.kind}: {k.error}" for k in self.kinds.values() if k.error]

    @property
    def kept(self) -> dict[Kept, int]:
        """Return how many marks were kept, and why."""
        return name_first(sum((Counter(k.kept) for k in self.kinds.values()), Counter(self._adopted)))

    @property
    def lines(self) -> list[str]:
        """Return the errors and the notes, each with its kind, for the Temporal UI."""
        return [*self.errors, *(f"{k.kind}: {k.note}" for k in self.kinds.values() if k.note)]

    def close_order(
        self, opened: OpenedRound, plan_id: int | None, plan: Plan | None, state: str, error: str
    ) -> CloseOrder:
        """Return the order that ends the round; ``plan``: None if the round had read none yet."""
        kinds = tuple(self.kinds.values())
        return CloseOrder(
            opened=opened,
            plan=plan_id,
            outcome=state,
            error=error,
            scanned=sum(k.scanned for k in kinds),
            due=plan.marks if plan else sum(k.due for k in kinds),
            kept=dict(Counter(self.kept) + Counter(plan.kept if plan else {})),
            protected_bytes=sum(k.protected_bytes for k in kinds),
            quarantined=self._quarantined_by_adoption + sum(k.quarantined for k in kinds),
            kinds=kinds,
            faults=self._faults,
            fault_details=self._fault_details,
            leases=self.leases,
            lost_leases=self.leases_lost,
            adoption_ms=self._adoption_ms,
            adoption_note=self._adoption_note,
        )

    def carried(self, run: str, opened: OpenedRound | None, plan_id: int | None) -> Carried:
        """Return what the next run needs to continue; it acquires the lease again, in the same epoch."""
        return Carried(
            run=run,
            opened=opened,
            plan=plan_id,
            leases=self.leases - 1,
            lost_leases=self.leases_lost,
            tries=self.tries,
            kinds=tuple(self.kinds.values()),
            faults=self._faults,
            fault_details=self._fault_details,
            kept_by_adoption=self._adopted,
            quarantined_by_adoption=self._quarantined_by_adoption,
            adoption_ms=self._adoption_ms,
            adoption_note=self._adoption_note,
        )

    def _add_faults(self, receipt: RangeReceipt) -> None:
        self._faults = self._faults | receipt.faults
        self._fault_details = self._fault_details | receipt.fault_details

    def _update(self, kind: str, **changed: object) -> None:
        self.kinds[kind] = self.kinds[kind].model_copy(update=changed)
