"""The commands of the operations that ``sexton.operations`` declares: words, options, and what they print."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sexton.interfaces.cli.context import WrongUsage, log_call, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.render.results import show
from sexton.operations.registry import Deed, Operation, operations

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService
    from sexton.operators.access.model import Grant


class User:
    """Who runs a command: a person who can open the database may do everything."""

    def __init__(self, service: "OperatorService") -> None:
        self._service = service

    @property
    def name(self) -> str:
        """The user of this process."""
        from sexton.operators.controls.store import whoami

        return whoami()

    def require(self, grant: "Grant", instance: str) -> None:
        """Permit it."""

    def recorded(self, deed: Deed, *, keeps: bool = False) -> AbstractContextManager[None]:
        """Record the deed and how it ends."""
        service, names = self._service, (deed.instance, deed.subject, deed.reason)
        return log_call(service, deed.action, *names, blocks_deletion=keeps)


def groups() -> Mapping[str, typer.Typer]:
    """Return the groups of commands, by their word."""
    by_word: dict[str, typer.Typer] = {}
    for operation in operations().values():
        group, _, name = operation.name.rpartition(" ")
        about = (inspect.getdoc(inspect.getmodule(operation.function)) or "").partition("\n")[0]
        by_word.setdefault(group, typer.Typer(help=about, no_args_is_help=True)).command(name)(_command(operation))
    return by_word


def _command(operation: Operation) -> Callable[..., None]:
    """Return the function of a command, with the signature from which Typer makes its words and options."""

    def run(**given: Any) -> None:
        with open_database() as service:
            if "instance" in given:
                given["instance"] = one_instance(service, given["instance"])
            result = operation.run(service, User(service), _valid(operation, given))
        if isinstance(result, BaseModel) and wants_json():
            emit(result)
        else:
            show(operation.name, result)

    parameters = [p.replace(annotation=_typed(p)) for p in operation.parameters.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = operation.about
    return run


def _valid(operation: Operation, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of an order as their types have them; raise ``WrongUsage`` if one is not valid."""
    try:
        order = operation.order.model_validate(given)
    except ValidationError as e:
        mistakes = e.errors(include_url=False, include_context=False, include_input=False)
        raise WrongUsage("; ".join(f"{'.'.join(map(str, m['loc']))}: {m['msg']}" for m in mistakes)) from None
    return {name: getattr(order, name) for name in operation.parameters}


def _typed(parameter: inspect.Parameter) -> Any:
    """Return the annotation that Typer reads: a word, or an option, with its help and bounds."""
    kind = parameter.annotation
    metadata: list[Any] = []
    if get_origin(kind) is Annotated:
        kind, *metadata = get_args(kind)
    bounds: dict[str, Any] = {"help": ""}
    for part in (part for each in metadata for part in (each, *getattr(each, "metadata", ()))):
        if isinstance(part, FieldInfo):
            bounds["help"] = part.description or bounds["help"]
        elif isinstance(part, Ge | Le):
            bounds |= {"min": part.ge} if isinstance(part, Ge) else {"max": part.le}
    is_option = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return Annotated[kind, typer.Option(**bounds) if is_option else typer.Argument(**bounds)]
