"""The commands of the operations that ``sexton.operations`` declares: words, options, what they ask and print."""

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import Ge, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.groups import NOT_TEXT, plain_usage
from sexton.interfaces.cli.output import JSON, emit, wants_json
from sexton.kernel.errors import WrongUsage
from sexton.kernel.printable import PRINTABLE
from sexton.operations.fields import DURATION, Flag
from sexton.operations.registry import INSTANCE, Call, Deed, Operation
from sexton.operators.access.model import EVERY_INSTANCE

if TYPE_CHECKING:
    from sexton.operators.access.model import Grant
    from sexton.runtime.deployment import Deployment

YES = JSON.replace(name="yes", annotation=Annotated[bool, typer.Option("--yes", help="Do not ask.")])
WATCH = JSON.replace(
    name="watch",
    annotation=Annotated[bool, typer.Option("--watch", help="Show what runs, each second, until it ends or Ctrl-C.")],
)
FOLLOWED = {
    "round run": "ROUNDS",
    "apply": "ROUNDS",
    "check run": "CHECKS",
    "wal purge": "PURGES",
    "wal round run": "PURGE_ROUNDS",
    "binlog gc": "BINLOG_GCS",
}
"""Operations for whose work the command waits → that work in ``sexton.runtime.temporal.works``."""
WATCHED = frozenset({"status", "round show", "check show"})
"""Operations whose commands can show first, again and again, how far the work is."""


class User:
    """Who runs a command: a person who can open the database may do everything."""

    node = ""

    def __init__(self, service: "Deployment", ask: Callable[[], None] = lambda: None) -> None:
        self._service, self._ask = service, ask

    @property
    def name(self) -> str:
        """The user of this process."""
        from sexton.operators.controls.store import whoami

        return whoami()

    def selected(self, instance: str | None) -> str:
        """Return the named instance, or every one."""
        return instance or EVERY_INSTANCE

    def permits(self, _grant: "Grant", _instance: str) -> bool:
        """Return that it is permitted."""
        return True

    def require(self, *_: Any, **_of: Any) -> None:
        """Permit it."""

    require_log = read = require

    @contextmanager
    def recorded(self, deed: Deed, *, keeps: bool = False, routine: bool = False) -> Iterator[None]:
        """Record the deed and how it ends, also if the person does not confirm it; of a person nothing is routine."""
        del routine
        names = (deed.instance, deed.subject, deed.reason)
        with log_call(self._service, deed.action, *names, blocks_deletion=keeps):
            self._ask()
            yield


def command(operation: Operation) -> Callable[..., None]:
    """Return the function of a command, with the signature from which Typer makes its words and options."""
    from sexton.interfaces.cli.questions import QUESTIONS, ask

    def run(*, yes: bool = False, watch: bool = False, **given: Any) -> None:
        if watch:
            from sexton.interfaces.cli.watching import watch_before

            watch_before(operation.name, **given)
        with open_database() as service:
            values = valid(operation, given)
            call = Call(service, User(service, lambda: ask(operation.name, call, values, yes=yes)))
            if work := FOLLOWED.get(operation.name):
                from sexton.interfaces.cli.watching import follow

                result = operation.run(call, values, lambda started: follow(work, service, started))
            else:
                result = operation.run(call, values)
        finish(operation.name, result, values)

    keyword_only, required = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    words = [p for p in operation.parameters.values() if p.kind is not keyword_only]
    parameters = list[inspect.Parameter]()
    for parameter in operation.parameters.values():
        default = None if parameter.default == () else parameter.default
        if parameter.name == INSTANCE:
            behind = words[words.index(parameter) + 1 :] if parameter in words else []
            default = required if any(p.default is required for p in behind) else None
        annotation = _Form(parameter).typed(default)
        parameters.append(parameter.replace(kind=keyword_only, default=default, annotation=annotation))
    parameters += [YES] if operation.name in QUESTIONS else [WATCH] if operation.name in WATCHED else []
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = operation.about
    return run


def finish(name: str, result: Any, values: Mapping[str, Any]) -> None:
    """Print a result, and end with the exit code that it stands for."""
    from sexton.interfaces.cli.render.results import EXIT_CODES, show

    if not wants_json():
        show(name, result, values)
    elif isinstance(result, BaseModel):
        emit(result)
    if code := EXIT_CODES.get(name, lambda _: 0)(result):
        raise typer.Exit(code)


def valid(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an order as their types have them; raise ``WrongUsage`` if one is not valid."""
    if given.get(INSTANCE) == "":
        raise WrongUsage("the instance is empty (is a variable empty?); name one, or leave it out")
    operation.refuse_bare(given, lambda name: _named(operation.parameters[name]))
    try:
        order = operation.order.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as e:
        mistakes = e.errors(include_url=False, include_input=False)
        raise WrongUsage("; ".join(_explain(operation, mistake) for mistake in mistakes)) from None
    return {name: getattr(order, name) for name in operation.parameters}


def _explain(operation: Operation, mistake: Any) -> str:
    name = str(mistake["loc"][0]) if mistake["loc"] else ""
    parameter = operation.parameters.get(name)
    if parameter is None:
        return f"{name}: {mistake['msg']}"
    kind, named = mistake["type"], _named(parameter)
    if kind == "string_unicode":
        return f"{named}: {NOT_TEXT}"
    if kind in ("string_too_short", "too_short"):
        return f"{named} is empty{'; write a few words that other operators can read' if name == 'reason' else ''}"
    if kind == "string_pattern_mismatch":
        form, pattern = _Form(parameter), mistake["ctx"]["pattern"]
        if pattern == PRINTABLE:
            return f"{named} has characters that are not allowed there"
        write = f"write {form.shown}; " if "/" in form.shown else ""
        return f"{named} does not fit: {write}{form.about.removesuffix('.')}"
    return plain_usage(f"{named}: {mistake['msg']}")


def _named(parameter: inspect.Parameter) -> str:
    """Return how the command line calls a value."""
    form = _Form(parameter)
    return form.option if parameter.kind is inspect.Parameter.KEYWORD_ONLY else form.shown or parameter.name.upper()


class _Form:
    """How a value is written at the command line, by its type."""

    def __init__(self, parameter: inspect.Parameter) -> None:
        self._parameter = parameter
        kind, metadata = parameter.annotation, list[Any]()
        while get_origin(kind) in (Annotated, Union, types.UnionType):
            if get_origin(kind) is Annotated:
                kind, *more = get_args(kind)
                metadata = [*more, *metadata]
            else:
                kinds = [k for k in get_args(kind) if k is not type(None)]
                kind = kinds[0] if len(kinds) == 1 else str
        self._kind = kind
        self._parts = parts = [part for each in metadata for part in (each, *getattr(each, "metadata", ()))]
        flag = next((part for part in reversed(parts) if isinstance(part, Flag)), Flag())
        names = [part for part in metadata if isinstance(part, Flag) and part.name]
        self.option = (names[-1].name if names else "") or f"--{parameter.name.strip('_').replace('_', '-')}"
        self.shown = flag.shown
        about = [part.description for part in parts if isinstance(part, FieldInfo) and part.description]
        self.about = about[-1].replace(", or that of the token", "") if about else ""
        self._help: dict[str, Any] = {"help": self.about}
        if DURATION in parts:
            self._kind = str
        elif kind is int:
            for part in parts:
                if isinstance(part, Ge):
                    self._help["min"] = part.ge
                elif isinstance(part, Le | Lt):
                    self._help["max"] = part.le if isinstance(part, Le) else int(part.lt) - 1  # type: ignore[call-overload]

    def typed(self, default: Any) -> Any:
        """Return the annotation that Typer reads: a word, or an option, with its help and bounds."""
        kind, more = self._kind, dict(self._help)
        if get_origin(kind) is tuple:
            kind = list[str]
        elif not (
            get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum | str | int | bool))
        ):
            kind = str
        if self.shown:
            more["metavar"] = self.shown
        if default == 0 and DURATION in self._parts:
            more["show_default"] = False
        if default is None:
            kind = kind | None
        if self._parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            return Annotated[kind, typer.Argument(**more)]
        names = [self.option] if self._kind is not bool or not default else [f"{self.option}/--no-{self.option[2:]}"]
        return Annotated[kind, typer.Option(*names, **more)]
