"""The end of every history: repair every fault, run clean rounds, and prove that everything adds up."""

from sexton.marks.model import Ref
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.fault.operations import Control, Later, LoseView, Mistake, Refresh, Round
from tests.fault.shop import INSTANCE
from tests.fault.witness import Violation
from tests.fault.world import MISTAKEN, World
from tests.support.reader import objects

LONG = 400_000
"""Seconds after which every mark of any kind is due."""
MOST_ROUNDS = 12


def conclude(w: World) -> None:
    """Run clean rounds until two in a row change nothing; prove that nothing is lost, left over or miscounted."""
    _repair(w)
    quiet = 0
    for n in range(MOST_ROUNDS):
        w.apply(Later(LONG if n == 0 else 3_601))
        w.apply(Refresh())
        before = _state(w)
        w.apply(Round())
        quiet = quiet + 1 if _state(w) == before else 0
        if quiet == 2:
            break
    else:
        raise Violation(f"{MOST_ROUNDS} clean rounds, and the last still changed something")
    _prove(w)


def _repair(w: World) -> None:
    for vault in sorted(w.away):
        w.mount(vault, True)
    for folder in w.obstacles:
        if folder.exists():
            folder.rmdir()
    for control in sorted(w.witness.controls):
        w.apply(Control(*control))
    for hold in w.rig.holds.active(INSTANCE):
        w.rig.holds.release(hold.id)
    w.witness.holds.clear()
    w.rig.registry.enable(INSTANCE)
    w.witness.enabled = True
    w.add_vault("spare")
    while w.items_with(MISTAKEN):
        w.apply(Mistake())
    if w.view_is_lost:
        w.apply(LoseView())
    w.later(LONG)
    w.apply(Refresh())
    w.apply(Round())
    store = QuarantineStore(w.rig.db)
    for quarantined in store.list(INSTANCE):
        if quarantined.reason == "UNEXPANDED":
            store.discard(INSTANCE, Ref(quarantined.kind, quarantined.id), "it names nothing")
        else:
            store.retry(INSTANCE, ref=Ref(quarantined.kind, quarantined.id))


def _state(w: World) -> tuple[object, ...]:
    tables = w.witness.tables
    files = {vault: objects(root) for vault, root in w.witness.roots.items()}
    return (
        files,
        tables.marks(),
        tables.history(),
        tables.undone_files(),
        tables.tally(),
    )


def _prove(w: World) -> None:
    witness, tables = w.witness, w.witness.tables
    discarded = [m for m in tables.history().values() if m.state == "DISCARDED"]
    # A discarded mark that names nothing leaves the files that its owner forgot to name.
    forgotten = {(i.thing.vault, key) for m in discarded for i in w.items if i.id == m.id for key, _ in i.files}
    remaining = {p for p in witness.written.keys() - witness.gone.keys() if any(m.names(*p) for m in discarded)}
    remaining |= forgotten - witness.gone.keys()
    present = {(vault, key) for vault, root in witness.roots.items() for key in objects(root)}
    for vault, key in present:
        if (witness.roots[vault] / key).read_bytes() != key.encode():
            raise Violation(f"{vault}/{key} has other bytes than were written")
    _same("existing objects", present, tables.live() | remaining)
    _same("marks", set(tables.marks()), set())
    for table in ("file_list", "lease WHERE state = 'BUSY'", "batch WHERE state = 'OPEN'"):
        _same(table, tables.number(f"SELECT count(*) FROM sexton.{table}"), 0)
    _same("rounds still running", tables.number("SELECT count(*) FROM sexton.round WHERE state = 'RUNNING'"), 0)
    tally, deleted = tables.tally(), [ref for ref, state in witness.history.items() if state == "GONE"]
    counted = {place: size for place, size in witness.gone.items() if place not in witness.unrecorded}
    _same("marks claimed", tally["claimed"], len(witness.claims))
    _same("marks removed", tally["removed"], len(deleted))
    _same("claims that ended", set(deleted), witness.claims - {m.ref for m in discarded})
    _same("objects deleted", tally["deleted"], len(counted))
    _same("bytes freed", tally["bytes_freed"], sum(counted.values()))
    _same("objects hidden", tally["hidden"], 0)
    _same("objects in history", tables.number("SELECT sum(objects) FROM sexton.mark_history"), len(counted))


def _same(subject: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise Violation(f"{subject}: {actual}, expected {expected}")
