"""Signals to running work, and how far it is: the same for rounds, checks, purges, rounds of topics and binlog GCs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from sexton.check.model import CheckProgress
from sexton.kernel.message import Message
from sexton.operations.fields import Instance
from sexton.operations.registry import Call, Logged, operation
from sexton.operations.topics import UNKNOWN, TopicName
from sexton.operations.topics import instance_of as instance_of_topic
from sexton.operators.access.model import Grant
from sexton.recycle.rounds.model import RoundProgress
from sexton.replication.binlog.messages import GcProgress
from sexton.wal.messages import PurgeProgress, PurgeRoundProgress

if TYPE_CHECKING:
    from sexton.runtime.temporal.control_client import ControlClient


class Signalled(Message):
    """A signal was sent to what runs. ``workers``: how many can deliver it; 0: none is known."""

    subject: str
    signal: str
    workers: int
    effect: str


class Family(NamedTuple):
    """Work that runs as a workflow, at most one of each subject.

    Attributes:
        command: the group of its commands.
        control: name of its ``ControlClient`` in ``sexton.runtime.temporal.works``.
        path: of its signals.
        name: what it is called.
        progress: the type of its progress.
        effects: signal → what happens then.
    """

    command: str
    control: str
    path: str
    name: str
    progress: type
    effects: dict[str, str]

    def client(self) -> "ControlClient[Any, Any, Any]":
        """Return what signals it."""
        from sexton.runtime.temporal import works

        client: ControlClient[Any, Any, Any] = getattr(works, self.control)
        return client


AGAIN = "if it is backing off, it tries again now"
WORKS = (
    Family(
        "round",
        "ROUNDS",
        "/v1/instances/{instance}/rounds/running",
        "round",
        RoundProgress,
        {
            "cancel": "it ends after the page that it is deleting now, with a report; the next round finishes its "
            "claimed marks",
            "pause": "it pauses after the page that it is deleting now, and has no lease until: sexton round resume",
            "resume": "it continues where it stopped, as soon as it has a lease",
            "retry": AGAIN,
        },
    ),
    Family(
        "check",
        "CHECKS",
        "/v1/instances/{instance}/checks/running",
        "check",
        CheckProgress,
        {
            "cancel": "it ends and confirms nothing",
            "pause": "it waits, and no other check begins, until: sexton check resume",
            "resume": "it lists everything again and continues",
            "retry": AGAIN,
        },
    ),
    Family(
        "wal",
        "PURGES",
        "/v1/topics/{topic}/purge",
        "purge of a topic",
        PurgeProgress,
        {
            "cancel": "it ends before its next step",
            "pause": "it waits before its next step, and no other purge of the topic starts, until: sexton wal resume",
            "resume": "it continues",
            "retry": AGAIN,
            "now": "it stops waiting for flushes, and purges what may be deleted now",
        },
    ),
    Family(
        "wal round",
        "PURGE_ROUNDS",
        "/v1/topics-round",
        "round of topics",
        PurgeRoundProgress,
        {
            "cancel": "it starts no further purge; purges that run go on",
            "pause": "no scheduled purge starts, until: sexton wal round resume",
            "resume": "it continues",
            "retry": AGAIN,
        },
    ),
    Family(
        "binlog",
        "BINLOG_GCS",
        "/v1/instances/{instance}/binlog-gc/running",
        "binlog GC",
        GcProgress,
        {
            "cancel": "it ends; records that are cut stay cut",
            "pause": "it waits, and no other run begins, until: sexton binlog resume",
            "resume": "it continues",
            "retry": AGAIN,
        },
    ),
)
VERBS = {
    "cancel": "End the running {}",
    "pause": "Pause the running {}",
    "resume": "Resume a paused {}",
    "retry": "Let a {} that is backing off try again now",
    "now": "Make a running {} stop waiting for flushes",
}
SENT = {"now": "purge_now"}
"""Signal → its name in the workflow, where that is another one."""


def _declare(work: Family) -> None:
    for signal in work.effects:
        record = Logged("{topic}" if "{topic}" in work.path else "", keeps=signal in ("cancel", "pause"))
        _declare_one(work, signal, f"POST {work.path}/{signal}", record, _signal)
    _declare_one(work, "progress", f"GET {work.path}/progress", Logged(changes=False), _progress)


def _declare_one(
    work: Family, verb: str, http: str, record: Logged, do: Callable[[Family, str, Call, str], Any]
) -> None:
    """Declare one operation, about an instance, a topic, or all of the deployment."""
    result = Signalled if do is _signal else work.progress
    grant = Grant.OPERATE if do is _signal else Grant.READ
    subject = {"{topic}": " orders-wal", "{instance}": " shop"}
    example = next((word for part, word in subject.items() if part in work.path), "")
    about = f"{VERBS[verb].format(work.name)}: {work.effects[verb]}." if do is _signal else ""
    about = about or f"Print how far the running {work.name} is."

    if "{topic}" in work.path:

        def of_topic(call: Call, topic: TopicName) -> Any:
            return do(work, verb, call, topic)

        function: Callable[..., Any] = of_topic
        record = Logged(
            record.subject, changes=record.changes, keeps=record.keeps, of=instance_of_topic, unknown=UNKNOWN
        )
    elif "{instance}" in work.path:

        def of_instance(call: Call, instance: Instance) -> Any:
            return do(work, verb, call, instance)

        function = of_instance
    else:

        def of_all(call: Call) -> Any:
            return do(work, verb, call, "")

        function = of_all
    function.__annotations__["return"] = result
    function.__doc__ = f"{about}\n\nExample: sexton {work.command} {verb}{example}"
    operation(f"{work.command} {verb}", http, grant, record)(function)


def _signal(work: Family, signal: str, call: Call, subject: str) -> Signalled:
    workers = call.deployment.starter.signal(work.client(), subject, SENT.get(signal, signal))
    return Signalled(subject=subject, signal=signal, workers=workers, effect=work.effects[signal])


def _progress(work: Family, _verb: str, call: Call, subject: str) -> Any:
    control, settings = work.client(), call.deployment.settings
    return call.deployment.starter.ask(lambda client: control.progress(client, settings, subject))


for _work in WORKS:
    _declare(_work)
