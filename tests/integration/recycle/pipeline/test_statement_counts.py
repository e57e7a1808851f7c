"""Many marks are settled or quarantined with as many statements as few."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from sexton.contract import NewMark
from sexton.marks.model import FilePage, Reason, Ref, Unresolvable
from sexton.recycle.pipeline.model import Cursor
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import FAR_MS, claim, token
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


def names_of(number: int) -> list[str]:
    return [f"{number}-{n}" for n in range(number)]


def mark(rig: Rig, number: int) -> list[str]:
    names = names_of(number)
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in names))
    return names


@pytest.mark.parametrize("outcome", [KeyOutcome.DELETED, KeyOutcome.FAILED, KeyOutcome.CHANGED])
def test_settling_many_marks_sends_no_more_statements(rig: Rig, outcome: KeyOutcome) -> None:
    def settle(number: int) -> int:
        names = mark(rig, number)
        write_token = token(rig, number=number)
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

    assert settle(MANY) == settle(FEW)


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
