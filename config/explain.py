"""Explain settings: the source of each value, whether the database may change it, and each problem as a sentence."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from config.sections import Trait, having, unit_of
from config.sources import Layer, layers, masked
from sexton.insight.wording import duration, human_bytes
from sexton.kernel.message import Message

SHOWN = having(Trait.SHOWN) | {"deployment", "database_url", "live_database_url"}

_SHOWN_IN_GROUPS = re.compile(r"kinds\.[^.]+\.after")
_KAFKA = re.compile(
    r"wal\.kafka\.[\w.]*(servers|protocol|mechanisms?|username|location|\.(ms|id|bytes|level|version|algorithm|enabled?))"
)
_SPARK = re.compile(
    r"spark\.conf\.spark\.((executor|driver)\.(memory|memoryOverhead|cores|instances|host|port|bindAddress)|cores\.max"
    r"|default\.parallelism|dynamicAllocation\.\w+|local\.dir|log\.level|master|network\.timeout|ui\.\w+"
    r"|sql\.(shuffle|adaptive|files|execution|session|autoBroadcastJoinThreshold)[\w.]*)"
)
"""Keys of other programs' settings whose values are shown."""
_SECRET = re.compile(r"password|passwd|secret|jaas|\.pem$|token\.|\.token$|credential|ssl\.key$", re.IGNORECASE)
"""Keys whose values are never shown."""
_PORT = ":[0-9]{1,5}$"
"""The end of the pattern of an address."""
_WORDS = re.compile(r"\^\((\w+(?:\|\w+)*)\)\$")
"""The pattern of a setting that is one of some words."""
_FORMS = {
    r"^[A-Za-z0-9_.+-]{0,128}$": "at most 128 letters, digits, '_', '.', '+' and '-'",
    r"^[A-Za-z0-9_.-]*$": "letters, digits, '_', '.' and '-'",
    r"^\S{1,8}$": "1 to 8 characters without spaces",
    r"^(\S{32,256})?$": "32 to 256 characters without spaces",
}
"""Patterns of other texts, in words."""
_OF_NUMBERS = ("int_", "float_", "bool_", "greater_", "less_", "finite_")
"""Beginnings of pydantic's types of errors about numbers and switches."""


class SettingRow(Message):
    """One setting as `sexton settings show` prints it; passwords are masked."""

    key: str
    value: str
    source: str
    unit: str = ""
    bound: str = ""
    mutable: bool = False
    """Whether ``sexton settings set`` may change it."""
    overrides: str = ""
    """The value that this one of the database replaces, and its source."""

    @property
    def amount(self) -> str:
        """The value as people write it: ``7d``, ``1.5 GiB``; with another unit as it is."""
        return amount(self.value, self.unit)


def amount(value: Any, unit: str) -> str:
    """Return a number of seconds or bytes as people write it; another value as it is."""
    if unit == "seconds":
        return duration(int(value))
    return human_bytes(int(value)) if unit == "bytes" else str(value)


def rows(settings: BaseModel, sources: list[Layer] | None = None) -> list[SettingRow]:
    """Return every setting with its value, its source, its unit, and its bounds and default.

    ``sources``: the layers of the settings, the one with the highest precedence first; None: those of this process.
    """
    return list(_walk(settings, "", layers() if sources is None else sources))


def sentence(problem: ErrorDetails, sources: list[Layer], known_keys: Sequence[str]) -> str:
    """Return one problem as a sentence. The value of an unknown key is not shown: it may be a secret.

    ``sources``: as for ``rows``. ``known_keys``: names that a key may have, to suggest one for a misspelt key.
    """
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    if problem["type"] == "value_error":  # about the key that it names and that was set with the highest precedence
        mentioned_keys = {f"{key}.{word}" for word in re.findall(r"\w+", problem["msg"])}
        key = next((name for layer in sources for name in layer.sources if name in mentioned_keys), key)
    source = _source(key, sources)
    if problem["type"] == "extra_forbidden":
        return f"{key} ({source}) is not a setting; {_suggestion(path, known_keys)}"
    if problem["type"] == "missing":
        return f"{key} is missing; set it in the same place."
    is_number = problem["type"].startswith(_OF_NUMBERS)
    shown = masked(str(problem["input"])) if is_number and not _SECRET.search(key) else _shown(key, problem["input"])
    value = "" if isinstance(problem["input"], dict) else f" = {shown}"
    return f"{key}{value} ({source}) {_fault(problem)}"


def _suggestion(path: list[str], known_keys: Sequence[str]) -> str:
    """Return what to do about an unknown key."""
    for section, _, name in (key.rpartition(".") for key in known_keys if len(path) == 1):
        if section.isidentifier() and path[0] in (name, f"{section}_{name}"):
            variable = f"SEXTON_{section.upper()}__{name.upper()}, with two underscores after the section"
            return f"it is {section}.{name}: write {variable}, or {name} below [{section}] in a file."
    similar = difflib.get_close_matches(".".join(path), known_keys, 1)
    return f"did you mean {similar[0]}?" if similar else "remove it; `sexton settings show` lists the keys."


def _fault(problem: ErrorDetails) -> str:
    """Return what is wrong with a value, and the remedy."""
    bounds = problem.get("ctx", {})
    match problem["type"]:
        case "int_parsing":
            name = str(problem["loc"][-1])
            units = " of bytes, or 512 MiB, 1.5 GiB" if name.endswith("_bytes") else ", in digits"
            units = " of seconds, or 30m, 12h, 7d, 2w" if name.endswith(("_second", "_seconds")) else units
            return f"is not allowed: write a whole number{units}."
        case "float_parsing":
            return "is not allowed: write a number."
        case "bool_parsing":
            return "is not allowed: write true or false."
        case "string_pattern_mismatch" if str(bounds["pattern"]).endswith(_PORT):
            return "is not allowed: write HOST:PORT."
        case "string_pattern_mismatch" if words := _WORDS.fullmatch(bounds["pattern"]):
            return f"is not allowed: write {words[1].replace('|', ' or ')}."
        case "string_pattern_mismatch" if form := _FORMS.get(bounds["pattern"]):
            return f"is not allowed: write {form}."
        case "greater_than_equal":
            return f"is below its floor of {bounds['ge']}; set {bounds['ge']} or more."
        case "greater_than":
            return f"must be more than {bounds['gt']}."
        case "less_than_equal":
            return f"is above its ceiling of {bounds['le']}; set {bounds['le']} or less."
        case _:
            return f"is not allowed: {problem['msg'].removeprefix('Value error, ')}."


def _shown(key: str, value: Any) -> str:
    """Return a value for people: ``***`` unless it is empty, a number or a switch, or its key may be shown."""
    if value is None or isinstance(value, bool | int | float) or not value:
        return str(value)
    is_public = key in SHOWN or any(group.fullmatch(key) for group in (_SHOWN_IN_GROUPS, _KAFKA, _SPARK))
    return masked(str(value)) if is_public and not _SECRET.search(key) else "***"


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
                    yield SettingRow(key=name, value=_shown(name, entry), source=_source(name, sources))
        else:
            unit, shown, source = unit_of(field), _shown(key, value), _source(key, sources)
            bounds = [f"floor {amount(m.ge, unit)}" for m in field.metadata if isinstance(m, Ge)]
            bounds += [f"more than {m.gt}" for m in field.metadata if isinstance(m, Gt)]
            bounds += [f"ceiling {amount(m.le, unit)}" for m in field.metadata if isinstance(m, Le)]
            if not field.is_required():
                bounds.append(f"default {amount(field.default, unit)}" if field.default != "" else "default empty")
            bound, mutable = ", ".join(bounds), is_mutable(key)
            yield SettingRow(key=key, value=shown, source=source, unit=unit, bound=bound, mutable=mutable)


def _source(key: str, sources: list[Layer]) -> str:
    """Return the source with the highest precedence that sets the key, or any key of a section."""
    prefix, kafka, librdkafka_key = key.partition("kafka.")  # a variable's name has no dots
    variable_key = f"{prefix}{kafka}{librdkafka_key.replace('.', '_')}"
    for layer in sources:
        for name, source in layer.sources.items():
            if name in (key, variable_key) or name.startswith(f"{key}."):
                return source
    return "default"


PER_INSTANCE, FOR_ALL = having(Trait.EACH), having(Trait.ALL)
"""Settings that the database may change for each instance, ``kinds.NAME.retention_seconds`` too; and for all alone.

Only those that change the course of work are here: they change for all workers at once and without a restart.
Addresses, secrets, sizes of pools, and bounds that limit other parties are not: a party that can write to the database
must not be able to change them.
"""

_OF_KIND = re.compile(r"kinds\.([^.]+)\.retention_seconds")


def kind_of(key: str) -> str | None:
    """Return the kind whose retention a key sets, or None."""
    match = _OF_KIND.fullmatch(key)
    return match[1] if match else None


def is_mutable(key: str) -> bool:
    """Return whether the database may change a setting."""
    return key in PER_INSTANCE or key in FOR_ALL or kind_of(key) is not None


def is_per_instance(key: str) -> bool:
    """Return whether a setting may differ between instances."""
    return key in PER_INSTANCE or kind_of(key) is not None
