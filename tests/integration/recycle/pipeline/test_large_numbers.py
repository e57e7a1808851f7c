"""Many marks need as many statements as few; those with the most and longest keys a bounded part of the memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from sqlalchemy import event

from sexton.contract import NewMark
from sexton.marks.model import FilePage, Reason, Ref, Unresolvable
from sexton.recycle.pipeline.model import Cursor
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import FAR_MS, claim, mark_keys, token
from tests.support.rig import Rig

FEW, MANY = 3, 60


@contextmanager
def counted(rig: Rig) -> Iterator[list[str]]:
    """Collect the statements that are sent; one with many sets of parameters counts as many times."""
    statements: list[str] = []

    def note(
        _connection: object, _cursor: object, statement: str, parameters: list[object], _: object, many: bool
    ) -> None:
        statements.extend([statement] * (len(parameters) if many else 1))

    event.listen(rig.db.engine, "before_cursor_execute", note)
    yield statements
    event.remove(rig.db.engine, "before_cursor_execute", note)


def mark(rig: Rig, number: int, name: str = "") -> list[str]:
    names = [f"{name}{number}-{n}" for n in range(number)]
    mark_keys(rig, *names)
    return names


def test_settling_many_marks_sends_no_more_statements(rig: Rig) -> None:
    tokens = count()

    def settle(number: int, outcome: KeyOutcome) -> int:
        names = mark(rig, number, outcome)
        write_token = token(rig, number=next(tokens))
        claim(rig, write_token, "dropped", *names)
        keys = [f"data/{name}.dat" for name in names]
        results = [KeyResult(key=key, outcome=outcome, reason="why", bytes=7) for key in keys]
        page = FilePage("disk", range(1, number + 1), keys)
        with counted(rig) as statements:
            rig.stores.outcomes.record(write_token, page, results)
            marks = rig.stores.settlements.progress(write_token, [Ref("dropped", name) for name in names])
            rig.stores.settlements.settle(write_token, marks, 600)
        assert len(marks) == number
        return len(statements)

    for outcome in (KeyOutcome.DELETED, KeyOutcome.FAILED, KeyOutcome.CHANGED):
        assert settle(MANY, outcome) == settle(FEW, outcome)
    assert rig.count("mark_history") == FEW + MANY
    assert rig.count("mark", failures=1) == FEW + MANY
    assert rig.count("mark", quarantined_reason="CHANGED") == FEW + MANY


def test_quarantining_many_marks_sends_no_more_statements(rig: Rig) -> None:
    def quarantine(number: int) -> int:
        mark(rig, number)
        write_token = token(rig, number=number)
        due = rig.stores.due_marks.select_due("shop", "dropped", FAR_MS, Cursor(), 100)
        with counted(rig) as statements:
            rig.stores.quarantine.quarantine(write_token, [Unresolvable(m, Reason.UNKNOWN_VAULT, "disk?") for m in due])
        return len(statements)

    assert quarantine(MANY) == quarantine(FEW)
    assert rig.count("mark", quarantined_reason="UNKNOWN_VAULT", last_error="disk?") == FEW + MANY


def pages_of(rig: Rig) -> list[list[str]]:
    """Read all due marks, as many at once as a worker does."""
    pages: list[list[str]] = []
    after = Cursor()
    while due := rig.stores.due_marks.select_due("shop", "dropped", FAR_MS, after, 1_000):
        pages.append([mark.id for mark in due])
        after = Cursor(retention_starts_at=due[-1].retention_starts_at, id=due[-1].id)
    return pages


def test_a_worker_reads_few_marks_of_many_keys_at_once(rig: Rig) -> None:
    keys = tuple(f"{n:01000}" for n in range(1_000))
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=keys) for n in range(12)))

    pages = pages_of(rig)

    assert [len(page) for page in pages] == [5, 5, 2]
    assert sorted(id_ for page in pages for id_ in page) == sorted(f"m{n}" for n in range(12))


def test_large_marks_after_many_small_ones_are_read_later(rig: Rig) -> None:
    small = [NewMark(id=f"a{n:03}", vault="disk", keys=(f"{n}.dat",)) for n in range(600)]
    large = [NewMark(id=f"b{n}", vault="disk", keys=tuple(f"{n}-{k}" for k in range(1_000))) for n in range(7)]
    rig.mark("dropped", *small, *large)

    pages = pages_of(rig)

    assert [len(page) for page in pages] == [600 + 5, 2]
    assert pages[0] == sorted(pages[0])
