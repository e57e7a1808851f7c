"""What follows a deletion: the audit is told, the owner's records go, then the marks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby

from sexton.kernel.crash_points import reached
from sexton.marks.model import CHUNK_MARKS, Reason, Ref, Settlement, WriteToken
from sexton.owners.port import Owner
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.port import DeletionLog
from sexton.recycle.model import HELD_BY_VAULT
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.port import Marks
from sexton.storage.port import UnknownVault, VaultFault

AUDIT_FAULT = "audit "
"""How a fault begins that is of the place where the audit of a vault is kept."""


class Settler:
    """Concludes for one worker. Safe for several ranges at once."""

    def __init__(self, marks: Marks, owner: Owner, audit: DeletionLog) -> None:
        self._marks = marks
        self._owner = owner
        self._audit = audit

    def conclude(
        self, token: WriteToken, holding: ActiveLease, refs: Sequence[Ref], upload_grace_seconds: int, *, told: bool
    ) -> Counter[str]:
        """Tell the audit, unless whoever deleted has ``told`` it, then settle; return who keeps what is not settled."""
        untold = {} if told else tell_audit(self._audit, holding, self._marks.outcomes(token, refs))
        refs = [ref for ref in refs if ref not in untold]
        for start in range(0, len(refs), CHUNK_MARKS):
            holding.prove()
            self._settle(token, refs[start : start + CHUNK_MARKS], upload_grace_seconds)
        return Counter(untold.values())

    def _settle(self, token: WriteToken, refs: Sequence[Ref], upload_grace_seconds: int) -> None:
        """Files, then the owner's records, then the marks."""
        standings = self._marks.standings(token, refs)
        gone = [ref for s in standings if s.verdict is Settlement.GONE for ref in (s.ref, *s.absorbed)]
        if gone:
            self._owner.forget(token.instance, token.batch, gone)
            reached("owner.forgot")
        self._marks.settle(token, standings, upload_grace_seconds)


def tell_audit(audit: DeletionLog, holding: ActiveLease, outcomes: Iterable[Sequence[AuditRow]]) -> dict[Ref, str]:
    """Write down what became of each file, before its record goes; return the marks whose records must stay."""
    untold: dict[Ref, str] = {}
    for rows in outcomes:
        for _, group in groupby(sorted(rows, key=lambda r: r.vault), key=lambda r: r.vault):
            holding.prove()
            part = list(group)
            try:
                holding.patiently(partial(audit.write, part))
            except (VaultFault, UnknownVault) as e:
                vault, reason = part[0].vault, getattr(e, "reason", Reason.UNKNOWN_VAULT)
                if getattr(e, "vault", vault) != vault:  # audit_url is elsewhere: the vault itself is in order
                    reason = f"{AUDIT_FAULT}{reason}"
                holding.fault(vault, reason)
                untold |= {Ref(r.kind, r.id): f"{HELD_BY_VAULT}{vault}: {reason}" for r in part}
    reached("audit.written")
    return untold
