"""The end of every history: what was broken is mended, time passes, clean rounds run; then everything must add up."""

from sexton.marks.model import Ref
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.fault.operations import Control, Later, Mistake, Round
from tests.fault.shop import INSTANCE
from tests.fault.witness import Violation
from tests.fault.world import MISTAKEN, World
from tests.support.reader import objects

LONG = 400_000
"""Seconds after which everything that is marked is due, whatever its kind."""
MOST_ROUNDS = 12


def conclude(w: World) -> None:
    """Heal, run clean rounds until two in a row change nothing, and prove that nothing is lost, left or miscounted."""
    _heal(w)
    quiet = 0
    for n in range(MOST_ROUNDS):
        w.apply(Later(LONG if n == 0 else 3_601))
        before = _state(w)
        w.apply(Round())
        quiet = quiet + 1 if _state(w) == before else 0
        if quiet == 2:
            break
    else:
        raise Violation(f"{MOST_ROUNDS} clean rounds, and the last still changed something")
    _prove(w)


def _heal(w: World) -> None:
    for vault in sorted(w.away):
        w.mount(vault, True)
    for folder in w.obstacles:
        if folder.exists():
            folder.rmdir()
    for said in sorted(w.witness.controls):
        w.apply(Control(*said))
    for hold in w.rig.holds.active(INSTANCE):
        w.rig.holds.release(hold.id)
    w.witness.holds.clear()
    w.rig.registry.enable(INSTANCE)
    w.witness.enabled = True
    w.add_vault("spare")
    while w.of(MISTAKEN):
        w.apply(Mistake())
    w.later(LONG)
    w.apply(Round())
    store = QuarantineStore(w.rig.db)
    for aside in store.list(INSTANCE):
        if aside.reason == "UNEXPANDED":
            store.discard(INSTANCE, Ref(aside.kind, aside.id), "it names nothing")
        else:
            store.retry(INSTANCE, ref=Ref(aside.kind, aside.id))


def _state(w: World) -> tuple[object, ...]:
    books = w.witness.books
    lying = {vault: objects(root) for vault, root in w.witness.roots.items()}
    return lying, books.marks(), books.history(), books.number("SELECT count(*) FROM sexton_mark_file"), books.tally()


def _prove(w: World) -> None:
    witness, books = w.witness, w.witness.books
    given_up = [m for m in books.history().values() if m.state == "DISCARDED"]
    # A mark that names nothing and is given up leaves what its owner forgot to name.
    forgotten = {(i.thing.vault, key) for m in given_up for i in w.items if i.id == m.id for key, _ in i.files}
    kept = {p for p in witness.written.keys() - witness.gone.keys() if any(m.names(*p) for m in given_up)}
    kept |= forgotten - witness.gone.keys()
    here = {(vault, key) for vault, root in witness.roots.items() for key in objects(root)}
    for vault, key in here:
        if (witness.roots[vault] / key).read_bytes() != key.encode():
            raise Violation(f"{vault}/{key} has other bytes than were written")
    _same("objects that lie there", here, books.live() | kept)
    _same("marks", set(books.marks()), set())
    for table in ("sexton_mark_file", "sexton_lease WHERE state = 'BUSY'", "sexton_batch WHERE state = 'OPEN'"):
        _same(table, books.number(f"SELECT count(*) FROM {table}"), 0)
    _same("rounds still running", books.number("SELECT count(*) FROM sexton_round WHERE state = 'RUNNING'"), 0)
    told, went = books.tally(), [ref for ref, state in witness.history.items() if state == "GONE"]
    counted = {place: size for place, size in witness.gone.items() if place not in witness.unrecorded}
    _same("marks claimed", told["claimed"], len(witness.claims))
    _same("marks removed", told["removed"], len(went))
    _same("claims that ended", set(went), witness.claims - {m.ref for m in given_up})
    _same("objects deleted", told["deleted"], len(counted))
    _same("bytes freed", told["bytes_freed"], sum(counted.values()))
    _same("objects hidden", told["hidden"], 0)
    _same("objects in history", books.number("SELECT sum(objects) FROM sexton_mark_history"), len(counted))


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Violation(f"{what}: {found}, and it must be {wanted}")
