"""Operations of the owner in a history; they print as its source. ``n`` selects a subject, so that every history runs.

Each operation meets the owner's obligations, and asserts that a refusal had a reason.
"""

from dataclasses import dataclass
from typing import Any

from sexton.contract import Collected, Refused
from tests.fault.shop import TTL_SECONDS, Thing
from tests.fault.witness import Violation
from tests.fault.world import DROPPED, LIVE, LOADING, MISTAKEN, OVER, Item, World

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

    def do(self, w: World) -> None:
        if self.vault in w.away:
            return
        number = next(w.numbers)
        tables = [i for i in w.items if i.thing.above is None and i.status in (LIVE, DROPPED)]
        above = None if self.table is None or not tables else pick(tables, self.table).id
        id_ = f"{'t' if above is None else 'r'}{number}"
        item = Item(Thing(id_, above, self.vault, f"data/{id_}{'_' if self.flat else '/'}"))
        w.items.append(item)
        w.shop.prepare(item.thing)
        w.witness.marked("prepared", id_, TTL_SECONDS)
        if self.fate == "dies before writing":
            item.status = OVER
            return
        for n in range(self.files):
            w.put(item, f"{n}.dat" if n != 1 or self.flat else "deep/1.dat")
        if self.fate == "dies before committing":
            item.status = OVER
        elif self.fate != "takes long":
            commit(w, item, ("commit.deleted", 1) if self.fate == "dies in its commit" else None)


@dataclass(frozen=True)
class Commit:
    """A slow load commits."""

    n: int = 0

    def do(self, w: World) -> None:
        if (item := pick(w.items_with(LOADING), self.n)) is not None and item.files:
            commit(w, item, None)


def commit(w: World, item: Item, dies: At, inputs: tuple[Item, ...] = ()) -> None:
    """Commit an item; a refusal is legal only if its mark was claimed."""
    state = w.witness.tables.marks().get(("prepared", item.id))
    with w.at_work(dies=dies) as died:
        try:
            w.shop.commit(item.thing, item.files, [i.id for i in inputs])
        except Collected:
            if state is not None and state.state == "MARKED":
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
        if (item := pick([i for i in w.items_with(LIVE) if i.thing.above], self.n)) is None:
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
    """Drop a table with all its rowsets as children; its own mark may name no files at all."""

    n: int = 0
    how: str = "prefix"

    def do(self, w: World) -> None:
        if (table := pick([i for i in w.items_with(LIVE) if i.thing.above is None], self.n)) is None:
            return
        parts = [i for i in w.items_with(LIVE) if i.thing.above == table.id]
        w.shop.drop([i.id for i in parts], "prefix" if self.how == "nothing" else self.how, table.id)
        w.shop.drop([table.id], self.how)
        for i in (table, *parts):
            i.status = DROPPED
            w.witness.marked("dropped", i.id)


@dataclass(frozen=True)
class Compact:
    """Replace two rowsets by one."""

    n: int = 0
    dies: bool = False

    def do(self, w: World) -> None:
        if (first := pick([i for i in w.items_with(LIVE) if i.thing.above], self.n)) is None:
            return
        similar = [i for i in w.items_with(LIVE) if i.thing[1:3] == first.thing[1:3] and i is not first]
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
        if (item := pick(w.items_with(DROPPED), self.n)) is None:
            return
        marks = w.witness.tables.marks()
        parts = [
            i for i in w.items_with(DROPPED) if (m := marks.get(("dropped", i.id))) and m.parent == ("dropped", item.id)
        ]
        if not undrop(w, [item, *parts], "dropped", self.dies):
            return
        if self.again:
            again = item.thing.above is not None
            w.shop.drop([item.id], "keys", item.thing.above if again else None)
            item.status = DROPPED
            w.witness.marked("dropped", item.id)


def undrop(w: World, items: list[Item], kind: str, dies: At = None) -> bool:
    """Undrop all items or none; a refusal must have a reason in the rows."""
    marks, history = w.witness.tables.marks(), w.witness.tables.history()
    item_marks = [marks.get((kind, i.id)) for i in items]
    with w.at_work(dies=dies) as died:
        try:
            w.shop.undrop([i.id for i in items], kind)
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
    for i in items:
        i.status = LIVE
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
        elif w.view and (item := pick(w.items_with(LIVE), self.n)) is not None:
            w.shop.mark_live_thing(item.id, self.how)
            item.status = MISTAKEN
            w.witness.marked("orphan", item.id)
