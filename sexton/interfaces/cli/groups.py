"""Groups of commands: help in panels, an answer to a wrong word, and a group that has a command by default."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from sexton.interfaces.cli.hints import HINTS
from sexton.interfaces.cli.output import want_json

OTHERS = "Commands"
"""The panel of commands that name none; printed first."""
WHOLE = 10_000
"""Characters of a summary: none is cut."""
MAX_SUGGESTIONS = 4
WITHOUT_JSON = ("up", "api")
"""Commands that serve until Ctrl-C."""


def _json_option() -> Any:
    """Return the option --json, which no function has as a parameter."""

    def template(
        _json: Annotated[
            bool,
            typer.Option(
                "--json", help="Print JSON for programs.", expose_value=False, is_eager=True, callback=want_json
            ),
        ] = False,
    ) -> None:
        pass

    one_command = typer.Typer(add_completion=False)
    one_command.command()(template)
    return typer.main.get_command(one_command).params[0]


class SextonGroup(typer.core.TyperGroup):
    """A group of commands: each has --json, help is grouped by panel, and an unknown word is answered."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, command in self.commands.items():
            if not hasattr(command, "commands") and name not in WITHOUT_JSON:
                command.params.append(_json_option())

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write the commands of each panel with their whole summaries, which are folded and never cut."""
        panels: dict[str, list[tuple[str, str]]] = {OTHERS: []}
        for name, command in self.commands.items():
            if not command.hidden:
                panel = getattr(command, "rich_help_panel", None) or OTHERS
                panels.setdefault(panel, []).append((name, command.get_short_help_str(WHOLE)))
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
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)


def unknown_command(ctx: Any, word: str) -> str:
    """Return the message about an unknown word: the commands that were probably meant."""
    path = ctx.command_path
    typed = f"{path} {word}".split(maxsplit=1)[1]
    if hint := HINTS.get(typed):
        return f"There is no sexton {typed}. Run: {hint}"
    if others := _suggestions(ctx, word):
        return f"There is no sexton {typed}. Did you mean: {', '.join(others)}?"
    return f"There is no sexton {typed}. See: {path} --help"


def _suggestions(ctx: Any, word: str) -> Sequence[str]:
    """Return commands that are spelled like the word here, then commands elsewhere that end with it."""
    path = ctx.command_path
    similar = [f"{path} {name}" for name in get_close_matches(word, ctx.command.commands)]
    forms = {word, word.removesuffix("s"), f"{word}s"}
    same = [p for p in all_commands(ctx.find_root().command.commands) if p.split()[-1] in forms]
    return list(dict.fromkeys([*similar, *same]))[:MAX_SUGGESTIONS]


def all_commands(commands: Mapping[str, Any], path: str = "sexton") -> Iterator[str]:
    """Yield each command and group as it is typed."""
    for name, command in commands.items():
        yield f"{path} {name}"
        yield from all_commands(getattr(command, "commands", {}), f"{path} {name}")
