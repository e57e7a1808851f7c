"""Signals to running work, and how far it is: the same for rounds, checks, purges, rounds of topics and binlog GCs."""

from dataclasses import replace
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple

from sexton.check.model import CheckProgress
from sexton.kernel.message import Message
from sexton.operations.fields import Instance
from sexton.operations.registry import Call, Logged, operation
from sexton.operations.topics import UNKNOWN, TopicName
from sexton.operations.topics import instance_of as instance_of_topic
from sexton.operators.access.model import Grant
from sexton.recycle.rounds.model import RoundProgress
from sexton.replication.binlog.model import GcProgress
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


AGAIN = "if it is backing off, it tries again now"
WORKS = (
    Family(
        "round",
        "ROUNDS",
        "/v1/instances/{instance}/rounds/running",
        "round",
        RoundProgress,
        {
            "cancel": "it ends after the page that it is deleting now, with a report; the next round, an interval "
            "later, finishes its claimed marks. To delete nothing until you say so: sexton stop",
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
SUBJECTS = {"topic": (TopicName, " orders-wal"), "instance": (Instance, " shop")}
"""The parameter that names the work, by its part of the path → its type, and what the example has."""


def _declare(work: Family, verb: str) -> None:
    """Declare the progress of a work, or a signal to it: about an instance, a topic, or all of the deployment."""
    of = next((name for name in SUBJECTS if f"{{{name}}}" in work.path), "")
    kind, example = SUBJECTS.get(of, (str, ""))
    is_signal = verb in work.effects

    def run(call: Call, **named: str) -> Any:
        from sexton.runtime.temporal import works

        subject, deployment = named.get(of, ""), call.deployment
        control: ControlClient[Any, Any, Any] = getattr(works, work.control)
        if not is_signal:
            return deployment.starter.ask(lambda client: control.progress(client, deployment.settings, subject))
        workers = deployment.starter.signal(control, subject, SENT.get(verb, verb))
        return Signalled(subject=subject, signal=verb, workers=workers, effect=work.effects[verb])

    named = [("call", Call), (of, kind)] if of else [("call", Call)]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=type_) for name, type_ in named]
    result = Signalled if is_signal else work.progress
    run.__signature__ = Signature(parameters, return_annotation=result)  # type: ignore[attr-defined]
    about = (
        f"{VERBS[verb].format(work.name)}: {work.effects[verb]}."
        if is_signal
        else f"Print how far the running {work.name} is."
    )
    run.__doc__ = f"{about}\n\nExample: sexton {work.command} {verb}{example}"
    record = Logged("", changes=is_signal, keeps=verb in ("cancel", "pause"))
    if of == "topic":
        record = replace(record, subject="{topic}", of=instance_of_topic, unknown=UNKNOWN)
    http, grant = ("POST", Grant.OPERATE) if is_signal else ("GET", Grant.READ)
    operation(f"{work.command} {verb}", f"{http} {work.path}/{verb}", grant, record)(run)


for _work in WORKS:
    for _verb in (*_work.effects, "progress"):
        _declare(_work, _verb)
