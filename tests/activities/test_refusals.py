"""An activity's error carries its type and message, and no SQL parameters."""

import pytest
from sqlalchemy import create_engine, text
from temporalio.exceptions import ApplicationError

from activities.refusals import refusals
from sexton.kernel.errors import BadInput, GuardBusy


def test_driver_error_travels_without_statement_and_parameters(database_url: str) -> None:
    engine = create_engine(database_url)

    with pytest.raises(ApplicationError) as error, refusals(), engine.connect() as c:
        c.execute(text("SELECT :key FROM nowhere"), {"key": "data/secret.dat"})

    engine.dispose()
    assert error.value.type == "DatabaseError"
    assert error.value.message == 'the database answered: relation "nowhere" does not exist'
    assert not error.value.non_retryable
    assert error.value.__cause__ is None


@pytest.mark.parametrize(("error", "final"), [(BadInput("no"), True), (GuardBusy("not now"), False)])
def test_a_refusal_is_final_unless_its_cause_passes(error: Exception, final: bool) -> None:
    with pytest.raises(ApplicationError) as told, refusals():
        raise error

    assert (told.value.type, told.value.non_retryable) == (type(error).__name__, final)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), refusals():
        1 / 0  # noqa: B018
