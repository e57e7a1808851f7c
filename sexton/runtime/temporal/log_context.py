"""Give every log record of an activity its context, log each refusal of one as one line, and count activities."""

import logging
from typing import Any

import temporalio.client
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from sexton.kernel import logs
from sexton.runtime.temporal import tracing

log = logging.getLogger(__name__)
TEXT_ARGUMENTS = {"cut_binlogs": "instance", "prepare_purge": "topic", "flush_regions": "topic", "purge_topic": "topic"}
"""Activities whose only argument is a text, and what it names."""
PARTS = ("", "opened", "order", "lease", "run", "opened.lease")
"""Where an order has what the context needs: in itself, or in one of these parts."""


class LogContext(temporalio.client.Interceptor, Interceptor):
    """Binds workflow and order to the context of each activity, and of the thread that runs it.

    A client that has it hands it to all of its workers.
    """

    def __init__(self) -> None:
        # The context has it, as fields.
        activity.logger.activity_info_on_message = False
        workflow.logger.workflow_info_on_message = False

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Bind the context before the activity begins."""
        return _Binding(next)


class _Binding(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        context = context_of(info.activity_type, input.args)
        tracing.describe_span(**context)
        logs.bind(
            workflow_id=info.workflow_id,
            run_id=info.workflow_run_id,
            activity=info.activity_type,
            attempt=info.attempt if info.attempt > 1 else None,
            **context,
        )
        try:
            return await super().execute_activity(input)
        except ApplicationError as e:
            if e.category is ApplicationErrorCategory.BENIGN:  # Temporal's own logger prints the others
                level = logging.WARNING if e.non_retryable else logging.INFO
                log.log(level, "%s failed: %s: %s", info.activity_type, e.type, e.message)
            raise


def context_of(activity_type: str, arguments: Any) -> dict[str, object]:
    """Return which instance, round, kind and range an order names, or which topic."""
    order = arguments[0] if arguments else None
    if isinstance(order, str):
        name = TEXT_ARGUMENTS.get(activity_type)
        return {name: order} if name else {}
    parts = [part for path in PARTS if (part := _part(order, path)) is not None]
    values = {name: _first(parts, name) for name in ("instance", "round", "kind")}
    if values["kind"] is not None:
        values["range"] = _first(parts, "number")
    return {name: value for name, value in values.items() if isinstance(value, str | int)}


def _part(order: object, path: str) -> object:
    for name in filter(None, path.split(".")):
        order = getattr(order, name, None)
    return order


def _first(parts: list[object], name: str) -> object:
    return next((value for part in parts if (value := getattr(part, name, None)) is not None), None)


class ActivityCounter(Interceptor):
    """Knows how many activities its worker runs now."""

    def __init__(self) -> None:
        self.running = 0

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Count every activity that begins, until it ends."""
        return _Counting(next, self)


class _Counting(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, counter: ActivityCounter) -> None:
        super().__init__(following)
        self._counter = counter

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._counter.running += 1
        try:
            return await super().execute_activity(input)
        finally:
            self._counter.running -= 1
