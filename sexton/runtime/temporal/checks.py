"""The check of one instance that an operator asks for."""

from sexton.check.model import CheckReport, CheckRequest
from sexton.runtime.temporal.control_client import ControlClient
from workflows import ids

CHECKS = ControlClient[CheckRequest, CheckReport, None](
    workflow_type=ids.CHECK,
    workflow_id=ids.check,
    subject=lambda request: request.instance,
    summary=lambda request: f"check {request.instance}, by hand",
    report=CheckReport,
    name="the check of {subject}",
    show_command="sexton check list",
    cancel_command="sexton check cancel {subject}",
    already_running="a check of {subject} is already running; see: sexton check list {subject}",
    not_running="no check of {subject} is running; see: sexton check list {subject}",
)
