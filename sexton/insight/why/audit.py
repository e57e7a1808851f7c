"""Read from the deletion log what became of each object of a mark, also after SQL has deleted the mark's rows."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from sexton.insight.views import Story
from sexton.insight.wording import human_bytes, quantity
from sexton.marks.kept import Event
from sexton.marks.model import DONE, Ref
from sexton.recycle.audit.model import AuditRow, AuditUnreadable
from sexton.recycle.audit.store import AuditReader, Claim
from sexton.storage.port import UnknownVault, VaultFault

SHOWN = 10
"""Objects of one mark that are shown one by one; of more, only sums are shown."""
SEARCHED_ROWS = 1_000
"""Rows after which a search ends: people read a story, not thousands of lines."""


def events(audit: AuditReader, claim: Claim, names: Collection[str]) -> Iterator[Event]:
    """Yield what became of those objects of a claimed mark that have one of the names, by key or by mark id.

    Up to ``SHOWN`` objects are shown one by one; of more, one sum for each round, batch and outcome.
    """
    shown: list[AuditRow] = []
    latest: dict[tuple[int, int, str], int] = {}
    objects: Counter[tuple[int, int, str]] = Counter()
    sizes: Counter[tuple[int, int, str]] = Counter()
    fault = ""
    try:
        for row in audit.rows_of_mark(claim, names):
            if len(shown) <= SHOWN:
                shown.append(row)
            group = row.round, row.batch, row.outcome
            latest[group] = max(row.at, latest.get(group, 0))
            objects[group] += 1
            sizes[group] += row.bytes or 0
    except (VaultFault, UnknownVault, AuditUnreadable) as e:
        fault = str(e)
    if len(shown) <= SHOWN:
        yield from map(_object_event, shown)
    else:
        for group, at in latest.items():
            round_, batch, outcome = group
            text = f"{objects[group]:,} objects {outcome} in batch {batch}, round {round_}, {sizes[group]} bytes"
            yield Event(at=at, event=f"objects_{outcome}", text=text)
    if fault:
        yield _unread_event(fault)


def forgotten(
    audit: AuditReader, instances: Iterable[str], names: Collection[str], since: int, until: int
) -> Iterator[Story]:
    """Yield a story for each mark that has an object or an id with one of the names in the deletion log.

    Each ends with why its rows are incomplete, if they are.

    Args:
        audit: reads the deletion log.
        instances: the instances whose logs are searched.
        names: keys and mark ids.
        since: the first instant to read, in ms since 1970.
        until: the last instant to read, in ms since 1970.
    """
    for instance in instances:
        rows: list[AuditRow] = []
        incomplete: tuple[Event, ...] = ()
        try:
            for row in audit.search(instance, names, since, until):
                rows.append(row)
                if len(rows) == SEARCHED_ROWS:
                    text = f"only the first {SEARCHED_ROWS:,} objects are shown; search for a key instead of an id"
                    incomplete = (Event(event="audit_cut", text=text),)
                    break
        except (VaultFault, UnknownVault, AuditUnreadable) as e:
            incomplete = (_unread_event(str(e)),)
        rows.sort(key=lambda r: (r.kind, r.id, r.at))
        for ref, rows_of_mark in groupby(rows, key=lambda r: Ref(r.kind, r.id)):
            object_events = map(_object_event, rows_of_mark)
            yield Story(instance=instance, kind=ref.kind, id=ref.id, events=(*object_events, *incomplete))
        if incomplete and not rows:
            yield Story(instance=instance, events=incomplete)


def _unread_event(fault: str) -> Event:
    return Event(event="audit_unread", text=f"the deletion log cannot be read completely: {fault}")


def _object_event(row: AuditRow) -> Event:
    size = "" if row.bytes is None else f", {row.bytes} bytes"
    reason = f": {row.reason}" if row.reason else ""
    gone = "gone: " if row.outcome in DONE else ""
    text = f"{gone}{row.key} in vault {row.vault} {row.outcome}{size}, batch {row.batch}, round {row.round}{reason}"
    return Event(at=row.at, event=f"object_{row.outcome}", text=text)


def audit_hint(audit: AuditReader, instances: Iterable[str], name: str, now: int) -> str:
    """Return how much a search of the audit for a name would read; empty if there is no audit."""
    sizes = [audit.size(instance, 0, now) for instance in instances]
    files = sum(size.files for size in sizes)
    if not files:
        return ""
    at_least = "" if all(size.whole for size in sizes) else "more than "
    size = human_bytes(sum(size.bytes for size in sizes))
    return (
        f"the audit goes back further: sexton why {name} --deep reads {at_least}{quantity(files, 'file')} of it "
        f"({at_least}{size}); --last 90d reads fewer"
    )
