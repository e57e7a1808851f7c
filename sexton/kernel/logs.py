r"""Write the logs of a process: one line for each record, for people (``console``) or for programs (``json``).

Records of every library take the same way. Each carries the context in which it was logged: deployment, role, and in an
activity its workflow, instance, round, kind and range. Text of owners cannot forge a line or a field: control
characters and line breaks are escaped, and the context stands before the message, or in fields of its own.
"""

import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

from sexton.kernel.printable import printable

CONSOLE_CONTEXT = ("role", "instance", "round", "kind", "range", "check", "topic", "attempt", "request")
"""The context that a line for people shows; JSON has all of it."""
QUIET = ("botocore.credentials", "httpx", "alembic")
"""Libraries that log a line for each client, request or start."""
_OWN_FIELDS = ("timestamp", "level", "logger", "event", "exception")
_MAX_EVENT = 16_384

Event = MutableMapping[str, Any]


def configure(format_: str = "console", level: str = "info", **context: object) -> None:
    """Log to stderr from a level on; every record has ``context`` beside the context of its activity."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(format_, **context))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in QUIET:
        logging.getLogger(library).setLevel(logging.WARNING)


def formatter(format_: str, **context: object) -> logging.Formatter:
    """Return what makes a line of a record."""

    def add_own_context(_: Any, __: str, event: Event) -> Event:
        return {**context, **event}

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            add_own_context,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
        ],
        processors=[
            _add_workflow,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _shorten_cancellations,
            structlog.processors.format_exc_info,
            _as_json if format_ == "json" else _as_line,
        ],
    )


def bind(**context: object) -> None:
    """Add to the context of this task or thread; values that are None or empty are left out."""
    structlog.contextvars.bind_contextvars(
        **{name: value for name, value in context.items() if value not in (None, "")}
    )


def _add_workflow(_: Any, __: str, event: Event) -> Event:
    """Add the workflow of a record that Temporal's logger wrote."""
    info: Mapping[str, Any] = getattr(event["_record"], "temporal_workflow", None) or {}
    names = {"workflow_id": "workflow_id", "run_id": "run_id", "workflow_type": "workflow"}
    return {**{field: info[name] for name, field in names.items() if name in info}, **event}


def _shorten_cancellations(_: Any, __: str, event: Event) -> Event:
    """Replace the traceback of a cancellation, which is no fault, by its message."""
    exc_info = event.get("exc_info")
    error = (sys.exc_info() if exc_info is True else exc_info or (None, None))[1]
    if error is not None and type(error).__name__ == "CancelledError":
        event["exc_info"] = None
        event["event"] = f"{event['event']}: CancelledError: {error}".removesuffix(": ")
    return event


def _as_json(_: Any, __: str, event: Event) -> str:
    """Return one line of JSON. An escaped character means the same there."""
    first = {name: event[name] for name in _OWN_FIELDS if event.get(name) is not None}
    first["event"] = str(first.get("event", ""))[:_MAX_EVENT]
    rest = {name: value for name, value in event.items() if name not in _OWN_FIELDS and name != "exc_info"}
    return printable(json.dumps(first | rest, ensure_ascii=False, default=str))


def _as_line(_: Any, __: str, event: Event) -> str:
    """Return one line, and the lines of the traceback if there is one, each indented."""
    texts = {name: printable(str(event[name])) for name in CONSOLE_CONTEXT if event.get(name) is not None}
    context = " ".join(
        # Quoted if the value could end the brackets or begin another field.
        f"{name}={json.dumps(text, ensure_ascii=False)}" if set(text) & set(' ="[]') else f"{name}={text}"
        for name, text in texts.items()
    )
    place = f"[{context}] " if context else ""
    head = f"{event['timestamp']} {event['level'].upper()} {event['logger']} {place}"
    trace = str(event.get("exception") or "").split("\n")
    message = printable(str(event["event"]))
    return "\n".join([f"{head}{message}", *(f"  {printable(line)}" for line in trace if line)])
