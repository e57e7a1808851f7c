"""The published schema of --json is that of the code, and follows its rules. `--write` renews the file."""

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer

from sexton.interfaces.cli.groups import all_commands
from sexton.interfaces.cli.json_shapes import SHAPES, schema
from sexton.interfaces.cli.main import app

DOCS = Path(__file__).parents[3] / "docs"
FILE = DOCS / "cli-schema.json"


def generated() -> str:
    return json.dumps(schema(), indent=1) + "\n"


def test_the_published_schema_is_that_of_the_code() -> None:
    assert FILE.read_text() == generated(), "renew it: python -m tests.unit.project.test_cli_json --write"


def test_every_shape_belongs_to_a_command() -> None:
    paths = [path.removeprefix("sexton ") for path in all_commands(typer.main.get_command(app).commands)]

    assert [name for name in SHAPES if name.split(" --")[0] not in paths] == []


def test_every_command_that_prints_an_object_names_its_shape() -> None:
    commands = leaves(typer.main.get_command(app).commands)
    printing = [path for path, command in commands if re.search(r"\bemit(_list|_object)?\(", source_of(command))]

    assert len(printing) > 30
    assert [path for path in printing if path not in SHAPES] == [], "add a line to SHAPES in json_shapes.py"


def leaves(commands: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in commands.items():
        below = getattr(command, "commands", None)
        if below is None:
            yield f"{path}{name}", command
        else:
            yield from leaves(below, f"{path}{name} ")


def source_of(command: Any) -> str:
    """Return the source of a command's function, which --json has wrapped."""
    callback = command.callback
    return inspect.getsource(callback.args[0] if isinstance(callback, partial) else callback)


def test_every_list_has_items_and_more_and_nothing_else_has() -> None:
    commands = schema()["commands"]
    found = {path: {"items", "more"} & set(commands[path].get("properties", {})) for path in SHAPES}

    assert found == {path: {"items", "more"} if shape.is_list else set() for path, shape in SHAPES.items()}


def test_keys_are_snake_case_and_instants_end_in_at() -> None:
    keys = {key for definition in schema()["$defs"].values() for key in definition.get("properties", {})}

    assert [key for key in keys if not re.fullmatch("[a-z][a-z0-9_]*", key)] == []
    assert keys.isdisjoint({"at", "since", "oldest", "cutoff", "next_due", "now"})


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FILE.write_text(generated())
