"""Groups of commands: help in panels, answers to wrong words in plain ones, and a group that has a default command."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import typer

_HOLDS = {f"hold {scope}": f"sexton hold add INSTANCE --{scope} …" for scope in ("table", "mark", "prefix")}

HINTS = _HOLDS | {
    "holds": "sexton hold list; everything that blocks deletions: sexton blockers",
    "calls": "sexton log",
    "audit": "sexton deletions ROUND",
    "round objects": "sexton deletions ROUND",
    "lists list": "sexton lists show",
    "plan --list": "sexton plan list",
    "plan --reject": "sexton plan reject PLAN --reason TEXT",
    "plan apply": "sexton apply PLAN",
    "plan approve": "sexton apply PLAN",
    "approve": "sexton apply PLAN",
    "reject": "sexton plan reject PLAN --reason TEXT",
    "instance enable": "sexton enable INSTANCE",
    "disable": "sexton instance observe INSTANCE",
    "instance disable": "sexton instance observe INSTANCE",
    "mark": "sexton marks list",
    "delete": "sexton plan new INSTANCE, then: sexton apply PLAN",
    "gc": "sexton round run INSTANCE; of binlogs: sexton binlog gc",
    "run": "sexton round run INSTANCE",
    "round start": "sexton round run INSTANCE",
    "round stop": "sexton round cancel INSTANCE; to stop deletion: sexton stop INSTANCE --reason TEXT",
    "pause": "sexton round pause INSTANCE; no more rounds: sexton schedules pause --reason TEXT",
    "resume": "sexton round resume INSTANCE; after a stop: sexton start INSTANCE",
    "cancel": "sexton round cancel INSTANCE",
    "restore": "sexton undelete INSTANCE; after a restore of the database: sexton after-restore --reason TEXT",
    "pace clear": "sexton vault uncap INSTANCE VAULT",
    "blacklist": "sexton lists add blacklist INSTANCE --reason TEXT",
    "whitelist": "sexton lists add whitelist INSTANCE",
    "window": "sexton lists add windows 'mon-fri 22:00-06:00 UTC'",
    "wal skip-flush": "sexton wal now TOPIC",
    "check reset-baseline": "sexton check rebase INSTANCE --reason TEXT",
    "settings list": "sexton settings show",
    "explain": "sexton why KEY|ID",
    "history": "sexton log",
    "version": "sexton --version",
    "help": "sexton --help",
}
"""What is typed behind `sexton` → what to type instead."""

NOT_TEXT = "a word of the command has bytes that are no text here; use a UTF-8 locale, e.g. LC_ALL=C.UTF-8"


def plain_usage(message: str) -> str:
    """Return a message of the parser about wrong usage in plain words."""
    if re.fullmatch(r"No such option: -[0-9]", message):
        return f"{message} (no value may be negative)"
    message = message.replace("Value error, ", "").replace("Input should be ", "it must be ")
    message = message.replace("a valid integer, unable to parse string as an integer", "a whole number")
    return message.replace("a valid number, unable to parse string as a number", "a number")


OTHERS = "Commands"
"""The panel of commands that name none; printed first."""
EMERGENCIES = "Emergencies"
"""The panel of commands for a disaster: after a restore, a loss, a wrong bulk change."""
WHOLE = 10_000
"""Characters of a summary: none is cut."""
MAX_SUGGESTIONS = 4
PLACEHOLDERS = {"str": "TEXT", "int": "N", "int range": "N", "integer range": "N", "float": "N", "path": "FILE"}
"""Sort of an option's value → the word for it in the help."""
LARGEST = re.compile(r"<=(9223372036854775807|461168601842738790[34])")
"""The upper end of a range that only means: a number of 64 bits."""


def spell_uniformly(param: Any) -> None:
    """Let the help name each argument in capitals, an optional one in brackets, and each option's value by its sort."""
    is_option, record = param.param_type_name == "option", param.get_help_record
    word = re.sub(r"[][….]", "", param.metavar or param.name).upper()
    if not is_option:
        word = word if param.required else f"[{word}]"
        word = f"{word}..." if param.nargs == -1 else word
        param.get_usage_pieces = lambda _: [word]
        param.get_error_hint = lambda *_: f"'{word.strip('[].')}'"

    def spelled(ctx: Any) -> tuple[str, str] | None:
        if (pair := record(ctx)) is None:
            return None
        name, text = pair
        for sort, placeholder in PLACEHOLDERS.items():
            name = name.replace(f"<{sort}>", placeholder)
        return name if is_option else word, LARGEST.sub("", text)

    param.get_help_record = spelled


class SextonGroup(typer.core.TyperGroup):
    """A group of commands: help is grouped by panel, and an unknown word is answered."""

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write the commands of each panel with their whole summaries, which are folded and never cut."""
        panels: dict[str, list[tuple[str, str]]] = {OTHERS: []}
        for name, command in self.commands.items():
            if not command.hidden:
                panel = getattr(command, "rich_help_panel", None) or OTHERS
                panels.setdefault(panel, []).append((name, command.get_short_help_str(WHOLE)))
        panels[EMERGENCIES] = panels.pop(EMERGENCIES, [])  # the last one
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, or fail with the commands that may be meant."""
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(unknown_command(ctx, args[0]))
        return super().resolve_command(ctx, args)


class PlanGroup(SextonGroup):
    """A group in which a word that is no command is the argument of ``new``: `sexton plan shop`."""

    default_command = "new"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command where no command is named."""
        for word in args:
            if word not in self.commands and (hint := HINTS.get(f"plan {word}")):
                ctx.fail(f"There is no {ctx.command_path} {word}. Run: {hint}")
        if len(args) > 1 and args[0] not in self.commands and not any(word.startswith("-") for word in args[:2]):
            ctx.fail(unknown_command(ctx, args[0]))  # `plan new` takes one word
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)


def unknown_command(ctx: Any, word: str) -> str:
    """Return the message about an unknown word: the commands that were probably meant."""
    path = ctx.command_path
    typed = f"{path} {word}".split(maxsplit=1)[1]
    if hint := HINTS.get(typed):
        return f"There is no sexton {typed}. Run: {hint}"
    # Commands that are spelled like the word here, then commands elsewhere that end with it.
    similar = [f"{path} {name}" for name in get_close_matches(word, ctx.command.commands)]
    forms = {word, word.removesuffix("s"), f"{word}s"}
    same = [p for p in all_commands(ctx.find_root().command.commands) if p.split()[-1] in forms]
    if others := list(dict.fromkeys([*similar, *same]))[:MAX_SUGGESTIONS]:
        return f"There is no sexton {typed}. Did you mean: {', '.join(others)}?"
    return f"There is no sexton {typed}. See: {path} --help"


def all_commands(commands: Mapping[str, Any], path: str = "sexton") -> Iterator[str]:
    """Yield each command and group as it is typed."""
    for name, command in commands.items():
        yield f"{path} {name}"
        yield from all_commands(getattr(command, "commands", {}), f"{path} {name}")
