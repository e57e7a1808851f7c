"""Compare what a command printed with --json with the published schema of docs/cli-schema.json."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import typer

from sexton.interfaces.cli.json_shapes import LINES, OTHERS
from sexton.interfaces.cli.main import app

SCHEMA = Path(__file__).parents[2] / "docs" / "cli-schema.json"


LISTS_OR_CHANGES = ("pace",)
"""Commands that list something without arguments, and change something with them."""


def check_json(words: Sequence[str], printed: str) -> None:
    """Raise if a command printed something else than the schema has for it; commands without --json are not judged."""
    if "--json" not in words or not printed:
        return
    path = command_of(words)
    variants = [f"{path} {word}" for word in words if word.startswith("--")]
    if not set(LINES).isdisjoint([path, *variants]):
        return
    known = [name for name in [*variants, path] if name in schema()["commands"]]
    value = json.loads(printed)
    lists = known and not (path in LISTS_OR_CHANGES and "actions" in value)
    validator(known[0] if lists else OTHERS).validate(value)


def command_of(words: Sequence[str]) -> str:
    """Return the command that these words begin with, without `sexton`."""
    command: Any = typer.main.get_command(app)
    path: list[str] = []
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
        path.append(word)
    return " ".join([*path, "new"] if path == ["plan"] else path)


@cache
def validator(command: str) -> Any:
    """Return what compares a value with the schema of a command; the schema itself is checked once, not at each use."""
    of_command = schema()["commands"][command] | {"$defs": schema()["$defs"]}
    kind = jsonschema.validators.validator_for(of_command)
    kind.check_schema(of_command)
    return kind(of_command)


@cache
def schema() -> dict[str, Any]:
    """Return the published schema, whose objects have no other keys than it names."""
    published: dict[str, Any] = json.loads(SCHEMA.read_text())
    for definition in [*published["commands"].values(), *published["$defs"].values()]:
        if "properties" in definition:
            definition["additionalProperties"] = False
    return published
