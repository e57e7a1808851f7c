"""Adopt the marks that earlier rounds left claimed: finish them, ask owners, and make second passes.

A killed worker of this round is followed in ``ranges.py``, not here.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import groupby
from typing import NamedTuple

from sexton.kernel.errors import GuardBusy, TooManyObjects
from sexton.marks.kept import OWNER_BUSY, Kept, by_owner_silence, name_first
from sexton.marks.model import Ref
from sexton.owners.port import OwnerSilent, Verify
from sexton.recycle.pipeline.active_lease import POLL_SECONDS, ActiveLease, BatchWork
from sexton.recycle.pipeline.listing import GIVEN_UP
from sexton.recycle.pipeline.model import AdoptOrder, Chunk, RangeReceipt, refuse_many
from sexton.recycle.pipeline.parts import Parts
from sexton.recycle.pipeline.resolve import Resolver
from sexton.recycle.pipeline.settle import Settler
from sexton.storage.port import UnknownVault, VaultFault

SECOND_PASS_MARKS = 200
"""Marks whose prefixes get their second pass before they are deleted and settled."""


class MarkPrefix(NamedTuple):
    """A prefix of a vault, and the mark that it belongs to."""

    vault: str
    prefix: str
    ref: Ref


def neighbours(prefixes: Sequence[MarkPrefix], groups: int) -> list[list[MarkPrefix]]:
    """Return sorted prefixes in about so many groups for each vault, each of one vault. Pure."""
    divided: list[list[MarkPrefix]] = []
    for _, group in groupby(prefixes, key=lambda prefix: prefix.vault):
        of_vault = list(group)
        size = -(-len(of_vault) // groups)
        divided += [of_vault[start : start + size] for start in range(0, len(of_vault), size)]
    return divided


class Adopter:
    """Adopts marks for one worker."""

    def __init__(self, parts: Parts, resolver: Resolver, settler: Settler) -> None:
        self._parts, self._stores, self._owner = parts, parts.stores, parts.owner
        self._resolver, self._settler = resolver, settler
        self._pool = ThreadPoolExecutor(parts.listings, thread_name_prefix="abort")

    def adopt(self, order: AdoptOrder, attempt: int, heartbeat: Callable[[], None]) -> RangeReceipt:
        """Finish the marks that earlier rounds claimed, then make the second passes that are due."""
        leases = self._parts.leases
        active_lease = ActiveLease(leases, self._parts.controls, order.lease, heartbeat, order.excluded_vaults)
        instance = order.lease.instance
        self._stores.quarantine.retry_failed(instance)
        verify = partial(leases.verify, order.lease)
        keep_counts = self._ask_owner(order, active_lease, verify)
        unfinished = self._stores.batches.unfinished(instance, order.round)
        for batch in unfinished:  # before any is finished: progress is shown of all that is left
            self._stores.files.count_adopted(batch, order, verify, active_lease.keep_alive)
        listed = 0
        for batch in unfinished:
            work = BatchWork(self._stores.batches.adopt_earlier(batch, order, order.attempts + attempt), active_lease)
            listed += self._stores.files.last_number(work.token)
            refuse_many(order, listed)
            keep_counts += self._settler.finish(work, order.upload_grace_seconds)
            self._stores.batches.close(work.token)
        work = BatchWork(self._stores.batches.open(order, order.attempts + attempt)[0], active_lease)
        receipt = self._make_second_passes(work, order, keep_counts, listed)
        self._stores.batches.close(work.token)
        return receipt

    def _make_second_passes(
        self, work: BatchWork, order: AdoptOrder, keep_counts: Counter[Kept], listed: int
    ) -> RangeReceipt:
        """Make the second passes that are due, a few marks at a time; add to the counts why marks were kept.

        ``listed``: objects of the order so far.
        """
        due_marks, settler = self._stores.due_marks, self._settler
        # Numbers of files only grow, also over rows that are removed meanwhile: a late outcome must find its own file.
        last_file = self._stores.files.last_number(work.token)
        settler.drop_unclaimed(work)
        due_marks.shorten_waits(work.token, order.upload_grace_seconds)
        scanned = quarantined = 0
        after = Ref("", "")
        while marks := due_marks.take_second_pass(work.token, after, SECOND_PASS_MARKS, order.upload_grace_seconds):
            after = marks[-1].ref
            scanned += len(marks)
            self._stores.files.drop(work.token, [mark.ref for mark in marks])
            while marks:
                # The objects are listed again, and checked as the claim checked those of the first pass.
                chunk = self._resolver.resolve(work, marks, last_file, claimed=True)
                self._resolver.keep_live(work, chunk)
                self._resolver.keep_blocked(work, chunk)
                listed += sum(chunk.candidates[ref].files for ref in chunk.refs)
                try:
                    refuse_many(order, listed)
                except TooManyObjects:  # none of these was sent: the next attempt need not wait for requests
                    self._stores.files.drop(work.token, chunk.refs, chunk.files_after)
                    raise
                self._abort_uploads(work, chunk)
                lacking = {c.ref: c.lacking for c in chunk.resolved_candidates if c.lacking is not None}
                self._stores.owner_marks.note_lacking(work.token, lacking)
                marks = marks[chunk.seen :]
                last_file = chunk.last_file
                quarantined += len(chunk.unresolvable)
                keep_counts += chunk.kept
                keep_counts += settler.finish_chunk(work, chunk, order.upload_grace_seconds)
        after = Ref("", "")
        while refs := due_marks.take_finished(work.token, after, SECOND_PASS_MARKS):  # last: its owner may fail again
            after = refs[-1]
            keep_counts += settler.settle(work, refs, order.upload_grace_seconds, logged=False)
        return RangeReceipt(
            scanned=scanned,
            finished=True,
            kept=name_first(keep_counts),
            quarantined=quarantined,
            faults=work.active_lease.faults,
            fault_details=work.active_lease.fault_details,
        )

    def _ask_owner(self, order: AdoptOrder, active_lease: ActiveLease, verify: Verify) -> Counter[Kept]:
        """Let the owner lift quarantines, time out loads, and mark new garbage; return what it did not answer."""
        instance, owner_marks, heartbeat = order.lease.instance, self._stores.owner_marks, active_lease.keep_alive

        def lift_quarantines() -> None:
            owner_marks.release_all(instance)
            for quarantined in owner_marks.quarantined(instance):
                heartbeat()
                owner_marks.free(instance, self._owner.resolvable(instance, quarantined))

        def mark_due() -> None:
            owner_marks.take_back(instance, self._owner.marked_children(instance), order.cutoffs)
            self._owner.mark_due(instance, order.cutoffs, heartbeat, verify)

        unanswered: Counter[Kept] = Counter()
        for ask in (lift_quarantines, partial(self._owner.abort_expired, instance, heartbeat), mark_due):
            heartbeat()
            try:
                ask()
            except OwnerSilent as e:
                unanswered[by_owner_silence(e)] += 1
            except GuardBusy:
                unanswered[OWNER_BUSY] += 1
        return unanswered

    def _abort_uploads(self, work: BatchWork, chunk: Chunk) -> None:
        """Abort unfinished uploads under prefixes whose upload grace has passed; keep the marks of faulty places.

        Neighbours share a request. Where one of them has a fault, each is tried alone, so that it keeps no other mark.
        """
        prefixes = sorted(
            MarkPrefix(place.vault, str(place.prefix), ref) for ref in chunk.refs for place in chunk.prefixes[ref]
        )
        for group, error in self._abort_groups(work, neighbours(prefixes, self._parts.listings)):
            # A vault that does not answer is not asked again for each of them.
            is_divided = len(group) > 1 and getattr(error, "reason", None) not in GIVEN_UP
            alone = self._abort_groups(work, [[prefix] for prefix in group]) if is_divided else [(group, error)]
            for faulty, fault in alone:
                refs = {prefix.ref for prefix in faulty} & set(chunk.refs)
                if refs:  # otherwise another place of the mark has kept it already
                    self._resolver.keep_for_fault(work, chunk, refs, faulty[0].vault, fault)

    def _abort_groups(
        self, work: BatchWork, groups: Sequence[Sequence[MarkPrefix]]
    ) -> list[tuple[Sequence[MarkPrefix], Exception]]:
        """Abort uploads under groups of prefixes, several groups at once; return the groups that had a fault."""

        def abort(group: Sequence[MarkPrefix]) -> Exception | None:
            try:
                vault = self._parts.vaults.get(work.instance, group[0].vault)
                vault.abort_uploads(*[prefix.prefix for prefix in group])
            except (VaultFault, UnknownVault) as e:
                return e
            return None

        requests = [(group, self._pool.submit(abort, group)) for group in groups]
        try:
            for _, request in requests:
                while not request.done():
                    wait([request], POLL_SECONDS)
                    work.active_lease.keep_alive()
        finally:
            for _, request in requests:
                request.cancel()
            wait([request for _, request in requests])
        return [(group, error) for group, request in requests if (error := request.result()) is not None]
