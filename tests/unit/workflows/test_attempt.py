"""How attempts end, errors and details are shown, and why no order, signal or query deletes anything more."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.exceptions import ActivityError, ApplicationError, RetryState

import activities
from tests.support.orders import (
    HANDLERS,
    ORDERS,
    fields_of_order,
    handlers_of,
    registered_activities,
    workflow_types,
)
from workflows.attempt import AttemptResult, Conclusion, Ending, conclude
from workflows.details import plain
from workflows.errors import error_message, error_type, is_permanent
from workflows.options import MAX_TRIES
from workflows.signals import RetryAfter

WORKFLOWS = Path(__file__).parents[3] / "workflows"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-wal: 3 of 4 pages", "orders-wal: 3 of 4 pages"),
        ("http://n/[log in](https://x.example)", r"http://n/\[log in\](https://x.example)"),
        ("![](https://x.example/pixel)", r"\!\[\](https://x.example/pixel)"),
        ("**PURGED** `all` <b>", r"\*\*PURGED\*\* \`all\` \<b\>"),
        ("\x1b[2J\x1b]0;x\x07", r" \[2J \]0;x "),
        ("first\n\n# second\r\u2028third", r"first \# second third"),
        ("\u202eevil\x85&lt;", r" evil \&lt;"),
        ("a\\*", r"a\\\*"),
    ],
)
def test_details_show_text_as_it_is(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_every_workflow_shows_its_details_this_way() -> None:
    callers = [file.name for file in WORKFLOWS.glob("*.py") if "set_current_details" in file.read_text()]

    assert callers == ["details.py"]


def failure(cause: BaseException | None) -> ActivityError:
    error = ActivityError(
        "activity failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="worker",
        activity_type="purge_topic",
        activity_id="1",
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )
    error.__cause__ = cause
    return error


def test_the_message_of_an_activity_error_is_its_cause() -> None:
    assert error_message(failure(ApplicationError("the disk is full", type="DiskFull"))) == "the disk is full"
    assert error_message(failure(None)) == "activity failed"
    assert error_message(ValueError("bad value")) == "bad value"


def test_only_an_application_error_has_a_type() -> None:
    assert error_type(failure(ApplicationError("busy", type="LeaseBusy"))) == "LeaseBusy"
    assert error_type(failure(ApplicationError("busy"))) == ""
    assert error_type(failure(None)) == ""


def test_a_non_retryable_application_error_is_permanent() -> None:
    assert is_permanent(failure(ApplicationError("refused", non_retryable=True)))
    assert not is_permanent(failure(ApplicationError("busy")))
    assert not is_permanent(failure(None))


def test_h1_each_field_of_each_order_has_a_line() -> None:
    fields = {name: fields_of_order(method) for name, method in registered_activities().items()}

    expected = {name: set(lines) for name, lines in ORDERS.items()}
    assert _differences(fields, expected) == {}, "correct ORDERS in tests/support/orders.py: code, then table"
    assert {line.split(":")[0] for lines in ORDERS.values() for line in lines.values()} == {"rows", "harmless"}


def test_h1_every_activity_class_is_in_the_table() -> None:
    classes = {name for name in vars(activities) if name.endswith("Activities")}

    assert classes == {name for name in activities.__all__ if name.endswith("Activities")}
    assert len(classes) == 7


def test_h1_each_signal_and_query_has_a_line() -> None:
    handlers = {name: handlers_of(cls) for name, cls in workflow_types().items()}

    expected = {name: {h: line.split(":")[0] for h, line in lines.items()} for name, lines in HANDLERS.items()}
    assert _differences(handlers, expected) == {}, "correct HANDLERS in tests/support/orders.py: code, then table"


def _differences(in_code: Mapping[str, object], in_table: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    names = in_code.keys() | in_table.keys()
    pairs = {name: (in_code.get(name), in_table.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def test_a_finished_attempt_ends_the_round_well() -> None:
    assert conclude(AttemptResult(Ending.FINISHED), 3) == Conclusion("SUCCEEDED", "")


def test_a_halted_attempt_ends_the_round_as_stopped() -> None:
    assert conclude(AttemptResult(Ending.HALTED, "a stop"), 0) == Conclusion("STOPPED", "a stop")


@pytest.mark.parametrize(("tries", "seconds"), [(1, 10.0), (2, 20.0), (MAX_TRIES - 1, 160.0)])
def test_failed_kinds_are_tried_again_after_a_longer_wait(tries: int, seconds: float) -> None:
    assert conclude(AttemptResult(Ending.FAILED, "the disk is full"), tries) == RetryAfter(seconds)


def test_the_last_failed_try_fails_the_round() -> None:
    assert conclude(AttemptResult(Ending.FAILED, "the disk is full"), MAX_TRIES) == Conclusion(
        "FAILED", "the disk is full"
    )


@pytest.mark.parametrize("ending", [Ending.NOT_ENABLED, Ending.LEASE_LOST])
def test_an_attempt_that_no_retry_can_save_fails_the_round(ending: Ending) -> None:
    assert conclude(AttemptResult(ending, "why"), 1) == Conclusion("FAILED", "why")


def test_only_failures_count_as_tries() -> None:
    failing = [e for e in Ending if AttemptResult(e).failed]

    assert failing == [Ending.FAILED, Ending.NOT_ENABLED, Ending.LEASE_LOST]


def test_some_endings_stop_every_kind() -> None:
    stopping = [e for e in Ending if AttemptResult(e).stops_every_kind]

    assert stopping == [Ending.NOT_ENABLED, Ending.HALTED, Ending.LEASE_LOST]
