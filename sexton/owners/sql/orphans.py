"""Name what an orphan belongs to, by the groups of the owner's key pattern: no record of the owner names it."""

import re
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.database.engine import Database
from sexton.marks.model import DueMark, Expansion, Place, Ref

RECORD, ROWSET = "record", "rowset"
"""The group of a pattern that captures a file's record, and the kind under which a repair names it as a parent."""


def expand_orphans(db: Database, instance: str, marks: Sequence[DueMark]) -> dict[Ref, Expansion]:
    """Return the orphans among marks with what their keys name as ancestors; without a pattern, nothing."""
    orphans = [mark for mark in marks if mark.etags and mark.vault is not None]
    if not orphans:
        return {}
    t = db.t.instance
    with db.read() as c:
        pattern = c.execute(select(t.c.key_pattern).where(t.c.id == instance)).scalar_one_or_none()
    if not pattern:
        return {}
    compiled = re.compile(pattern)
    expansions: dict[Ref, Expansion] = {}
    for mark in orphans:
        place = Place(vault=mark.vault or "", keys=mark.keys, etags=mark.etags)
        above = named_in(compiled, mark.keys or ())
        expansions[mark.ref] = Expansion(places=(place,), fence=False, above=above)
    return expansions


def named_in(pattern: re.Pattern[str], keys: Sequence[str]) -> tuple[Ref, ...]:
    """Return what keys name: each group of the pattern is a kind, and its text an id. Pure."""
    matches = (pattern.fullmatch(key) for key in keys)
    groups: list[Mapping[str, str | None]] = [match.groupdict() for match in matches if match is not None]
    refs = {Ref(ROWSET if kind == RECORD else kind, id_) for names in groups for kind, id_ in names.items() if id_}
    return tuple(sorted(refs))
