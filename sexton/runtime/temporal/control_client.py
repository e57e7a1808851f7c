"""Start, signal, query and await the workflows that operators control: rounds, purges, binlog GCs and checks."""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.exceptions import ActivityError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.exceptions import CancelledError as TemporalCancelled
from temporalio.service import RPCError, RPCStatusCode

from config.settings import Settings
from sexton.kernel.errors import Conflict, Left, SextonError
from sexton.runtime.temporal import search_attributes
from sexton.runtime.temporal.client import connect, pollers, taken
from workflows import ids
from workflows.search_attributes import Capability, at_start


class Requested(Protocol):
    """What every request says. ``instance``: empty if the workflow serves every one; ``requested_by``: who asked."""

    @property
    def instance(self) -> str: ...  # noqa: D102
    @property
    def requested_by(self) -> str: ...  # noqa: D102


class TemporalAway(SextonError):
    """Temporal does not answer, or refuses the request; what was requested may have been done all the same."""

    passes = True


class NotRunning(Conflict):
    """No workflow of the subject runs, so none can be signalled."""


class AlreadyRunning(Conflict):
    """A workflow of the subject runs, scheduled or started by hand."""


class AlreadyPurging(AlreadyRunning):
    """A purge of the topic runs, scheduled or started by hand."""


Request = TypeVar("Request", bound=Requested)
Report = TypeVar("Report")
Progress = TypeVar("Progress")
Notify = Callable[[str], None]

WATCH_SECONDS = 2.0
QUERY_PATIENCE = dt.timedelta(seconds=2)
WORKER_PATIENCE_SECONDS = 5.0
"""After this long without a result, the caller is notified if no worker has taken the workflow."""


@dataclass(frozen=True, kw_only=True)
class ControlClient(Generic[Request, Report, Progress]):
    """The workflows of one type. At most one runs for each subject: an instance, or a topic.

    ``{subject}`` in the texts stands for the subject's name.
    """

    workflow_type: str
    workflow_id: Callable[[str, str], str]
    """Returns the workflow id for a deployment and a subject."""
    capability: Capability
    subject: Callable[[Request], str]
    summary: Callable[[Request], str]
    """Returns what the Temporal UI shows beside the workflow."""
    report: type[Report]
    name: str
    """For example ``the check of {subject}``."""
    command: str
    """The group of commands that signal it, for example ``wal round``."""
    already_running: str
    not_running: str
    progress_type: type[Progress]
    texts: Mapping[str, Callable[[Progress], str]] = field(default_factory=dict)
    """What the workflow does → the progress as a sentence, which a wait ends with its command; any other step is named
    as it is."""
    conflict: type[AlreadyRunning] = AlreadyRunning
    """Raised when a workflow of the subject runs already."""

    def describe(self, progress: Any, subject: str) -> str:
        """Return what the workflow of a subject does now, as a sentence for operators."""
        error = getattr(progress, "error", "")
        if progress.doing == ids.BACKING_OFF:
            again = f"try {progress.tries + 1} in {progress.backoff_seconds:.0f} s"
            return f"it failed: {error}; {again}, or now: {self.command_for('retry', subject)}"
        sentence, wait = self.texts.get(progress.doing), ids.WAITS.get(progress.doing)
        text = f"it is {wait.text}; to go on" if wait is not None else str(progress.doing).lower()
        if sentence is not None:
            text = sentence(progress)
        if wait is not None:
            text = f"{text}: {self.command_for(wait.signal, subject)}"
        return f"{text}; its last error: {error}" if error else text

    def command_for(self, verb: str, subject: str) -> str:
        """Return the command that signals the workflow or shows its progress, for example ``sexton wal pause t``."""
        return f"sexton {self.command} {verb} {subject}".rstrip()

    def goes_on(self, subject: str) -> str:
        """Return what becomes of the workflow after a command stops waiting for it, as a sentence for operators."""
        show, cancel = self.command_for("progress", subject), self.command_for("cancel", subject)
        return f"{self.name.format(subject=subject)} goes on. See: {show}; to end it: {cancel}"

    async def start(self, client: Client, settings: Settings, request: Request) -> WorkflowHandle[Any, Report]:
        """Start a workflow and return its handle.

        Raises:
            SextonError: as ``conflict`` says.
            TemporalAway: Temporal did not confirm it.
        """
        deployment, subject = settings.require_deployment(), self.subject(request)
        attributes = at_start(deployment, self.capability, request.instance, request.requested_by)
        try:
            return await client.start_workflow(
                self.workflow_type,
                request,
                id=self.workflow_id(deployment, subject),
                task_queue=ids.control_queue(deployment),
                result_type=self.report,
                static_summary=self.summary(request),
                memo={"instance": request.instance},
                search_attributes=await search_attributes.known(client, attributes),
            )
        except WorkflowAlreadyStartedError as e:
            raise self.conflict(self.already_running.format(subject=subject)) from e
        except RPCError as e:
            name = self.name.format(subject=subject)
            raise _unconfirmed(f"the start of {name}", e) from e

    def follow(
        self, settings: Settings, started: tuple[str, str], subject: str, notify: Notify, seconds: float | None = None
    ) -> Report:
        """Await a workflow that was started, and return its report. Ctrl-C ends the waiting, not the workflow.

        Args:
            settings: of this process.
            started: the workflow id, and the run id.
            subject: its instance or topic.
            notify: called with sentences for the operator: what the workflow does, and whether a worker is missing.
            seconds: how long it is awaited; None: to its end.

        Raises:
            SextonError: the workflow failed, was cancelled or did not end in time, or Temporal stopped answering.
        """

        async def follow() -> Report:
            name = self.name.format(subject=subject)
            workflow, run = started
            client = await connect(settings)
            handle = client.get_workflow_handle(workflow, run_id=run or None, result_type=self.report)
            watching = asyncio.ensure_future(self._watch(handle, subject, notify))
            result = asyncio.ensure_future(handle.result())
            try:
                await asyncio.wait({result}, timeout=WORKER_PATIENCE_SECONDS)
                if not result.done() and not await taken(handle):
                    notify(f"no worker has taken {name} yet; start one: sexton worker run, or see: sexton doctor")
                report: Report = await asyncio.wait_for(result, seconds)
                return report
            except TimeoutError as e:
                raise SextonError(f"stopped waiting after {seconds} s; {self.goes_on(subject)}") from e
            except WorkflowFailureError as e:
                raise SextonError(_failure(e, name)) from e
            except RPCError as e:
                raise Left(f"lost the connection to Temporal ({e.message}); {name} goes on when it is back") from e
            finally:
                watching.cancel()

        return asyncio.run(follow())

    async def progress(self, client: Client, settings: Settings, subject: str) -> Progress:
        """Return the progress of the running workflow; ``SextonError`` where none runs, or no worker answers."""
        handle = self._handle(client, settings, subject)
        try:
            if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
                raise self._not_running(subject)
            progress: Progress = await handle.query(
                "progress", result_type=self.progress_type, rpc_timeout=QUERY_PATIENCE
            )
        except RPCError as e:
            if e.status is RPCStatusCode.NOT_FOUND:
                raise self._not_running(subject) from e
            name = self.name.format(subject=subject)
            raise SextonError(f"{name} did not answer: {e.message}; is a worker running? See: sexton doctor") from e
        return progress

    async def signal(self, client: Client, settings: Settings, subject: str, signal: str) -> int:
        """Signal the running workflow; return how many workers are known to poll, so that can deliver the signal.

        Raises:
            NotRunning: no workflow of the subject runs.
            TemporalAway: Temporal did not confirm it.
        """
        try:
            await self._handle(client, settings, subject).signal(signal)
        except RPCError as e:
            if e.status is RPCStatusCode.NOT_FOUND:
                raise self._not_running(subject) from e
            raise _unconfirmed(f"the signal to {self.name.format(subject=subject)}", e) from e
        try:
            return await pollers(client, settings)
        except SextonError:  # the signal was sent all the same
            return 0

    def _handle(self, client: Client, settings: Settings, subject: str) -> WorkflowHandle[Any, Any]:
        return client.get_workflow_handle(self.workflow_id(settings.require_deployment(), subject))

    def _not_running(self, subject: str) -> SextonError:
        return NotRunning(self.not_running.format(subject=subject))

    async def _watch(self, handle: WorkflowHandle[Any, Any], subject: str, notify: Notify) -> None:
        """Notify of each change in the workflow's progress that has a sentence, until cancelled."""
        last = ""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                progress = await handle.query("progress", result_type=self.progress_type, rpc_timeout=QUERY_PATIENCE)
            except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
                continue
            sentence = self.describe(progress, subject)
            if sentence != last and progress.doing in (*self.texts, *ids.WAITS):
                notify(sentence)
            last = sentence


def _unconfirmed(what: str, error: RPCError) -> TemporalAway:
    """Return that something may have been done: the SDK repeats calls, and shows the last answer alone."""
    return TemporalAway(f"Temporal did not confirm {what}: {error.message}; see: sexton status")


def _failure(error: WorkflowFailureError, name: str) -> str:
    """Return why a workflow failed: the message of the innermost error."""
    cause: BaseException | None = error.cause
    if isinstance(cause, TemporalCancelled):
        return f"{name} was cancelled"
    if isinstance(cause, TerminatedError):
        return f"{name} was terminated in Temporal ({cause.message})"
    if isinstance(cause, ActivityError):
        cause = cause.cause
    return str(getattr(cause, "message", cause) or error)
