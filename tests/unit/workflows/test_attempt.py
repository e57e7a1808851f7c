"""How attempts end, errors and details are shown, and why no order, signal or query deletes anything more."""

from collections.abc import Mapping
from pathlib import Path

from temporalio.exceptions import ActivityError, ApplicationError, RetryState

import activities
from sexton.kernel.errors import TooManyObjects
from sexton.marks.model import LeaseLost
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.runtime.spark.session import SparkFailed
from tests.support.orders import (
    HANDLERS,
    ORDERS,
    fields_of_order,
    handlers_of,
    registered_activities,
    workflow_types,
)
from workflows import ids
from workflows.attempt import AttemptResult, Conclusion, Ending, conclude
from workflows.details import error_message, error_type, is_permanent, plain
from workflows.options import MAX_TRIES
from workflows.signals import RetryAfter

WORKFLOWS = Path(__file__).parents[3] / "workflows"


SHOWN = {
    "orders-wal: 3 of 4 pages": "orders-wal: 3 of 4 pages",
    "http://n/[log in](https://x.example)": r"http://n/\[log in\](https://x.example)",
    "![](https://x.example/pixel)": r"\!\[\](https://x.example/pixel)",
    "**PURGED** `all` <b>": r"\*\*PURGED\*\* \`all\` \<b\>",
    "\x1b[2J\x1b]0;x\x07": r" \[2J \]0;x ",
    "first\n\n# second\r\u2028third": r"first \# second third",
    "\u202eevil\x85&lt;": r" evil \&lt;",
    "a\\*": r"a\\\*",
}


def test_details_show_text_as_it_is() -> None:
    callers = [file.name for file in WORKFLOWS.glob("*.py") if "set_current_details" in file.read_text()]

    assert callers == ["details.py"]  # every workflow shows its details this way
    assert {text: plain(text) for text in SHOWN} == SHOWN


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


def test_an_activity_error_has_message_and_type_of_its_cause() -> None:
    full = failure(ApplicationError("the disk is full", type="DiskFull", non_retryable=True))
    untyped, uncaused = failure(ApplicationError("busy")), failure(None)

    assert (error_message(full), error_type(full), is_permanent(full)) == ("the disk is full", "DiskFull", True)
    assert (error_message(untyped), error_type(untyped), is_permanent(untyped)) == ("busy", "", False)
    assert (error_message(uncaused), error_type(uncaused), is_permanent(uncaused)) == ("activity failed", "", False)
    assert error_message(ValueError("bad value")) == "bad value"


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


def test_an_attempt_ends_the_round_or_is_tried_again() -> None:
    full, waits = "the disk is full", {1: 10.0, 2: 20.0, MAX_TRIES - 1: 160.0}

    assert conclude(AttemptResult(Ending.FINISHED), 3) == Conclusion("SUCCEEDED", "")
    assert conclude(AttemptResult(Ending.HALTED, "a stop"), 0) == Conclusion("STOPPED", "a stop")
    for tries, seconds in waits.items():
        assert conclude(AttemptResult(Ending.FAILED, full), tries) == RetryAfter(seconds)
    assert conclude(AttemptResult(Ending.FAILED, full), MAX_TRIES) == Conclusion("FAILED", full)
    for ending in (Ending.NOT_ENABLED, Ending.LEASE_LOST):  # no retry can save these
        assert conclude(AttemptResult(ending, "why"), 1) == Conclusion("FAILED", "why")


def test_some_endings_are_failures_and_some_stop_every_kind() -> None:
    failing = [e for e in Ending if AttemptResult(e).failed]
    stopping = [e for e in Ending if AttemptResult(e).stops_every_kind]

    assert failing == [Ending.FAILED, Ending.NOT_ENABLED, Ending.LEASE_LOST]
    assert stopping == [Ending.NOT_ENABLED, Ending.HALTED, Ending.LEASE_LOST]


def test_error_types_are_the_names_of_their_classes() -> None:
    types = [ids.LEASE_LOST, ids.HALTED, ids.NOT_ENABLED, ids.SPARK_FAILED, ids.TOO_MANY_OBJECTS]

    assert [e.__name__ for e in (LeaseLost, Halted, NotEnabled, SparkFailed, TooManyObjects)] == types


def test_queues_begin_with_the_deployment() -> None:
    names = [
        q("d-1") for q in (ids.control_queue, ids.spark_queue, ids.compare_queue, ids.topic_queue, ids.flush_queue)
    ]
    names.append(ids.backend_queue("d-1", "b1"))

    assert ({n.partition("/")[0] for n in names}, len(set(names))) == ({"d-1"}, 6)
