"""Find the marks, history rows and live objects that a key or an id names, and return the story of each."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    and_,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    union,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from sexton.check.model import MEANING, FindingState, FindingType
from sexton.database.engine import Database, first_line, reached_limit
from sexton.database.rows import in_list
from sexton.insight.marks import SEARCH_SECONDS, names_of
from sexton.insight.views import Story
from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.mark_events import events_of_history, events_of_mark
from sexton.marks.kept import Event
from sexton.marks.model import Ref
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.file_lists import may_have_keys, of_instance, read_lists
from sexton.marks.sql.rows import refs_in
from sexton.operators.registry.store import Instance, names_a_view
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_view
from sexton.owners.sql.live_reading import STATEMENT_SECONDS, reading
from sexton.storage.kinds import url_roots
from sexton.storage.model import VaultSpec

MAX_STORIES = 100
"""Rows of marks, of history, and of a live view, that one question returns of each instance."""

VIEWS_SECONDS = 60
"""How long one question may begin to read live views: each may take as long as its owner likes, up to its limit."""

ANY = "(any)"
"""Instance of a story that is about no single one."""


class _Search(NamedTuple):
    """What is searched, and where."""

    names: set[str]
    instance: str | None  # None: all
    instances: Sequence[Instance]
    vaults: Sequence[VaultSpec]
    refs: Mapping[str, Collection[Ref]]  # instance → the marks that the text of a name is about


def story(db: Database, name: str, instance: str | None, context: WhyContext) -> list[Story]:
    """Return every story about a key (relative to its vault or with the vault's prefix) or a mark's id."""
    registry = context.stores.operators.registry
    instances = [i for i in registry.instances() if instance in (None, i.id)]
    vaults = registry.vaults(instance)
    names = names_of(vaults, name)
    refs: dict[str, Collection[Ref]] = {}
    for i in _knowing(instances):
        with suppress(OwnerSilent):  # what it shows as live says that it is silent
            refs[i] = context.owner.refs_of_keys(i, names)
    search = _Search(names, instance, instances, vaults, refs)
    stories = _live_stories(db, search)
    findings = list(_finding_stories(db, search))
    stories += [story for type_, story in findings if type_ is FindingType.LOST]
    with db.read() as c:
        now = db.now(c)
    marks, incomplete = _find_named(db, db.t.mark, search)
    stories += [_story(mark, events_of_mark(db, mark, names, context, now), now) for mark in marks]
    stories += incomplete
    history, incomplete = _find_named(db, db.t.mark_history, search)
    stories += [_story(row, events_of_history(db, row, names, context), now) for row in history]
    stories += incomplete
    others = [story for type_, story in findings if type_ is not FindingType.LOST]
    return [*(stories or _owners_stories(search, context)), *others]


def _live_stories(db: Database, search: _Search) -> list[Story]:
    """Return a story for each row with one of the names in a live view that is about an instance that names it.

    A view may have the URL of an object in place of its key.
    """
    stories, until = [], time.monotonic() + VIEWS_SECONDS
    urls = {root + name for vault in search.vaults for root in url_roots(vault) for name in search.names}
    names = sorted(search.names | urls)
    instances_of: dict[str, list[str]] = {}
    for i in search.instances:
        if names_a_view(i):
            instances_of.setdefault(i.live_view, []).append(i.id)
    for view, named_by in instances_of.items():
        # A row without an instance is about each instance that names the view.
        anyone = named_by[0] if len(named_by) == 1 else ANY
        if time.monotonic() > until:
            reason = f"the live views before it took {VIEWS_SECONDS} s; ask for instance {named_by[0]} alone"
            stories.append(_unknown(anyone, reason))
            continue
        try:
            with reading(db, named_by[0], view, look_seconds=STATEMENT_SECONDS) as opened:
                rows = live_view.rows_of(opened, names, named_by, MAX_STORIES + 1)
        except (OwnerSilent, SQLAlchemyError) as e:
            stories.append(_unknown(anyone, str(e) if isinstance(e, OwnerSilent) else first_line(e)))
            continue
        for row_instance, kind, id_, vault, key in rows[:MAX_STORIES]:
            event = Event(event="live", text=f"live: {kind} {id_}, {key} in vault {vault}")
            stories.append(Story(instance=row_instance or anyone, events=(event,)))
        if len(rows) > MAX_STORIES:
            stories.append(_more(anyone, f"rows of the live view {view}"))
    return stories


def _finding_stories(db: Database, search: _Search) -> Iterator[tuple[FindingType, Story]]:
    """Yield the type and the story of each open finding about an object with one of the names, or a record with one."""
    f = db.t.finding
    id_ = func.substring(f.c.record, literal_column("'[^/]*$'"), type_=Text())  # as its index has it
    has_id = [func.hashtext(id_) == func.hashtext(name.rpartition("/")[2]) for name in search.names]
    of_record = and_(
        f.c.record != literal_column("''"), or_(*has_id), in_list(f.c.record, search.names) | in_list(id_, search.names)
    )
    with db.read() as c:
        for i in search.instances:
            vaults = ["", *(vault.name for vault in search.vaults if vault.instance == i.id)]  # a record has none
            of_key = and_(in_list(f.c.vault, vaults), in_list(f.c.key, search.names))
            is_open = and_(f.c.instance == i.id, f.c.type.in_(MEANING), f.c.state == FindingState.OPEN)
            rows = c.execute(select(f).where(is_open, or_(of_key, of_record)).order_by(f.c.id).limit(MAX_STORIES + 1))
            for number, row in enumerate(rows):
                type_ = FindingType(row.type)
                if number == MAX_STORIES:
                    yield type_, _more(i.id, "findings")
                    continue
                confirmed = "confirmed" if row.confirmed_at is not None else "not confirmed yet"
                place = f"{row.key} in vault {row.vault}" if row.vault else row.key
                see = f"finding {row.id} of: sexton check findings {i.id} --type {type_}"
                text = f"{type_}, {confirmed}: {place}: {row.detail or MEANING[type_]}; {see}"
                event = Event(event=type_.lower(), text=text, at=row.first_seen)
                yield type_, Story(instance=i.id, events=(event,))


def _unknown(instance: str, reason: str) -> Story:
    """Return that nothing is known of what an instance's live view shows."""
    text = f"it is unknown whether this is live: {reason}"
    return Story(instance=instance, events=(Event(event="owner_silent", text=text),))


def _more(instance: str, what: str) -> Story:
    """Return that an instance has more than is shown."""
    text = f"and more {what}: only the first {MAX_STORIES} are shown"
    return Story(instance=instance, events=(Event(event="more", text=text),))


def _story(row: Any, events: Iterable[Event], now: int) -> Story:
    """Return the story of a mark or history row: what happened, then what blocks it now, then what will happen."""
    in_order = sorted(events, key=lambda e: now if e.blocks else e.at or now)
    return Story(instance=row.instance, kind=row.kind, id=row.id, events=tuple(in_order))


def _find_named(db: Database, table: Table, search: _Search) -> tuple[list[Any], list[Story]]:
    """Return the first marks or history rows of each instance, and stories that say where the answer is incomplete."""
    by_instance: dict[str, list[Any]] = {}
    try:
        with db.read() as c:
            db.limit_statements(c, SEARCH_SECONDS)
            for row in c.execute(_select_named(db, c, table, search)):
                by_instance.setdefault(row.instance, []).append(row)
    except OperationalError as e:
        if not reached_limit(e):
            raise
        text = (
            f"this answer is not complete: a search in {table.name} was ended after {SEARCH_SECONDS} s; "
            f"{'ask again' if search.instance else 'search one instance with --instance'}"
        )
        return [], [Story(instance=search.instance or ANY, events=(Event(event="incomplete", text=text),))]
    what = "marks" if table is db.t.mark else "marks that are deleted"
    more = [_more(i, what) for i, rows in by_instance.items() if len(rows) > MAX_STORIES]
    return [row for rows in by_instance.values() for row in rows[:MAX_STORIES]], more


def _select_named(db: Database, c: Connection, table: Table, search: _Search) -> Select[Any]:
    """Select marks or history rows that have one of these ids or keys, or a prefix or stored file that covers one.

    Of each instance one row more than is shown: the marks of one instance leave those of another in the answer.
    """
    refs = {i: set(found) for i, found in search.refs.items()}
    if table is db.t.mark:
        for i in search.instances:
            refs.setdefault(i.id, set()).update(_with_stored_file(db, c, i.id, search.names))
    of_refs = [and_(table.c.instance == i, refs_in(table, found)) for i, found in refs.items() if found]
    of_instance = true() if search.instance is None else table.c.instance == search.instance
    key = (table.c.instance, table.c.kind, table.c.id)
    # One query for each condition: each has an index of its own.
    conditions = [
        in_list(table.c.id, search.names),
        or_(false(), *of_refs),
        *_file_conditions(table, search.names),
    ]
    named_keys = union(*(select(*key).where(of_instance, condition) for condition in conditions)).subquery()
    place = func.row_number().over(partition_by=named_keys.c.instance, order_by=(named_keys.c.kind, named_keys.c.id))
    first_rows = select(named_keys, place.label("place")).subquery("first_rows")
    is_same = and_(*(first_rows.c[column.name] == column for column in key))
    return select(table).join(first_rows, is_same).where(first_rows.c.place <= MAX_STORIES + 1).order_by(*key)


def _file_conditions(table: Table, names: set[str]) -> list[ColumnElement[bool]]:
    """Return the conditions that a row has a prefix that covers one of these keys, names one alone, or among others.

    Each has the expressions of its index, so that their numbers are no parameters.
    """
    keys = table.c["keys"]
    covers = in_list(table.c.prefix, {prefix for name in names for prefix in covering_prefixes(name)})
    count = func.jsonb_array_length(keys)
    only_key: ColumnElement[str] = keys.op("->>", return_type=Text())(literal_column("0"))
    is_only = [and_(func.hashtext(only_key) == func.hashtext(name), only_key == name) for name in names]
    among = [keys.cast(JSONB).has_key(name) for name in names]  # of a list: one of its texts is this key
    names_one = and_(count == literal_column("1"), or_(*is_only))
    return [covers, names_one, and_(count > literal_column("1"), or_(*among))]


def _with_stored_file(db: Database, c: Connection, instance: str, names: set[str]) -> set[Ref]:
    """Return the marks of an instance that have one of these keys among the files that are being deleted."""
    with_key: set[Ref] = set()
    may_have = may_have_keys(db, min(names), max(names))
    for files in read_lists(db, c, of_instance(db, instance), may_have, skip_damaged=True):
        with_key |= {run.ref for run in files.runs if not names.isdisjoint(files.keys_of(run))}
        if len(with_key) > MAX_STORIES:
            break
    return with_key


def _knowing(instances: Iterable[Instance]) -> list[str]:
    """Return the instances whose owners know their records without a view."""
    return [i.id for i in instances if i.knows_live]


def _owners_stories(search: _Search, context: WhyContext) -> Iterator[Story]:
    """Yield a story for each live file, and for each record, that an owner knows under one of the names."""
    for i in _knowing(search.instances):
        try:
            for text in context.owner.live_texts(i, search.names):
                yield Story(instance=i, events=(Event(event="live", text=f"live: {text}"),))
            for kind, id_, text in context.owner.records_with(i, search.names):
                yield Story(instance=i, kind=kind, id=id_, events=(Event(event="record", text=text),))
        except OwnerSilent as e:
            yield _unknown(i, str(e))
