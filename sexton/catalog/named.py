"""What of a mark's own keys and prefixes is live: a mark of no kind of the catalog's names files, never records."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, literal, select

from sexton.catalog import parents
from sexton.catalog.layout import ROOT, parse, rowset_prefix
from sexton.catalog.model import State
from sexton.catalog.scope import Scope
from sexton.marks.model import DueMark, Ref

ROWS_AT_ONCE = 5_000


def live(s: Scope, marks: Sequence[DueMark]) -> set[Ref]:
    """Return the marks that name a file of a visible rowset, exactly or by a prefix."""
    return {*_by_key(s, marks), *(m.ref for m in marks if m.prefix is not None and _any_under(s, m.prefix))}


def _by_key(s: Scope, marks: Sequence[DueMark]) -> set[Ref]:
    named: Mapping[str, set[Ref]] = defaultdict(set)
    for mark in marks:
        for key in mark.keys or ():
            if (file := parse(key)) is not None:
                named[file.rowset].add(mark.ref)
    found: set[Ref] = set()
    ids = sorted(named)
    for start in range(0, len(ids), ROWS_AT_ONCE):
        for id_ in s.ids(_visible(s).where(s.mine(s.t.rowsets.c.id, ids[start : start + ROWS_AT_ONCE]))):
            found |= named[id_]
    return found


def _any_under(s: Scope, prefix: str) -> bool:
    """Return whether any visible rowset has files under a prefix; of one tablet, or all of them."""
    rowset = s.t.rowsets
    if ROOT.startswith(prefix):
        return s.c.execute(_visible(s).limit(1)).first() is not None
    tablet, slash, _ = prefix.removeprefix(ROOT).partition("/")
    if not prefix.startswith(ROOT):
        return False
    its = rowset.c.tablet_id == tablet if slash else rowset.c.tablet_id.startswith(tablet, autoescape=True)
    ids = s.ids(_visible(s).where(its))
    return any((whole := rowset_prefix(tablet, i)).startswith(prefix) or prefix.startswith(whole) for i in ids) or bool(
        ids and not slash
    )


def _visible(s: Scope) -> Any:
    rowset, tablet = s.t.rowsets, s.t.tablets
    of = and_(tablet.c.id == rowset.c.tablet_id, tablet.c.instance == rowset.c.instance, parents.standing(s))
    chosen = select(rowset.c.id).join(tablet, of)
    return chosen.where(rowset.c.instance == literal(s.instance), rowset.c.state == State.VISIBLE)
