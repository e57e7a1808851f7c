"""A form for each operation that people send: those that no other page offers are on a page of their own."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from starlette.responses import Response

from sexton.interfaces.api.pools import long, reserved
from sexton.interfaces.console import session
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.interfaces.questions import QUESTIONS
from sexton.kernel.errors import BadInput
from sexton.operations.registry import INSTANCE, READING, Operation, operations
from sexton.operators.access.model import EVERY_INSTANCE

WITH_A_PAGE = frozenset(
    {"stop", "start", "hold add", "lists add", "lists remove", "plan new", "apply", "check repair", "token create"}
    | {"quarantine retry", "settings set", "settings unset", "vault cap", "vault uncap"}
    | {"protection release", "binlog approve", "round cancel", "round pause", "round resume", "round retry"}
)
"""Operations whose own page compares what it showed with what is there when its form is sent, or shows more."""
ON_A_PAGE = frozenset(
    {"round run", "check run", "check accept", "hold release", "vault probe", "binlog gc", "token renew"}
    | {"token revoke", "wal purge", "wal enable", "wal disable", "plan reject", "quarantine discard", "vault trust"}
    | {f"wal {signal}" for signal in ("now", "pause", "resume", "retry", "cancel")}
)
"""Operations with a button on the page of what they are about."""
PAGE = re.compile(r"[a-z0-9-]{1,40}(/[A-Za-z0-9._-]{1,249})?")
KINDS = {"boolean": "checkbox", "integer": "number"}
MOST_KNOWN = 200
"""How many names that exist a field offers; another one may be typed."""


class Field(NamedTuple):
    """A field of a form. ``kind``: the type of its input, ``select``, or ``text``."""

    name: str
    about: str
    kind: str
    choices: tuple[str, ...]
    is_required: bool
    value: str


class Shown(NamedTuple):
    """An operation and the fields of its form."""

    operation: Operation
    fields: tuple[Field, ...]

    @property
    def first_line(self) -> str:
        """What it does, in one sentence."""
        return self.operation.about.partition("\n")[0]

    @property
    def more(self) -> list[str]:
        """What else there is to know, in paragraphs."""
        rest = self.operation.about.partition("\n\nExample:")[0].partition("\n\n")[2]
        return [" ".join(paragraph.split()) for paragraph in rest.split("\n\n") if paragraph]

    @property
    def example(self) -> str:
        """Its command."""
        return self.operation.about.partition("Example: ")[2]


@cache
def offered() -> Mapping[str, Operation]:
    """Return the operations that any form may send, by name."""
    return {
        name: o
        for name, o in operations().items()
        if o.method != READING and o.paths and o.is_for_people and name not in WITH_A_PAGE
    }


@pages.get("/operations")
def page(visit: CurrentVisit) -> Response:
    """Show the operations that no other page has, of those that the caller may send."""
    groups: dict[str, list[Shown]] = {}
    scope, stores = visit.scope, visit.service.stores
    for operation in offered().values():
        about = scope if scope and (operation.covers or operation.record.of) else EVERY_INSTANCE
        if operation.name not in ON_A_PAGE and visit.caller.permits(operation.grant, about):
            group = operation.name.split()[0]
            groups.setdefault(group, []).append(Shown(operation, tuple(_fields(operation))))
    known = {
        "topic": [topic.name for topic in stores.wal.store.topics("", MOST_KNOWN, instance=scope)],
        "job": [protection.job for protection in stores.protections.list_protections(scope)[:MOST_KNOWN]],
        "to": visit.instances,
    }
    return visit.show("operations.html", "operations", cli="sexton --help", instance=scope, groups=groups, known=known)


def _fields(operation: Operation) -> Iterator[Field]:
    schema = operation.order.model_json_schema()
    for name in operation.parameters:
        if name == INSTANCE:
            continue
        field = schema["properties"][name]
        kinds = [field, *(kind for kind in field.get("anyOf", ()) if kind.get("type") != "null")]
        kinds += [schema["$defs"][k["$ref"].rpartition("/")[2]] for k in kinds if "$ref" in k]
        found: dict[str, Any] = {key: value for kind in reversed(kinds) for key, value in kind.items()}
        choices = tuple(found.get("enum", ()))
        kind = "select" if choices else KINDS.get(found.get("type", ""), "text")
        kind = "text" if name in operation.durations else kind
        default = field.get("default")
        yield Field(
            name,
            found.get("description", ""),
            kind,
            choices,
            name in schema.get("required", ()),
            "" if default in (None, False) else str(default),
        )


def _send(operation: Operation) -> Callable[..., Response]:
    """Return the action of a form: it sends an operation, and leads to the page that the form names."""

    def send(visit: CurrentVisit) -> Response:
        to = visit.form.get("page", "operations")
        if not PAGE.fullmatch(to):
            raise BadInput("the form names no page; open the page again, then send it")
        if operation.record.asks:
            values = visit.values(operation)
            operation.admit(visit.call, values)
            question = QUESTIONS[operation.name](visit.call, values)
            if question is not None and visit.form.get("sure") != question.text:
                cli, instance = f"sexton {operation.name}", values.get(INSTANCE) or visit.named
                form = {name: value for name, value in visit.form.items() if name not in (session.FORM_FIELD, "sure")}
                shown = {"operation": operation, "question": question, "form": form, "instance": instance}
                return visit.show("confirm.html", "operations", cli=cli, **shown)
        return visit.sent(operation.name, to)

    return send


for _name, _operation in offered().items():
    _endpoint, _record = _send(_operation), _operation.record
    _endpoint = reserved(_endpoint) if _record.reserved else long(_endpoint) if _record.long else _endpoint
    pages.add_api_route(f"/do/{_name}", _endpoint, methods=["POST"], name=_name)
