"""What a person or a program can ask of Sexton, as a record: commands, routes, and names in the log of calls.

A change of a door shows as a change of the record: `make generated` renews it.
"""

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from config.settings import Settings
from sexton.database.engine import Database
from sexton.interfaces.api import app as api
from sexton.interfaces.cli.main import root
from sexton.interfaces.console.app import pages as console_pages
from sexton.operations.registry import operations

ROOT = Path(__file__).parents[3]
FILE = ROOT / "tests" / "doors.json"
NAMING = {"Deed": 0, "log_call": 1, "cli_call": 0}
"""Function → the position of its argument that is a name in the log of calls."""


def commands() -> dict[str, list[str]]:
    """Return each command with its arguments and options: ``*`` marks one that must be given."""
    return {path: [_parameter(p) for p in command.params] for path, command in _leaves(root())}


def _leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, below in command.commands.items():
        if hasattr(below, "commands"):
            yield from _leaves(below, f"{path}{name} ")
        else:
            yield f"{path}{name}", below


def _parameter(parameter: Any) -> str:
    names = "/".join(parameter.opts) if parameter.param_type_name == "option" else parameter.metavar or parameter.name
    return f"{names}{'*' if parameter.required else ''}"


def routes() -> dict[str, str]:
    """Return each route of the API: its parameters of the query, its body and its answer."""
    settings = Settings(deployment="test-doors", database_url="postgresql://sexton@127.0.0.1/sexton")
    document = api.create(settings, Database.open(settings.database_url)).openapi()
    return {
        f"{method.upper()} {path}": _route(route)
        for path, methods in document["paths"].items()
        for method, route in methods.items()
    }


def _route(route: Mapping[str, Any]) -> str:
    query = [p["name"] + ("*" if p["required"] else "") for p in route.get("parameters", ()) if p["in"] == "query"]
    body = _model(route.get("requestBody", {}))
    [(status, answer)] = [(s, a) for s, a in route["responses"].items() if s.startswith("2")]
    return f"?{' '.join(query)} {body} -> {status} {_model(answer)}"


def _model(place: Mapping[str, Any]) -> str:
    schema = next(iter(place.get("content", {}).values()), {}).get("schema", {})
    return json.dumps(schema).replace("#/components/schemas/", "") if schema else "-"


def pages() -> list[str]:
    """Return the pages and forms of the console."""
    return sorted(f"{m} {r.path}" for r in console_pages.routes for m in r.methods)  # type: ignore[attr-defined]


def log_names() -> list[str]:
    """Return the names under which calls are recorded, as far as they are written out."""
    names = {name for name, operation in operations().items() if operation.record.changes}
    for path in sorted((ROOT / "sexton" / "interfaces").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMING:
                position = NAMING[node.func.id]
                if len(node.args) > position:
                    names.add(ast.unparse(node.args[position]).strip("'"))
    return sorted(names)


def record() -> str:
    """Return the record as JSON, a line for each door."""
    parts = {"commands": commands(), "routes": routes(), "pages": pages(), "log": log_names()}
    return json.dumps(parts, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_the_record_of_doors_is_that_of_the_code() -> None:
    assert FILE.read_text() == record(), "renew it: make generated"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FILE.write_text(record())
