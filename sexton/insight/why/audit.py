"""What the audit adds to a story: each object's outcome, long after SQL has forgotten its mark."""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from sexton.insight.views import Event, Story
from sexton.marks.model import DONE, Ref
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.port import AuditUnreadable
from sexton.recycle.audit.store import AuditReader, Claim
from sexton.storage.port import UnknownVault, VaultFault

SHOWN = 10
"""Objects of one mark that are named one by one; of more the sums are told."""
SEARCHED_ROWS = 1_000
"""Rows after which a search ends: a story is for reading."""


def events(audit: AuditReader, claim: Claim, names: Collection[str]) -> Iterator[Event]:
    """Yield what became of the objects of one mark; of those that have one of the names, by key or by mark id."""
    told: list[AuditRow] = []
    sums: dict[tuple[int, int, str], list[int]] = {}
    fault = ""
    try:
        for row in audit.about(claim, names):
            if len(told) <= SHOWN:
                told.append(row)
            sum_ = sums.setdefault((row.round, row.batch, row.outcome), [0, 0, 0])
            sum_[:] = [max(sum_[0], row.at), sum_[1] + 1, sum_[2] + (row.bytes or 0)]
    except (VaultFault, UnknownVault, AuditUnreadable) as e:
        fault = str(e)
    if len(told) <= SHOWN:
        yield from map(_event, told)
    else:
        for (round_, batch, outcome), (at, objects, size) in sums.items():
            where = f"in batch {batch}, round {round_}"
            yield Event(at=at, event=f"objects_{outcome}", text=f"{objects:,} objects {outcome} {where}, {size} bytes")
    if fault:
        yield Event(event="audit_unread", text=f"the audit cannot be read whole: {fault}")


def forgotten(
    audit: AuditReader, instances: Iterable[str], names: Collection[str], since: int, until: int
) -> Iterator[Story]:
    """Yield a story for each mark that every day's audit tells of under one of the names."""
    for instance in instances:
        rows: list[AuditRow] = []
        unread: tuple[Event, ...] = ()
        try:
            for row in audit.search(instance, names, since, until):
                rows.append(row)
                if len(rows) == SEARCHED_ROWS:
                    text = f"only the first {SEARCHED_ROWS} objects are told; name a key instead of an id"
                    unread = (Event(event="audit_cut", text=text),)
                    break
        except (VaultFault, UnknownVault, AuditUnreadable) as e:
            unread = (Event(event="audit_unread", text=f"the audit cannot be read whole: {e}"),)
        rows.sort(key=lambda r: (r.kind, r.id, r.at))
        for ref, its in groupby(rows, key=lambda r: Ref(r.kind, r.id)):
            yield Story(instance=instance, kind=ref.kind, id=ref.id, events=(*map(_event, its), *unread))
        if unread and not rows:
            yield Story(instance=instance, events=unread)


def _event(row: AuditRow) -> Event:
    size = "" if row.bytes is None else f", {row.bytes} bytes"
    why = f": {row.reason}" if row.reason else ""
    gone = "gone: " if row.outcome in DONE else ""
    text = f"{gone}{row.key} in vault {row.vault} {row.outcome}{size}, batch {row.batch}, round {row.round}{why}"
    return Event(at=row.at, event=f"object_{row.outcome}", text=text)
