"""Settings in words: each with where its value comes from, and each problem as a sentence that says what to do."""

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
"""Keys of other programs' settings whose values nobody is shown."""


_PLAIN = re.compile(
    r"(servers|protocol|mechanisms?|username|location|\.(ms|id|bytes|level|version|algorithm|enabled?))$"
)
"""Keys of Kafka's settings whose values say nothing."""


class SettingRow(NamedTuple):
    """One setting as `sexton settings show` prints it; passwords are masked."""

    key: str
    value: str
    source: str
    unit: str
    bound: str


def rows(settings: BaseModel) -> list[SettingRow]:
    """Return every setting with its value, the place it came from, its unit, and its bounds and default."""
    return list(_walk(settings, "", layers()))


def sentence(problem: ErrorDetails, found: list[Layer], known: Collection[str]) -> str:
    """Return one problem as a sentence; the value of an unknown key is never shown, it may be a secret.

    Args:
        problem: as pydantic tells it.
        found: the layers that were read, the strongest first.
        known: names that a key may have, to guess which one was meant.
    """
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    where = _source(key, found)
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], known, 1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it; `sexton settings show` lists the keys."
        return f"{key} ({where}) is no setting; {hint}"
    if problem["type"] == "missing":
        return f"{key} is missing; set it in the same place."
    bounds = problem.get("ctx", {})
    if problem["type"] == "greater_than_equal":
        what = f"is below its floor of {bounds['ge']}; set {bounds['ge']} or more."
    elif problem["type"] == "greater_than":
        what = f"must be more than {bounds['gt']}."
    elif problem["type"] == "less_than_equal":
        what = f"is above its ceiling of {bounds['le']}; set {bounds['le']} or less."
    else:
        what = f"is refused: {problem['msg'].removeprefix('Value error, ')}."
    shown = "" if isinstance(problem["input"], dict) else f" = {_shown(key, problem['input'])}"
    return f"{key}{shown} ({where}) {what}"


def _shown(key: str, value: Any) -> str:
    """Return a value without what is secret in it: all of it, where the key says so."""
    hidden = _SECRET.search(key) or (".kafka." in key and not _PLAIN.search(key))  # a misspelt secret too
    return "***" if value and hidden else masked(str(value))


def _walk(model: BaseModel, path: str, found: list[Layer]) -> Iterator[SettingRow]:
    for name, field in type(model).model_fields.items():
        key, value = f"{path}{name}", getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _walk(value, f"{key}.", found)
        elif isinstance(value, dict):
            for kind, own in value.items():
                if isinstance(own, BaseModel):
                    yield from _walk(own, f"{key}.{kind}.", found)
                else:
                    name = f"{key}.{kind}"
                    yield SettingRow(name, _shown(name, own), _source(name, found), "", "")
        else:
            unit: Any = field.json_schema_extra.get("unit", "") if isinstance(field.json_schema_extra, dict) else ""
            yield SettingRow(key, _shown(key, value), _source(key, found), str(unit), _bound(field))


def _source(key: str, found: list[Layer]) -> str:
    """Return the strongest place that sets the key, or for a section any key in it."""
    head, dot, own = key.partition("kafka.")  # a variable's name has no dots
    also = f"{head}{dot}{own.replace('.', '_')}"
    for layer in found:
        for name, source in layer.sources.items():
            if name in (key, also) or name.startswith(f"{key}."):
                return source
    return "default"


def _bound(field: FieldInfo) -> str:
    low = [f"floor {m.ge}" for m in field.metadata if isinstance(m, Ge)]
    low += [f"more than {m.gt}" for m in field.metadata if isinstance(m, Gt)]
    high = [f"ceiling {m.le}" for m in field.metadata if isinstance(m, Le)]
    default = [] if field.is_required() else [f"default {field.default}" if field.default != "" else "default empty"]
    return ", ".join(low + high + default)
