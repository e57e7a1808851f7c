"""Find the marks, history rows and live objects that a key or an id names, and return the story of each."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, Text, and_, false, func, literal, or_, select, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import Database, first_line
from sexton.insight.views import NOW, Event, Story
from sexton.insight.why import catalog
from sexton.insight.why.context import WhyContext
from sexton.insight.why.mark_events import events_of_history, events_of_mark
from sexton.marks.model import Ref
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.file_lists import may_have_keys, of_instance, read_lists
from sexton.marks.sql.rows import refs_in
from sexton.operators.registry.store import Registry, names_a_view
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_view
from sexton.owners.sql.live_sessions import STATEMENT_SECONDS, reading
from sexton.storage.object_names import url_roots

MAX_STORIES = 100
"""Rows of marks, and rows of history, that one question returns."""


def story(db: Database, name: str, instance: str | None, context: WhyContext) -> list[Story]:
    """Return every story about a key (relative to its vault or with the vault's prefix) or a mark's id."""
    registry = context.stores.operators.registry
    names = names_of(registry, name, instance)
    stories = _live_stories(db, registry, names | _urls_of(registry, names, instance), instance)
    with db.read() as c:
        now = db.now(c)
        marks = c.execute(_select_named(db, db.t.mark, registry, names, instance)).all()
        history = c.execute(_select_named(db, db.t.mark_history, registry, names, instance)).all()
    stories += [_story(mark, events_of_mark(db, mark, names, context, now), now) for mark in marks]
    stories += [_story(row, events_of_history(db, row, names, context), now) for row in history]
    return stories or [*catalog.live(db, names, instance, context), *catalog.recorded(db, registry, names, instance)]


def names_of(registry: Registry, name: str, instance: str | None) -> set[str]:
    """Return a name, and the key that is left of it in each vault whose location or prefix it begins with."""
    names = {name}
    for vault in registry.vaults(instance):
        for start in (vault.prefix, f"{vault.location}/{vault.prefix}", *url_roots(vault)):
            if start and name.startswith(start):
                names.add(name.removeprefix(start).lstrip("/"))
    return names


def _urls_of(registry: Registry, names: set[str], instance: str | None) -> set[str]:
    """Return the URLs that the live view may have in place of these keys."""
    return {root + name for vault in registry.vaults(instance) for root in url_roots(vault) for name in names}


def _live_stories(db: Database, registry: Registry, names: set[str], instance: str | None) -> list[Story]:
    """Return a story for each row of the instances' live views that has one of these names."""
    stories = []
    instances = [i for i in registry.instances() if instance in (None, i.id) and i.owner == "sql"]
    for view, named_by in {i.live_view: i.id for i in instances if names_a_view(i)}.items():
        try:
            with reading(db, look_seconds=STATEMENT_SECONDS) as c:
                rows = live_view.rows_of(db, c, view, sorted(names))
        except (OwnerSilent, SQLAlchemyError) as e:
            text = f"it is unknown whether this is live: {e if isinstance(e, OwnerSilent) else first_line(e)}"
            stories.append(Story(instance=named_by, events=(Event(event="owner_silent", text=text),)))
            continue
        for row_instance, kind, id_, vault, key in rows:
            event = Event(event="live", text=f"live: {kind} {id_}, {key} in vault {vault}")
            stories.append(Story(instance=row_instance or instance or "(any)", events=(event,)))
    return stories


def _story(row: Any, events: Iterable[Event], now: int) -> Story:
    """Return the story of a mark or history row: what happened, then what blocks it now, then what will happen."""
    in_order = sorted(events, key=lambda e: now if e.event in NOW else e.at or now)
    return Story(instance=row.instance, kind=row.kind, id=row.id, events=tuple(in_order))


def _select_named(db: Database, table: Table, registry: Registry, names: set[str], instance: str | None) -> Select[Any]:
    """Select marks or history rows that have one of these ids or keys, or a prefix or stored file that covers one."""
    conditions = [table.c.id.in_(names), _is_named_by_layout(db, table, registry, names)]
    for name in sorted(names):
        conditions += [table.c.prefix.in_(covering_prefixes(name)), _lists_key(db, table, name)]
    if table is db.t.mark:
        conditions.append(_has_stored_file(db, table, names, instance))
    rows = select(table).where(or_(*conditions)).limit(MAX_STORIES)
    return rows if instance is None else rows.where(table.c.instance == instance)


def _lists_key(db: Database, table: Table, key: str) -> ColumnElement[bool]:
    """Return the condition that the JSON list ``keys`` of a row contains a key."""
    keys = table.c["keys"]
    if db.dialect == "postgresql":
        return keys.cast(JSONB).contains([key])
    listed = func.json_each(keys).table_valued("value")
    return and_(keys.is_not(None), select(1).where(listed.c.value == literal(key, Text())).exists())


def _has_stored_file(db: Database, table: Table, names: set[str], instance: str | None) -> ColumnElement[bool]:
    """Return the condition that a mark has one of these keys among the files that are being deleted."""
    with_key: set[Ref] = set()
    with db.read() as c:
        of_scope = true() if instance is None else of_instance(db, instance)
        for files in read_lists(db, c, of_scope, may_have_keys(db, min(names), max(names)), skip_damaged=True):
            with_key |= {run.ref for run in files.runs if not names.isdisjoint(files.keys_of(run))}
            if len(with_key) >= MAX_STORIES:
                break
    return refs_in(db, table, with_key)


def _is_named_by_layout(db: Database, table: Table, registry: Registry, names: set[str]) -> ColumnElement[bool]:
    """Return the condition that a row is a mark of the catalog that the text of one of these keys names."""
    refs_by_instance = catalog.marks_of(db, registry, names).items()
    return or_(
        false(), *(and_(table.c.instance == instance, refs_in(db, table, refs)) for instance, refs in refs_by_instance)
    )
