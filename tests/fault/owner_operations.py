"""Operations of the owner in a history; they print as its source. ``n`` selects a subject, so that every history runs.

Each operation meets the owner's obligations, and asserts that a refusal had a reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sexton.contract import Collected, Refused
from tests.fault.shop import TTL_SECONDS, Thing
from tests.fault.witness import Violation
from tests.fault.world import DROPPED, LIVE, LOADING, MISTAKEN, OVER, Item, World
from tests.support.reader import Mark

At = tuple[str, int] | None
"""Where a process dies: the crash point, and the number of the visit."""


def pick(candidates: list[Any], n: int) -> Any:
    """Return one of the candidates, or None."""
    return candidates[n % len(candidates)] if candidates else None


@dataclass(frozen=True)
class Load:
    """Write a rowset, or a table's own files; ``fate`` is the step at which the load ends."""

    files: int = 2
    table: int | None = 0
    vault: str = "disk"
    flat: bool = False
    fate: str = "commits"
    nested: bool = False
    """Whether a rowset is written below the prefix of its table, unless the view shows the whole prefix as live."""

    def do(self, w: World) -> None:
        item = self._item(w, next(w.numbers))
        if item.thing.vault in w.away or not prepare(w, item):
            return
        w.items.append(item)
        w.witness.marked("prepared", item.id, TTL_SECONDS)
        if self.fate == "dies before writing":
            item.status = OVER
            return
        for n in range(self.files):
            w.put(item, f"{n}.dat" if n != 1 or self.flat else "deep/1.dat")
        if self.fate == "dies before committing":
            item.status = OVER
        elif self.fate != "takes long":
            commit(w, item, ("commit.deleted", 1) if self.fate == "dies in its commit" else None)

    def _item(self, w: World, number: int) -> Item:
        tables = [i for i in w.items if i.thing.above is None and i.status in (LIVE, DROPPED)]
        table = None if self.table is None else pick(tables, self.table)
        id_ = f"{'t' if table is None else 'r'}{number}"
        if table is not None and self.nested and not w.view:
            return Item(Thing(id_, table.id, table.thing.vault, f"{table.thing.prefix}{id_}/"), nested=True)
        above = None if table is None else table.id
        return Item(Thing(id_, above, self.vault, f"data/{id_}{'_' if self.flat else '/'}"))


def prepare(w: World, item: Item) -> bool:
    """Announce an item; return False if that is refused, which is legal only below a claimed prefix."""
    claimed = [m.ref for m in covering(w, item) if m.state == "CLAIMED"]
    item.deleted_before = {m.ref for m in covering(w, item) if m.state in ("GONE", "DISCARDED")}
    try:
        w.shop.prepare(item.thing)
    except Collected:
        if not claimed:
            raise Violation(f"{item.id} was not announced, and no prefix above it is claimed") from None
        return False
    if claimed:
        raise Violation(f"{item.id} was announced below {claimed}, which are claimed")
    return True


def covering(w: World, item: Item) -> list[Mark]:
    """Return the marks of dropped things whose prefixes cover that of a nested item, deleted or not."""
    rows = (*w.witness.tables.marks().values(), *w.witness.tables.history().values())
    names = [m for m in rows if m.kind == "dropped" and m.vault == item.thing.vault and m.prefix is not None]
    return [m for m in names if item.nested and item.thing.prefix.startswith(str(m.prefix))]


def deleted_above(w: World, item: Item) -> set[tuple[str, str]]:
    """Return the marks above a nested item that were claimed since it was announced."""
    return {m.ref for m in covering(w, item) if m.state != "MARKED"} - item.deleted_before


@dataclass(frozen=True)
class Commit:
    """A slow load commits."""

    n: int = 0

    def do(self, w: World) -> None:
        if (item := pick(w.items_with(LOADING), self.n)) is not None and item.files:
            commit(w, item, None)


def commit(w: World, item: Item, dies: At, inputs: tuple[Item, ...] = ()) -> None:
    """Commit an item; a refusal is legal only if its mark, or a prefix above it, was claimed."""
    state = w.witness.tables.marks().get(("prepared", item.id))
    with w.at_work(dies=dies) as died:
        try:
            w.shop.commit(item.thing, item.files, [i.id for i in inputs])
        except Collected:
            if state is not None and state.state == "MARKED" and not deleted_above(w, item):
                raise Violation(f"the commit of {item.id} was refused, and its mark was not claimed") from None
            item.status = OVER
            return
    if died:
        w.shop.close()
        w.shop = w.owner()
        item.status = OVER
        return
    if state is None or state.state != "MARKED":
        raise Violation(f"{item.id} was committed although its mark was {state}")
    if deleted := deleted_above(w, item):
        raise Violation(f"{item.id} was committed below {deleted}, which were claimed since it was announced")
    item.status = LIVE
    for i in inputs:
        i.status = OVER
        w.witness.marked("compacted", i.id)


@dataclass(frozen=True)
class Upload:
    """A late file of an unfinished load arrives, perhaps under a prefix whose first pass is over."""

    n: int = 0

    def do(self, w: World) -> None:
        marks, now = w.witness.tables.marks(), w.witness.tables.now()
        # No upload takes longer than the grace: the deployment promises that.
        retried_soon = {r for r, m in marks.items() if m.in_second_pass and (m.next_try_at or 0) <= now + 5_000}
        loads = [
            i for i in w.items if i.status in (LOADING, OVER) and ("prepared", i.id) in marks.keys() - retried_soon
        ]
        if (item := pick(loads, self.n)) is not None:
            w.put(item, f"late-{next(w.numbers)}.dat")


@dataclass(frozen=True)
class Drop:
    """Drop a rowset, by prefix or by keys, perhaps as a child of its table, perhaps with a key that is a folder."""

    n: int = 0
    how: str = "prefix"
    part: bool = False
    obstacle: bool = False

    def do(self, w: World) -> None:
        if (item := pick([i for i in w.items_with(LIVE) if i.thing.above and not i.nested], self.n)) is None:
            return
        more = ()
        if self.obstacle and self.how == "keys" and item.thing.vault not in w.away:
            path = w.witness.roots[item.thing.vault] / f"data/folder-{item.id}"
            path.mkdir(parents=True, exist_ok=True)  # it may be dropped for the second time
            w.obstacles.append(path)
            more = (f"data/folder-{item.id}",)
        w.shop.drop([item.id], self.how, item.thing.above if self.part else None, more)
        item.status = DROPPED
        w.witness.marked("dropped", item.id)


@dataclass(frozen=True)
class DropTable:
    """Drop a table with all its rowsets as children; its own mark may name no files at all, or cover nested rowsets."""

    n: int = 0
    how: str = "prefix"

    def do(self, w: World) -> None:
        if (table := pick([i for i in w.items_with(LIVE) if i.thing.above is None], self.n)) is None:
            return
        rowsets = [i for i in w.items_with(LIVE) if i.thing.above == table.id]
        covered = [i for i in rowsets if i.nested and self.how == "prefix"]
        parts = [i for i in rowsets if i not in covered]
        w.shop.drop([i.id for i in parts], "prefix" if self.how == "nothing" else self.how, table.id)
        w.shop.drop([table.id], self.how, covered=[i.id for i in covered])
        for i in (table, *parts):
            w.witness.marked("dropped", i.id)
        for i in (table, *rowsets):
            i.status, i.covered = DROPPED, i in covered


@dataclass(frozen=True)
class Compact:
    """Replace two rowsets by one."""

    n: int = 0
    dies: bool = False

    def do(self, w: World) -> None:
        rowsets = [i for i in w.items_with(LIVE) if i.thing.above and not i.nested]
        if (first := pick(rowsets, self.n)) is None:
            return
        similar = [i for i in rowsets if i.thing[1:3] == first.thing[1:3] and i is not first]
        inputs = (first, *similar[:1])
        if first.thing.vault in w.away:
            return
        id_ = f"c{next(w.numbers)}"
        item = Item(Thing(id_, first.thing.above, first.thing.vault, f"data/{id_}/"))
        w.items.append(item)
        w.shop.prepare(item.thing)
        w.witness.marked("prepared", id_, TTL_SECONDS)
        w.put(item, "0.dat")
        commit(w, item, ("commit.deleted", 1) if self.dies else None, inputs)


@dataclass(frozen=True)
class Undrop:
    """Undrop a rowset, or a table with its children; perhaps drop it again at once."""

    n: int = 0
    again: bool = False
    dies: At = None

    def do(self, w: World) -> None:
        if (item := pick([i for i in w.items_with(DROPPED) if not i.covered], self.n)) is None:
            return
        marks = w.witness.tables.marks()
        parts = [
            i for i in w.items_with(DROPPED) if (m := marks.get(("dropped", i.id))) and m.parent == ("dropped", item.id)
        ]
        covered = [i for i in w.items_with(DROPPED) if i.covered and i.thing.above == item.id]
        if not undrop(w, [item, *parts], "dropped", self.dies, covered):
            return
        if self.again:
            again = item.thing.above is not None
            w.shop.drop([item.id], "keys", item.thing.above if again else None)
            item.status = DROPPED
            w.witness.marked("dropped", item.id)


def undrop(w: World, items: list[Item], kind: str, dies: At = None, covered: Sequence[Item] = ()) -> bool:
    """Undrop all items or none, with those that they cover; a refusal must have a reason in the rows."""
    marks, history = w.witness.tables.marks(), w.witness.tables.history()
    item_marks = [marks.get((kind, i.id)) for i in items]
    with w.at_work(dies=dies) as died:
        try:
            w.shop.undrop([i.id for i in items], kind, [i.id for i in covered])
        except Refused:
            refs = {(kind, i.id) for i in items}
            children = [m for m in (*marks.values(), *history.values()) if m.parent in refs]
            marked_parents = [
                m.parent for m in item_marks if m and m.parent not in refs and m.parent in {*marks, *history}
            ]
            undroppable = all(m and m.state == "MARKED" for m in item_marks)
            if undroppable and not marked_parents and all(m.state == "MARKED" for m in children):
                raise Violation(f"the undrop of {refs} was refused for no reason") from None
            return False
    if died:
        w.shop.close()
        w.shop = w.owner()
        return False
    if any(m is None or m.state != "MARKED" for m in item_marks):
        raise Violation(f"an undrop of {[i.id for i in items]} succeeded although the marks were {item_marks}")
    for i in (*items, *covered):
        i.status, i.covered = LIVE, False
    return True


@dataclass(frozen=True)
class Refresh:
    """The job runs that fills the copy of the live view."""

    def do(self, w: World) -> None:
        if w.view == "copy" and not w.view_is_lost:
            w.shop.refresh_copy(w.witness.tables.now())


@dataclass(frozen=True)
class LoseView:
    """The owner drops its live view by mistake; the second time, it creates the view again."""

    def do(self, w: World) -> None:
        if not w.view:
            return
        if w.view_is_lost:
            w.shop.create_live_view(w.view)
        else:
            w.shop.drop_live_view(w.view)
        w.view_is_lost = not w.view_is_lost


@dataclass(frozen=True)
class Mistake:
    """The owner marks a live item by mistake (only if it has a live view), or takes such a mark back."""

    n: int = 0
    how: str = "prefix"

    def do(self, w: World) -> None:
        if (item := pick(w.items_with(MISTAKEN), self.n)) is not None:
            undrop(w, [item], "orphan")
        elif w.view and (item := pick([i for i in w.items_with(LIVE) if not i.nested], self.n)) is not None:
            w.shop.mark_live_thing(item.id, self.how)
            item.status = MISTAKEN
            w.witness.marked("orphan", item.id)
