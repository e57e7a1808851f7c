"""What a round has done so far, as its ranges told it: the bookkeeping of a workflow, pure.

The tallies in the database say what really went; this says how far the round is, who kept what, and what went wrong.
"""

from collections import Counter

from sexton.marks.keepers import Kept, describe
from sexton.recycle.pipeline.model import Cursor, RangeOrder, RangeReceipt
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.rounds.model import Carried, CloseOrder, KindProgress, OpenedRound


class Ledger:
    """One round's books; they go on in the next run of a long one."""

    def __init__(self, carried: Carried | None = None) -> None:
        self.kinds = {k.kind: k for k in carried.kinds} if carried else {}
        self.leases = carried.leases if carried else 0
        self.lost = carried.lost_leases if carried else 0
        self.tries = carried.tries if carried else 0
        self._faults = dict(carried.faults) if carried else {}
        self._adopted: dict[Kept, int] = {}
        self._aside = 0

    def begin(self, plan: Plan) -> None:
        """Take in the kinds of a plan."""
        for k in plan.kinds:
            since = Cursor(retention_starts_at=k.since + 1) if k.since else Cursor()
            self.kinds.setdefault(k.kind, KindProgress(kind=k.kind, due=k.marks, cursor=since))

    def adopted(self, receipt: RangeReceipt) -> None:
        """Enter what became of earlier rounds' claims; what is held of them is as it was told last."""
        self._adopted = receipt.kept
        self._aside += receipt.quarantined
        self._faults |= receipt.faults

    def next_range(self, opened: OpenedRound, plan: Plan, kind: KindPlan) -> RangeOrder:
        """Return the order for the next range of a kind."""
        so_far = self.kinds[kind.kind]
        return RangeOrder(
            round=opened.round,
            number=so_far.ranges,
            lease=opened.lease,
            kind=kind.kind,
            cutoff=kind.cutoff,
            limit=kind.marks - so_far.claimed,
            after=so_far.cursor,
            upload_grace_seconds=plan.policy.upload_grace_seconds,
            allowance=plan.allowance if kind.limited else None,
            excluded_vaults=opened.excluded_vaults,
        )

    def done(self, kind: str, receipt: RangeReceipt, took_ms: int) -> None:
        """Enter a range that ended."""
        k = self.kinds[kind]
        self._faults |= receipt.faults
        self._note(
            kind,
            elapsed_ms=k.elapsed_ms + took_ms,
            ranges=k.ranges + 1,
            cursor=receipt.last,
            finished=receipt.finished,
            scanned=k.scanned + receipt.scanned,
            claimed=k.claimed + receipt.claimed,
            quarantined=k.quarantined + receipt.quarantined,
            kept=dict(Counter(k.kept) + Counter(receipt.kept)),
            protected_bytes=k.protected_bytes + receipt.protected_bytes,
            removed=receipt.removed,
            objects=receipt.objects,
            bytes=receipt.bytes,
        )

    def cut_short(self, kind: str, took_ms: int) -> None:
        """Enter the time of a range that was cancelled or failed."""
        self._note(kind, elapsed_ms=self.kinds[kind].elapsed_ms + took_ms)

    def error(self, kind: str, said: str) -> None:
        """Enter what went wrong with a kind; empty where it is tried again."""
        self._note(kind, error=said)

    def without_spark(self, kind: str, why: str, *, again: bool) -> None:
        """Enter that a kind of many objects is not deleted on Spark; ``again``: its next range may be."""
        self._note(kind, note=why, tries_spark=again)

    def waits_for(self, plan: Plan, kind: str) -> list[str]:
        """Return the kinds that must go before one and are not through; enter that it waits for them."""
        before = plan.policy.after.get(kind, ())
        waits = [k for k in before if k in self.kinds and not self.kinds[k].finished]
        if waits:
            self.error(kind, f"waits for {', '.join(waits)}")
        return waits

    @property
    def unfinished(self) -> bool:
        """Return whether a kind that was begun is not through."""
        return any(not k.finished for k in self.kinds.values())

    @property
    def errors(self) -> list[str]:
        """Return what went wrong, by kind."""
        return [f"{k.kind}: {k.error}" for k in self.kinds.values() if k.error]

    @property
    def kept(self) -> dict[Kept, int]:
        """Return how many marks were kept, and why."""
        return dict(sum((Counter(k.kept) for k in self.kinds.values()), Counter(self._adopted)))

    @property
    def lines(self) -> list[str]:
        """Return one line for each kind, for people."""
        return [
            f"- {k.kind}: {k.scanned:,} of {k.due:,} marks looked at, {k.objects:,} objects gone"
            + (
                f", kept {', '.join(f'{n:,} by {describe(why)}' for why, n in sorted(k.kept.items()))}"
                if k.kept
                else ""
            )
            + (f", error: {k.error}" if k.error else "")
            + (f" ({k.note})" if k.note else "")
            for k in self.kinds.values()
        ]

    def close_order(
        self, opened: OpenedRound, plan_id: int | None, plan: Plan | None, state: str, error: str
    ) -> CloseOrder:
        """Return the order that ends the round; ``plan`` is None where none was read yet."""
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
            quarantined=self._aside + sum(k.quarantined for k in kinds),
            kinds=kinds,
            faults=self._faults,
            leases=self.leases,
            lost_leases=self.lost,
        )

    def carried(self, run: str, opened: OpenedRound | None, plan_id: int | None) -> Carried:
        """Return what the next run needs to go on; it takes the lease again, at the same epoch."""
        return Carried(
            run=run,
            opened=opened,
            plan=plan_id,
            leases=self.leases - 1,
            lost_leases=self.lost,
            tries=self.tries,
            kinds=tuple(self.kinds.values()),
            faults=self._faults,
        )

    def _note(self, kind: str, **changed: object) -> None:
        self.kinds[kind] = self.kinds[kind].model_copy(update=changed)
