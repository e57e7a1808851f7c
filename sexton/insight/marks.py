"""List marks page by page, from indexes alone, whatever their number.

First the marks that wait, by kind and in the order in which they become due, then claimed ones, then quarantined ones.
An operator who searches some may name a key, or its beginning, perhaps after what names its vault; a shell completes
names of all kinds of things.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Select, String, and_, cast, func, not_, or_, select, true
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, now_once, reached_limit
from sexton.database.rows import beyond
from sexton.insight.views import ListedMark, MarkPage
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.kernel.message import Message
from sexton.marks.model import Cutoff, MarkState, Ref
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.rows import CLAIMED, has_key_under, is_due, waits
from sexton.operators.holds.model import Hold
from sexton.recycle.planning.model import Estimate, Plan, PlanRow, Policy
from sexton.recycle.planning.sql.measure import find_kinds
from sexton.storage.kinds import url_roots
from sexton.storage.model import VaultSpec

NUMBERED = ("PLAN", "ROUND", "HOLD")
"""Kinds whose names are numbers; the newest are read."""
SEARCH_SECONDS = 30
"""How long a statement that searches marks may take: their owners decide how much there is to read."""


class SearchedPlace(NamedTuple):
    """The beginning of a key, in one vault or in any (None)."""

    vault: str | None
    beginning: str


def names_of(vaults: Iterable[VaultSpec], name: str) -> set[str]:
    """Return a name, and the key that is left of it in each vault whose name, location or prefix it begins with."""
    return {name} | {place.beginning for place in places_of(vaults, name)}


def places_of(vaults: Iterable[VaultSpec], text: str) -> set[SearchedPlace]:
    """Return what a text may mean as the beginning of a key: in any vault, or in the vault that it begins to name."""
    places = {SearchedPlace(None, text.lstrip("/"))}
    for vault in vaults:
        for start in (f"{vault.name}/", vault.prefix, f"{vault.location}/{vault.prefix}", *url_roots(vault)):
            if start and text.startswith(start):
                places.add(SearchedPlace(vault.name, text.removeprefix(start).lstrip("/")))
    return places


class Listed(StrEnum):
    """Which marks are listed: each is in one of the first three; a fenced one waits, too."""

    WAITING = "WAITING"
    CLAIMED = "CLAIMED"
    QUARANTINED = "QUARANTINED"
    FENCED = "FENCED"
    CHILD = "CHILD"
    """Marks of one parent, in any state."""


STATES = {listed.value: listed for listed in Listed if listed is not Listed.CHILD}
"""The states that an operator may name."""


class MarkFilter(NamedTuple):
    """Which marks of an instance are listed. ``kind``: empty means every one."""

    instance: str
    kind: str = ""
    state: Listed | None = None
    parent: Ref | None = None
    within: Mapping[str, tuple[Cutoff, Cutoff]] | None = None
    """Only waiting marks of these kinds that are not due by one cutoff, but by another."""
    under: Collection[SearchedPlace] = ()
    """Only marks whose prefix, or one of whose keys, begins with one of these, or whose prefix covers one."""


def in_plan(plan: Plan, kind: str = "", under: Collection[SearchedPlace] = ()) -> MarkFilter:
    """Return the filter for the marks of a plan that are due now; ``kind``: only those of this kind."""
    kinds = {k.kind: (k.since, k.cutoff) for k in plan.kinds if kind in ("", k.kind)}
    return MarkFilter(plan.instance, within=kinds, under=under)


class _MarkRange(NamedTuple):
    """Marks of one kind and state, with the index that lists them in the order of ``position``."""

    listed: Listed
    kind: str
    query: Select[Any]
    position: tuple[str, ...]


class MarkListing:
    """Reads the marks of an instance in pages; each page has the place at which the next one begins."""

    def __init__(self, db: Database, policy: Policy) -> None:
        self._db, self._policy = db, policy

    def page(self, c: Connection, wanted: MarkFilter, after: str = "", limit: int = 100) -> MarkPage:
        """Return the next marks after a place, ``next`` of an earlier page; raise ``BadInput`` for another text."""
        if wanted.under:
            self._db.limit_statements(c, SEARCH_SECONDS)
        try:
            return self._page(c, wanted, after, limit)
        except OperationalError as e:
            if not wanted.under or not reached_limit(e):
                raise
            what = f"the search was ended after {SEARCH_SECONDS} s; search one kind, or ask for one key: sexton why KEY"
            raise BadInput(what) from e

    def _page(self, c: Connection, wanted: MarkFilter, after: str, limit: int) -> MarkPage:
        sections = list(self._sections(c, wanted))
        first, values = self._start(sections, after)
        marks: list[ListedMark] = []
        place = after
        for number, section in enumerate(sections[first:]):
            query = section.query
            columns = [query.selected_columns[name] for name in section.position]
            if number == 0 and values:
                query = query.where(beyond(columns, values))
            rows = c.execute(query.order_by(*columns).limit(limit + 1 - len(marks))).all()
            for row in rows:
                if len(marks) == limit:
                    return MarkPage(items=tuple(marks), more=True, next=place)
                mark = ListedMark(
                    **row._mapping,
                    mark=row.id,
                    due_at=self._policy.due_at(row.kind, row.retention_starts_at),
                    parent=None if row.parent_id is None else f"{row.parent_kind}/{row.parent_id}",
                    keys=row.key_count,
                    quarantined=row.quarantined_reason,
                )
                marks.append(mark)
                position = [str(row._mapping[name]) for name in section.position]
                place = "/".join([section.listed, *filter(None, [section.kind]), *position])
        return MarkPage(items=tuple(marks))

    def _sections(self, c: Connection, wanted: MarkFilter) -> Iterator[_MarkRange]:
        """Yield the index ranges that are listed, in order."""
        mark = self._db.t.mark
        if wanted.parent is not None:
            condition = and_(mark.c.parent_id == wanted.parent.id, mark.c.parent_kind == wanted.parent.kind)
            condition &= self._of_instance(wanted)
            if wanted.kind:
                condition &= mark.c.kind == wanted.kind
            # Materialized: else a planner may walk the primary key, which has the order, and compare every parent.
            children = self._select().where(condition).cte("child").prefix_with("MATERIALIZED")
            yield _MarkRange(Listed.CHILD, "", select(children), ("kind", "id"))
            return
        states = (Listed.WAITING, Listed.CLAIMED, Listed.QUARANTINED) if wanted.state is None else (wanted.state,)
        if wanted.within is not None:
            states = (Listed.WAITING,)
        # An index finds these in an order other than that of time.
        conditions = {
            Listed.CLAIMED: and_(mark.c.state == CLAIMED, mark.c.quarantined_reason.is_(None)),
            Listed.QUARANTINED: mark.c.quarantined_reason.is_not(None),
            Listed.FENCED: mark.c.state == MarkState.FENCED,
        }
        for state in states:
            if state is Listed.WAITING:
                yield from self._waiting(c, wanted)
                continue
            condition = and_(self._of_instance(wanted), conditions[state])
            if wanted.kind:
                condition &= mark.c.kind == wanted.kind
            position = ("batch", "last_file", "kind", "id") if state is Listed.CLAIMED else ("kind", "id")
            yield _MarkRange(state, "", self._select().where(condition), position)

    def _waiting(self, c: Connection, wanted: MarkFilter) -> Iterator[_MarkRange]:
        mark = self._db.t.mark
        kinds: Iterable[str] = [wanted.kind]
        if wanted.within is not None:
            kinds = wanted.within
        elif not wanted.kind:
            kinds = find_kinds(self._db, c, wanted.instance, self._policy.retention_seconds).names
        for kind in kinds:
            of_kind = and_(self._of_instance(wanted), mark.c.kind == kind, waits(mark))
            if wanted.within is not None:
                since, until = wanted.within[kind]
                of_kind &= and_(not_(is_due(mark, since)), is_due(mark, until))
            yield _MarkRange(Listed.WAITING, kind, self._select().where(of_kind), ("retention_starts_at", "id"))

    def _of_instance(self, wanted: MarkFilter) -> ColumnElement[bool]:
        """Return the condition that a mark is of an instance, and of the part of its files that is wanted."""
        mark = self._db.t.mark
        of_instance = mark.c.instance == wanted.instance
        vaults_of: defaultdict[str, set[str | None]] = defaultdict(set)
        for place in wanted.under:
            vaults_of[place.beginning].add(place.vault)
        is_under: list[ColumnElement[bool]] = []
        for beginning, vaults in vaults_of.items():  # None: in any vault
            begins = func.substr(mark.c.prefix, 1, len(beginning)) == beginning
            is_covered = mark.c.prefix.in_(covering_prefixes(beginning))
            names_files = or_(begins, is_covered, has_key_under(mark, beginning)) if beginning else true()
            is_under.append(names_files if None in vaults else and_(mark.c.vault.in_(vaults), names_files))
        return and_(of_instance, or_(*is_under)) if is_under else of_instance

    def _select(self) -> Select[Any]:
        mark = self._db.t.mark
        names = (
            "instance",
            "kind",
            "id",
            "state",
            "marked_at",
            "retention_starts_at",
            "parent_kind",
            "parent_id",
            "vault",
            "prefix",
            "bytes",
            "quarantined_reason",
            "last_error",
            "batch",
            "last_file",
        )
        key_count = func.coalesce(func.jsonb_array_length(mark.c["keys"]), 0).label("key_count")
        return select(*[mark.c[name] for name in names], key_count)

    def _start(self, sections: Sequence[_MarkRange], after: str) -> tuple[int, list[Any]]:
        """Return the section in which a page begins, and the position in it behind which it begins."""
        if not after:
            return 0, []
        listed, _, rest = after.partition("/")
        for number, section in enumerate(sections):
            prefix = f"{section.kind}/" if section.kind else ""
            if section.listed == listed and rest.startswith(prefix):
                texts = rest.removeprefix(prefix).split("/")
                if len(texts) == len(section.position) and _numbers_fit(section, texts):
                    named = zip(section.position, texts, strict=True)
                    return number, [int(text) if name in NUMBERS else text for name, text in named]
        raise WrongUsage(f"{after!r} is no place in this list; take `next` of the page before, with the same filters")


NUMBERS = ("retention_starts_at", "batch", "last_file")
BOUNDS = {"retention_starts_at": (-62_135_596_800_000, 253_402_300_799_999)}
"""Ms since 1970 of the first and the last instant that ``datetime`` has; other numbers have 64 bits."""
BITS_64 = (-(2**63), 2**63 - 1)


def _numbers_fit(section: _MarkRange, texts: Sequence[str]) -> bool:
    for name, text in zip(section.position, texts, strict=True):
        if name in NUMBERS:
            least, most = BOUNDS.get(name, BITS_64)
            if not re.fullmatch("-?[0-9]{1,19}", text) or not least <= int(text) <= most:
                return False
    return True


class PlanStanding(Message):
    """A plan, its estimated cost, and what blocks the deletion of its marks besides the plan itself."""

    plan: Plan
    """Its number is 0 if nothing is due: then it is not stored."""
    estimate: Estimate
    observes: bool = False
    holds: tuple[Hold, ...] = ()
    """The holds of its instance that are active now."""
    halt: str = ""
    """What stops its instance now; empty: nothing does."""
    for_good: str = ""
    """Which buckets do not hide what they delete, although they keep versions; empty: none is known."""


class PlanReview(PlanStanding):
    """A stored plan, and the first marks of each kind that are due now, up to its cutoffs."""

    row: PlanRow
    marks: tuple[ListedMark, ...] = ()


class PlanDetails(PlanStanding):
    """A new plan.

    ``next_due_at``: when the next mark is due that is not due yet, of kind ``next_kind``; None: no mark waits.
    """

    state: str
    next_due_at: int | None = None
    next_kind: str = ""


def sample_marks(db: Database, plan: Plan, marks_per_kind: int) -> tuple[ListedMark, ...]:
    """Return the first marks of each kind of a plan that wait now, in the order in which they became due."""
    listing = MarkListing(db, plan.policy)
    marks: list[ListedMark] = []
    with db.read() as c:
        for kind in plan.kinds:
            marks += listing.page(c, in_plan(plan, kind.kind), limit=marks_per_kind).items
    return tuple(marks)


def read_names(db: Database, kind: str, begin: str, limit: int) -> Sequence[str]:
    """Return at most ``limit`` names of a kind that begin so; ``kind``: as the help calls it, e.g. ``INSTANCE``."""
    t = db.t
    columns: dict[str, Column[object]] = {
        "INSTANCE": t.instance.c.id,
        "VAULT": t.vault.c.name,
        "TOPIC": t.wal_topic.c.name,
        "TOKEN": t.token.c.id,
        "PLAN": t.plan.c.id,
        "ROUND": t.round.c.id,
        "HOLD": t.hold.c.id,
    }
    column = columns[kind]
    if kind in NUMBERED:
        query = select(column).order_by(column.desc())
        query = query.where(cast(column, String).startswith(begin, autoescape=True)) if begin else query
    else:
        query = select(column).distinct().where(column.startswith(begin, autoescape=True)).order_by(column)
    if kind == "HOLD":
        query = query.where(t.hold.c.released_at.is_(None), t.hold.c.expires_at > now_once())
    if kind == "TOKEN":
        query = query.where(t.token.c.revoked_at.is_(None), t.token.c.expires_at > now_once())
    with db.read() as c:
        return [str(name) for name in c.execute(query.limit(limit)).scalars()]
