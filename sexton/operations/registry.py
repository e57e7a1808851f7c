"""Declare operations: typed functions with a name, a grant and an address, from which each door makes its own form.

The first parameter of such a function is the deployment. A parameter ``by`` gets the name of the caller. The others are
the values of the order, and their annotations are types, not texts; a keyword-only one is an option at the command
line, another one a word. ``{name}`` in the address is a part of the path, other values come in the body, or in the
query of a GET.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, create_model

from sexton.operators.access.model import EVERY_INSTANCE, Grant

F = TypeVar("F", bound=Callable[..., Any])
MODULES = ("tokens",)
"""The modules of this package that declare operations."""
CALLER = "by"
READING = "GET"
_declared: dict[str, "Operation"] = {}


class Deed(NamedTuple):
    """What a request changes, as the log of calls has it, and the grant that it needs.

    ``instance``: empty if the object belongs to none, or is unknown; then the token must cover all. ``subject``: the
    object of the action. ``job``, ``node``: see ``access.policy.check``. ``is_named``: whether the request itself names
    the instance; otherwise a refusal does not tell whether there is such an object.
    """

    action: str
    instance: str
    grant: Grant
    subject: str = ""
    reason: str = ""
    job: str | None = None
    node: str | None = None
    is_named: bool = True


class Asking(Protocol):
    """Who asks: a command's user, or the sender of a request."""

    @property
    def name(self) -> str:
        """The caller in the log of calls."""

    def require(self, grant: Grant, instance: str) -> None:
        """Raise ``Forbidden`` unless the caller has the grant in the instance."""

    def recorded(self, deed: Deed, *, keeps: bool = False) -> AbstractContextManager[None]:
        """Check the grant, and record the deed and how it ends."""


@dataclass(frozen=True)
class Recording:
    """How the log of calls has what changes something.

    ``subject``, ``reason``: texts with values in braces. ``keeps``: it only keeps objects, so it is done even if it
    cannot be recorded, and has places that other requests cannot take.
    """

    subject: str = ""
    reason: str = ""
    keeps: bool = False


READS = Recording()
"""The record of what changes nothing: none is written."""


@dataclass(frozen=True)
class Operation:
    """An operation, as it was declared; see ``operation``."""

    name: str
    grant: Grant
    method: str
    path: str
    record: Recording
    function: Callable[..., Any]

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that are values of the order, with their types."""
        _, *given = inspect.signature(self.function).parameters.values()
        return {p.name: p for p in given if p.name != CALLER}

    @cached_property
    def path_names(self) -> frozenset[str]:
        """The parameters that are parts of the path."""
        return frozenset(name for name in self.parameters if f"{{{name}}}" in self.path)

    @cached_property
    def order(self) -> type[BaseModel]:
        """The model of all values."""
        return self._model("Order", self.parameters)

    @cached_property
    def body(self) -> type[BaseModel] | None:
        """The model of the request's body; None: it has none."""
        rest = {name: p for name, p in self.parameters.items() if name not in self.path_names}
        return self._model("Request", rest) if rest and self.method != READING else None

    @property
    def result(self) -> Any:
        """The type of the result."""
        return inspect.signature(self.function).return_annotation

    @property
    def about(self) -> str:
        """The documentation, for people."""
        return inspect.getdoc(self.function) or ""

    def run(self, deployment: Any, caller: Asking, values: Mapping[str, Any]) -> Any:
        """Check the grant, record what changes something, and return the result.

        Args:
            deployment: the first argument of the function.
            caller: who asks.
            values: valid ones, of ``order``.
        """
        instance, by = values.get("instance", ""), {}
        if CALLER in inspect.signature(self.function).parameters:
            by[CALLER] = caller.name
        if self.record is READS:
            caller.require(self.grant, instance or EVERY_INSTANCE)
            return self.function(deployment, **values, **by)
        subject, reason = (text.format(**values) for text in (self.record.subject, self.record.reason))
        with caller.recorded(Deed(self.name, instance, self.grant, subject, reason), keeps=self.record.keeps):
            return self.function(deployment, **values, **by)

    def _model(self, what: str, parameters: Mapping[str, inspect.Parameter]) -> type[BaseModel]:
        words = "".join(word.capitalize() for word in self.name.replace("-", " ").split())
        fields: Any = {
            name: (p.annotation, ... if p.default is inspect.Parameter.empty else p.default)
            for name, p in parameters.items()
        }
        return create_model(f"{words}{what}", __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def operation(name: str, http: str, grant: Grant, record: Recording = READS) -> Callable[[F], F]:
    """Declare a function as an operation.

    Args:
        name: the words of its command, which is also its name in the log of calls.
        http: method and path of its route.
        grant: what the caller needs, in the instance if a value is named ``instance``, otherwise in all.
        record: how the log of calls has it; ``READS``: it changes nothing, and is not recorded.
    """

    def declared(function: F) -> F:
        method, _, path = http.partition(" ")
        _declared[name] = Operation(name, grant, method, path, record, function)
        return function

    return declared


def operations() -> Mapping[str, Operation]:
    """Return all operations, by name."""
    for module in MODULES:
        import_module(f"sexton.operations.{module}")
    return _declared
