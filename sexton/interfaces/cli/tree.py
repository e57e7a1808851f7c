"""Every command of `sexton`, by panel. Its modules are imported when it is used, so that the start is quick."""

import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer

from sexton.interfaces.cli.groups import EMERGENCIES, PlanGroup, SextonGroup, spell_uniformly
from sexton.interfaces.cli.output import with_json

HERE = "sexton.interfaces.cli.commands"


class Start(NamedTuple):
    """The first word of a command. ``operations``: modules of ``sexton.operations``; ``own``: one of commands."""

    operations: tuple[str, ...] = ()
    own: str = ""


PANELS: Mapping[str, Mapping[str, Start]] = {
    "Set up": {
        "init": Start(own=f"{HERE}.init"),
        "up": Start(own=f"{HERE}.serving"),
        "instance": Start(("instances",)),
        "owner": Start(("instances",)),
        "ducklake": Start(own=f"{HERE}.ducklake"),
        "enable": Start(("instances",)),
        "vault": Start(("vaults",)),
        "schedules": Start(("workers",)),
        "settings": Start(("settings",), f"{HERE}.printing"),
        "worker": Start(("workers",), f"{HERE}.serving"),
        "api": Start(own=f"{HERE}.serving"),
        "console": Start(own=f"{HERE}.serving"),
        "contract": Start(own=f"{HERE}.init"),
        "trial": Start(("workers",)),
    },
    "Owners' records": {"catalog": Start(own=f"{HERE}.owner_operations")},
    "Inspect": {
        "status": Start(("control",)),
        "blockers": Start(("control",)),
        "why": Start(("control",)),
        "marks": Start(("marks",)),
        "deletions": Start(own=f"{HERE}.printing"),
        "log": Start(("control",), f"{HERE}.printing"),
        "check": Start(("checks", "signals"), f"{HERE}.printing"),
        "doctor": Start(own="sexton.interfaces.cli.doctor.doctor"),
    },
    "Delete": {
        "plan": Start(("plans",)),
        "apply": Start(("plans",)),
        "round": Start(("rounds", "signals")),
    },
    "Stop, hold and protect": {
        "stop": Start(("control",)),
        "start": Start(("control",)),
        "hold": Start(("holds",)),
        "lists": Start(("lists",)),
        "pace": Start(("control",)),
        "protection": Start(("protections",), f"{HERE}.protection"),
        "quarantine": Start(("marks",)),
        "token": Start(("tokens",)),
    },
    "Topics and binlogs": {
        "wal": Start(("topics", "signals")),
        "binlog": Start(("binlogs", "replicas", "signals"), f"{HERE}.printing"),
        "replica": Start(("replicas",)),
    },
    EMERGENCIES: {
        "undelete": Start(own=f"{HERE}.undelete"),
        "after-restore": Start(own=f"{HERE}.after_restore"),
    },
}
"""Panel of `sexton --help` → its words, in order; docs/commands.md has the same headings."""
WORDS = {name: word for words in PANELS.values() for name, word in words.items()}
WITHOUT_JSON = ("up", "api", "console")
"""Commands that serve until Ctrl-C."""
IN_EMERGENCY = frozenset({"check rebase", "vault trust", "wal reset", "wal assign", "wal restored"})
ABOUT = {
    "owner": "Owners: what connects a database or a lake.",
    "quarantine": "Quarantined marks.",
    "trial": "Let time pass in a trial.",
    "worker": "The workers, which execute rounds, checks and purges.",
    "schedules": "The schedule that starts due rounds.",
    "catalog": "Read or change what owner catalog keeps in Sexton's database: tables, loads, drops.",
    "wal": "Kafka topics that regions share, and how far they are purged.",
    "wal round": "The round that starts a purge for each due topic with work; the purges go on without it.",
    "wal replay": "What regions read of a topic, which is pinned until they have.",
    "contract": "The contract between Sexton and an owner's database.",
}
"""Groups whose module is also about something else → their help."""
MAX_NAMES = 100
PATIENCE_SECONDS = 0.8
COMPLETED = ("INSTANCE", "VAULT", "PLAN", "ROUND", "HOLD", "TOPIC", "TOKEN")
"""Words of the help whose values are completed, with names from the database."""


class Commands(Mapping[str, Any]):
    """The commands of `sexton` by their first word, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return load(name) if name in WORDS else WORDS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(WORDS)

    def __len__(self) -> int:
        return len(WORDS)


class Root(SextonGroup):
    """`sexton`: its help needs no module of a command."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()  # type: ignore[assignment]

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the words in the order of the panels."""
        return list(WORDS)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write the first line of each command's help, by panel."""
        for panel, words in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl([(name, about(name)) for name in words])


@cache
def load(name: str) -> Any:
    """Return the command or the group of a word."""
    cls = PlanGroup if name == "plan" else SextonGroup
    group = cls(name=name, help=about(name), no_args_is_help=name != "plan", rich_markup_mode=None)
    for path, function in functions_of(name).items():
        command = _command(path, function)
        if path == name:
            return command
        _, *between, last = path.split()
        target = group
        for word in between:
            inner = SextonGroup(name=word, help=ABOUT[f"{name} {word}"], no_args_is_help=True, rich_markup_mode=None)
            target = target.commands.setdefault(word, inner)  # type: ignore[assignment]
        target.commands[last] = command
    return group


def _command(path: str, function: Callable[..., object]) -> Any:
    """Return the command of a function, which completes names in the shell, and has --json unless it serves."""
    for parameter in inspect.signature(function).parameters.values():
        for info in get_args(parameter.annotation)[1:]:
            if (word := (getattr(info, "metavar", None) or parameter.name).upper()) in COMPLETED:
                info.autocompletion = completing(word)
    declared = typer.models.CommandInfo(
        path.split()[-1],
        callback=function if path in WITHOUT_JSON else with_json(function),
        rich_help_panel=EMERGENCIES if path in IN_EMERGENCY else None,
    )
    command = typer.main.get_command_from_info(declared, pretty_exceptions_short=False, rich_markup_mode=None)
    for param in command.params:
        spell_uniformly(param)
    return command


def completing(word: str) -> Callable[[str], list[str]]:
    """Return what completes the values of a parameter that the help calls so, from the database.

    It returns the names that begin as typed; none if they cannot be read within ``PATIENCE_SECONDS``.
    """

    def names(incomplete: str) -> list[str]:
        from config.settings import load
        from sexton.database.engine import Database
        from sexton.insight.marks import read_names

        found: list[str] = []

        def read() -> None:
            try:
                db = Database.open(load().require_database_url())
                found.extend(read_names(db, word, incomplete, MAX_NAMES))
            except Exception:  # noqa: BLE001 - a shell that completes shows no error
                return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(PATIENCE_SECONDS)
        return list(found)

    return names


def functions_of(name: str) -> dict[str, Callable[..., object]]:
    """Return the functions of all commands that begin with a word, by their words."""
    word = WORDS[name]
    functions: dict[str, Callable[..., object]] = {}
    if word.operations:
        from sexton.interfaces.cli.operations import command
        from sexton.operations.registry import declared_in

        for operation in declared_in(word.operations):
            if operation.name.split()[0] == name and operation.is_for_people:
                functions[operation.name] = command(operation)
    if word.own:
        functions |= {p: f for p, f in import_module(word.own).COMMANDS.items() if p.split()[0] == name}
    return functions


@cache
def about(name: str) -> str:
    """Return the first line of a word's help, from the source of its module, which is not imported."""
    if name in ABOUT:
        return ABOUT[name]
    word = WORDS[name]
    spec = find_spec(word.own if not word.operations else f"sexton.operations.{word.operations[0]}")
    source = Path(spec.origin or "").read_text() if spec is not None else ""
    own = "" if word.operations else rf"\ndef {name.replace('-', '_')}\("
    starts = (rf'@operation\(\s*"{name}"', own or "$", r"\A")
    found = (re.search(rf'(?s){start}.*?"""(.*?)(?:"""|\n)', source) for start in starts)
    return next((match[1] for match in found if match), "")
