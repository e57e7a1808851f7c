"""Explain settings: the source of each value, and each problem as a sentence with its remedy."""

import difflib
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from config.sources import Layer, layers, masked

_SECRET = re.compile(r"password|passwd|secret|jaas|\.pem$|token\.|\.token$|credential|ssl\.key$", re.IGNORECASE)
"""Keys of other programs' settings whose values are never shown."""

_PUBLIC = re.compile(
    r"(servers|protocol|mechanisms?|username|location|\.(ms|id|bytes|level|version|algorithm|enabled?))$"
)
"""Keys of Kafka's settings whose values are no secrets."""


class SettingRow(NamedTuple):
    """One setting as `sexton settings show` prints it; passwords are masked."""

    key: str
    value: str
    source: str
    unit: str
    bound: str


def rows(settings: BaseModel) -> list[SettingRow]:
    """Return every setting with its value, its source, its unit, and its bounds and default."""
    return list(_walk(settings, "", layers()))


def sentence(problem: ErrorDetails, sources: list[Layer], known_keys: Collection[str]) -> str:
    """Return one problem as a sentence. The value of an unknown key is not shown: it may be a secret.

    Args:
        problem: an error of pydantic.
        sources: the layers that were read, the one with the highest precedence first.
        known_keys: names that a key may have, to suggest one for a misspelt key.
    """
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    source = _source(key, sources)
    if problem["type"] == "extra_forbidden":
        similar = difflib.get_close_matches(path[-1], known_keys, 1)
        hint = f"did you mean {similar[0]!r}?" if similar else "remove it; `sexton settings show` lists the keys."
        return f"{key} ({source}) is not a setting; {hint}"
    if problem["type"] == "missing":
        return f"{key} is missing; set it in the same place."
    value = "" if isinstance(problem["input"], dict) else f" = {_shown(key, problem['input'])}"
    return f"{key}{value} ({source}) {_fault(problem)}"


def _fault(problem: ErrorDetails) -> str:
    """Return what is wrong with a value, and the remedy."""
    bounds = problem.get("ctx", {})
    match problem["type"]:
        case "greater_than_equal":
            return f"is below its floor of {bounds['ge']}; set {bounds['ge']} or more."
        case "greater_than":
            return f"must be more than {bounds['gt']}."
        case "less_than_equal":
            return f"is above its ceiling of {bounds['le']}; set {bounds['le']} or less."
        case _:
            return f"is not allowed: {problem['msg'].removeprefix('Value error, ')}."


def _shown(key: str, value: Any) -> str:
    """Return a value with its secrets masked: all of it where the key names a secret."""
    hidden = _SECRET.search(key) or (".kafka." in key and not _PUBLIC.search(key))  # covers a misspelt secret
    return "***" if value and hidden else masked(str(value))


def _walk(model: BaseModel, path: str, sources: list[Layer]) -> Iterator[SettingRow]:
    for name, field in type(model).model_fields.items():
        key, value = f"{path}{name}", getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _walk(value, f"{key}.", sources)
        elif isinstance(value, dict):
            for kind, entry in value.items():
                if isinstance(entry, BaseModel):
                    yield from _walk(entry, f"{key}.{kind}.", sources)
                else:
                    name = f"{key}.{kind}"
                    yield SettingRow(name, _shown(name, entry), _source(name, sources), "", "")
        else:
            unit: Any = field.json_schema_extra.get("unit", "") if isinstance(field.json_schema_extra, dict) else ""
            yield SettingRow(key, _shown(key, value), _source(key, sources), str(unit), _bound(field))


def _source(key: str, sources: list[Layer]) -> str:
    """Return the source with the highest precedence that sets the key, or any key of a section."""
    prefix, kafka, librdkafka_key = key.partition("kafka.")  # a variable's name has no dots
    variable_key = f"{prefix}{kafka}{librdkafka_key.replace('.', '_')}"
    for layer in sources:
        for name, source in layer.sources.items():
            if name in (key, variable_key) or name.startswith(f"{key}."):
                return source
    return "default"


def _bound(field: FieldInfo) -> str:
    low = [f"floor {m.ge}" for m in field.metadata if isinstance(m, Ge)]
    low += [f"more than {m.gt}" for m in field.metadata if isinstance(m, Gt)]
    high = [f"ceiling {m.le}" for m in field.metadata if isinstance(m, Le)]
    default = [] if field.is_required() else [f"default {field.default}" if field.default != "" else "default empty"]
    return ", ".join(low + high + default)
