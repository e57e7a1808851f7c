"""The console has a form for each operation that changes something, and asks what the command asks."""

from sexton.interfaces.console.routes.operations import ON_A_PAGE, WITH_A_PAGE, offered
from sexton.interfaces.questions import QUESTIONS
from sexton.operations.registry import READING, operations


def test_each_change_has_a_form() -> None:
    changes = {o.name for o in operations().values() if o.method != READING and o.paths and o.is_for_people}

    assert offered().keys() | WITH_A_PAGE == changes
    assert set(offered()) >= ON_A_PAGE


def test_what_cannot_be_undone_has_a_question() -> None:
    assert {name for name, o in offered().items() if o.record.asks} <= set(QUESTIONS)
