"""Declare operations: typed functions with a name, an address and a grant, from which each door makes its own form.

The first parameter of such a function is the ``Call``. The others are the values of the order, and their annotations
are types, not texts; a keyword-only one is an option at the command line, another one a word. ``{name}`` in an address
is a part of the path; ``instance``, and each value of a GET, comes in the query; the rest is the body. A value that is
a model is the whole body, and such an operation has no command.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, create_model

from sexton.kernel.errors import SextonError, WrongUsage
from sexton.kernel.message import Message
from sexton.operations.fields import DURATION, EVERY, ONE, Covered, StartedWork
from sexton.operators.access.model import EVERY_INSTANCE, UNKNOWN_INSTANCE, Grant

if TYPE_CHECKING:
    from sexton.runtime.deployment import Deployment
    from sexton.runtime.stores import DeploymentStores

F = TypeVar("F", bound=Callable[..., Any])
MODULES = (
    "control",
    "instances",
    "vaults",
    "plans",
    "rounds",
    "holds",
    "lists",
    "marks",
    "checks",
    "protections",
    "topics",
    "binlogs",
    "replicas",
    "signals",
    "tokens",
    "settings",
    "workers",
)
"""The modules of this package that declare operations."""
INSTANCE = "instance"
READING = "GET"
_declared: dict[str, "Operation"] = {}


class Deed(NamedTuple):
    """What a request does, as the log of calls has it, and the grant that it needs.

    ``instance``: empty if the object belongs to none, or is unknown; then the token must cover all. ``subject``: the
    object of the action. ``job``, ``node``: see ``access.policy.check``. ``is_named``: whether the request itself names
    the instance; otherwise a refusal does not tell whether there is such an object. ``unknown``: see ``Logged``.
    """

    action: str
    instance: str
    grant: Grant
    subject: str = ""
    reason: str = ""
    job: str | None = None
    node: str | None = None
    is_named: bool = True
    unknown: str = ""


class Asking(Protocol):
    """Who asks: a command's user, or the sender of a request."""

    @property
    def name(self) -> str:
        """The caller in the log of calls."""

    @property
    def node(self) -> str:
        """The node that the caller is; empty: it is none."""

    def selected(self, instance: str | None) -> str:
        """Return the named instance, else that of the caller, which may be ``EVERY_INSTANCE``."""

    def permits(self, grant: Grant, instance: str) -> bool:
        """Return whether the caller has the grant itself, and not only for its own job or node."""

    def require(self, grant: Grant, instance: str, *, job: str | None = None, node: str | None = None) -> None:
        """Raise ``Forbidden`` unless the caller has the grant in the instance."""

    def require_log(self, grant: Grant, instance: str, consumers: tuple[str, ...]) -> None:
        """Raise ``Forbidden`` if the caller is a job for which no operator registered this log; see ``check_log``."""

    def read(self, deed: Deed) -> None:
        """Raise ``Forbidden`` unless the caller may do what changes nothing."""

    def recorded(self, deed: Deed, *, keeps: bool = False, routine: bool = False) -> AbstractContextManager[None]:
        """Check the grant, and record the deed and how it ends; if it is ``routine``, of a program only refusals."""


class Call(NamedTuple):
    """One call of an operation: on which deployment, and who asks."""

    deployment: "Deployment"
    caller: Asking

    @property
    def by(self) -> str:
        """The caller in the log of calls."""
        return self.caller.name

    @property
    def stores(self) -> "DeploymentStores":
        """The stores of the deployment."""
        return self.deployment.stores

    def start(self, request: Message) -> StartedWork:
        """Start the work that a request is for; raises as ``WorkflowStarter.start``."""
        run = self.deployment.starter.start(request)
        return StartedWork.model_validate(request.model_dump() | run._asdict())


@dataclass(frozen=True)
class Logged:
    """How the log of calls has an operation; templates have values of the order in braces.

    Attributes:
        subject: a template of what it is about, or a function of the values.
        changes: whether it changes something. Otherwise nothing is recorded but refusals.
        routine: whether programs repeat it all the time, perhaps with these values; then of theirs only refusals are
            recorded.
        keeps: whether it only keeps objects, perhaps with these values; then it is done even if it cannot be recorded.
        reserved: it has places that other requests cannot take, for it stops deletions, keeps objects or ends a wait.
        long: it may take long, so a few of these leave places for the others.
        asks: a person confirms it, after reading what it does.
        job: a template of the job whose own token is accepted, too.
        node: a template of the node whose own token is accepted, too.
        once: to send it twice is not the same as to send it once, so no client repeats it by itself.
        of: returns the instance of the object that the order names; None: the order names the instance, if any.
        unknown: a template of what a token is not for that covers no instance with such an object, and the way out.
    """

    subject: str | Callable[..., str] = ""
    changes: bool = True
    routine: bool | Callable[..., bool] = False
    keeps: bool | Callable[..., bool] = False
    reserved: bool = False
    long: bool = False
    asks: bool = False
    job: str | None = None
    node: str | None = None
    once: bool = False
    of: Callable[..., str] | None = None
    unknown: str = ""


READS = Logged(changes=False)
OF_NODE = Logged("{node}", routine=True, node="{node}")
"""What a node sends all the time, with its own token."""


@dataclass(frozen=True)
class Operation:
    """An operation, as it was declared; see ``operation``."""

    name: str
    grant: Grant
    method: str
    paths: tuple[str, ...]
    record: Logged
    is_large: bool
    is_for_programs: bool
    function: Callable[..., Any]

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that are values of the order, with their types."""
        _, *given = inspect.signature(self.function).parameters.values()
        return {p.name: p for p in given}

    @cached_property
    def model(self) -> str:
        """The parameter that is the whole body of a request; empty: none is."""
        kinds = {name: p.annotation for name, p in self.parameters.items() if get_origin(p.annotation) is None}
        return next((n for n, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseModel)), "")

    @property
    def is_for_people(self) -> bool:
        """Whether it has a command, and may have a form."""
        return not (self.model or self.is_for_programs)

    @cached_property
    def covers(self) -> str:
        """Return ``ONE``, ``EVERY`` or nothing: whether it is about one instance, perhaps about all, or about none."""
        if INSTANCE not in self.parameters:
            return ""
        return next(str(mark) for mark in get_args(self.parameters[INSTANCE].annotation) if mark in (ONE, EVERY))

    @cached_property
    def durations(self) -> frozenset[str]:
        """The parameters that a person writes with a unit."""
        return frozenset(name for name, p in self.parameters.items() if _is_duration(p.annotation))

    def refuse_bare(self, given: Mapping[str, Any], named: Callable[[str], str] = str) -> None:
        """Raise ``WrongUsage`` for a duration that a person wrote without a unit: 7 is not meant as seconds."""
        for name in self.durations:
            value = given.get(name)
            if isinstance(value, str) and value.isdigit() and value != str(self.parameters[name].default):
                raise WrongUsage(f"{named(name)}: {value} of what? write m, h, d or w behind it: 30m, 12h, 7d, 2w")

    @cached_property
    def order(self) -> type[BaseModel]:
        """The model of all values."""
        return self._model("Order", self.parameters)

    def path_names(self, path: str) -> frozenset[str]:
        """Return the parameters that are parts of a path."""
        return frozenset(name for name in self.parameters if f"{{{name}}}" in path)

    def query_names(self, path: str) -> frozenset[str]:
        """Return the parameters that are in the query of a path."""
        in_paths = frozenset[str]().union(*map(self.path_names, self.paths))
        instance = self.parameters.keys() & {INSTANCE}
        if self.method == READING:
            return frozenset(self.parameters.keys() - in_paths | (instance - self.path_names(path)))
        return frozenset(instance - in_paths)

    @cached_property
    def body(self) -> type[BaseModel] | None:
        """The model of the request's body; None: it has none."""
        if self.model:
            model: type[BaseModel] = self.parameters[self.model].annotation
            return model
        outside = frozenset[str]().union(*map(self.path_names, self.paths), *map(self.query_names, self.paths))
        rest = {name: p for name, p in self.parameters.items() if name not in outside}
        return self._model("Request", rest) if rest and self.method != READING else None

    @property
    def result(self) -> Any:
        """The type of the result."""
        return inspect.signature(self.function).return_annotation

    @property
    def about(self) -> str:
        """The documentation, for people."""
        return inspect.getdoc(self.function) or ""

    def run(self, call: Call, given: Mapping[str, Any], finished: Callable[[Any], Any] = lambda result: result) -> Any:
        """Check the grant, record what changes something, and return the result.

        ``given``: valid values of ``order``; an instance that is not named may be None. ``finished`` waits for what the
        operation started and returns its report, while the record is open.

        Raises:
            Forbidden: the caller lacks the grant.
            UnknownInstance: the named instance is not registered.
        """
        values, about, deed = self._prepared(call, given)
        if not self.record.changes:
            call.caller.read(deed)
            return self._do(call, values, about)
        routine, keeps = (
            whether(**values) if callable(whether) else whether for whether in (self.record.routine, self.record.keeps)
        )
        with call.caller.recorded(deed, keeps=keeps, routine=routine):
            return finished(self._do(call, values, about))

    def admit(self, call: Call, given: Mapping[str, Any]) -> None:
        """Raise ``Forbidden`` unless the caller may send it; see ``run``."""
        _, _, deed = self._prepared(call, given)
        call.caller.read(deed)

    def _prepared(self, call: Call, given: Mapping[str, Any]) -> tuple[dict[str, Any], str, Deed]:
        """Return all values, the instance that they are about, and what the log of calls has."""
        defaults = {name: p.default for name, p in self.parameters.items() if p.default is not p.empty}
        values, record = defaults | dict(given), self.record
        about = self._instance(call, values)
        known = {name: "" if value is None else value for name, value in values.items()}

        def text(template: str | Callable[..., str] | None) -> str | None:
            if not isinstance(template, str):
                return template and template(**values)
            for name, value in values.items():
                template = template.replace(f" {{{name}}}", "") if value is None else template
            return template.format(**known).strip()

        reason, is_named = str(values.get("reason") or ""), record.of is None
        of_record = "" if about == EVERY_INSTANCE and not self.covers else about
        subject, job, node, unknown = map(text, (record.subject, record.job, record.node, record.unknown))
        deed = Deed(self.name, of_record, self.grant, subject or "", reason, job, node, is_named, unknown or "")
        return values, about, deed

    def _do(self, call: Call, values: Mapping[str, Any], about: str) -> Any:
        if self.covers and about != EVERY_INSTANCE:
            call.stores.registry.instance(about)
        return self.function(call, **values)

    def _instance(self, call: Call, values: dict[str, Any]) -> str:
        """Return the instance that the order is about, and put it among the values; None there means all."""
        if self.record.of is not None:
            try:
                return self.record.of(call, **values)
            except SextonError:
                return UNKNOWN_INSTANCE  # the function says what is unknown, to whom it may
        if not self.covers:
            return EVERY_INSTANCE
        if self.covers == EVERY and self.record.changes and values.get(INSTANCE) == "":
            raise WrongUsage("the instance is empty (is a variable empty?); name one, or leave it out to mean all")
        name = values.get(INSTANCE) or getattr(values.get(self.model), INSTANCE, "") or call.caller.selected(None)
        if name == EVERY_INSTANCE and self.covers == ONE:
            name = call.stores.registry.resolve_instance(None)
        values[INSTANCE] = None if name == EVERY_INSTANCE else name
        return name

    def _model(self, what: str, parameters: Mapping[str, inspect.Parameter]) -> type[BaseModel]:
        words = "".join(word.capitalize() for word in self.name.replace("-", " ").split())
        fields: Any = {
            name: (p.annotation, ... if p.default is inspect.Parameter.empty else p.default)
            for name, p in parameters.items()
        }
        if INSTANCE in fields:
            fields[INSTANCE] = (Covered, None)
        return create_model(f"{words}{what}", __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def _is_duration(kind: Any) -> bool:
    return any(part == DURATION or _is_duration(part) for part in get_args(kind))


def operation(
    name: str,
    http: str,
    grant: Grant,
    record: Logged = Logged(),
    *,
    is_large: bool = False,
    is_for_programs: bool = False,
) -> Callable[[F], F]:
    """Declare a function as an operation.

    ``name``: the words of its command, also in the log of calls. ``http``: method and path of its route, perhaps
    several paths; empty: it has none. ``grant``: what the caller needs, in the instance that the order is about, or in
    all. ``record``: how the log of calls has it. ``is_large``: its body may have many objects. ``is_for_programs``: no
    person sends it, so it has neither a command nor a form.
    """

    def declared(function: F) -> F:
        method, *paths = http.split() or ("",)
        _declared[name] = Operation(name, grant, method, tuple(paths), record, is_large, is_for_programs, function)
        return function

    return declared


@cache
def operations() -> Mapping[str, Operation]:
    """Return all operations, by name, in the order of their modules."""
    return {o.name: o for o in declared_in(MODULES)}


def declared_in(modules: Iterable[str]) -> list[Operation]:
    """Return the operations of some modules, in their order, without importing others than these need."""
    names = [import_module(f"sexton.operations.{module}").__name__ for module in modules]
    return [o for name in names for o in _declared.values() if o.function.__module__ == name]


def operation_named(name: str, module: str = "") -> Operation:
    """Return an operation, without importing other modules than its own; empty: the module is looked for."""
    found = module or _module_with(rf'@operation\(\s*"{re.escape(name)}"') or "signals"
    import_module(f"sexton.operations.{found}")
    return _declared[name]


def operation_of(function: str) -> Operation:
    """Return the operation that a function of this name is, without importing other modules than its own.

    Raises:
        KeyError: there is none.
    """
    module = _module_with(rf"^def {re.escape(function)}\(")
    return {o.function.__name__: o for o in declared_in([module] if module else [])}[function]


@cache
def _module_with(pattern: str) -> str:
    """Return the first module whose source has a pattern; empty: none has. Reading is quicker than importing."""
    here = Path(__file__).parent
    return next((m for m in MODULES if re.search(pattern, (here / f"{m}.py").read_text(), re.MULTILINE)), "")
