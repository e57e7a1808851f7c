"""The message, the type and the permanence of an activity's error."""

from temporalio.exceptions import ActivityError, ApplicationError, RetryState

from workflows.errors import error_message, error_type, is_permanent


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
