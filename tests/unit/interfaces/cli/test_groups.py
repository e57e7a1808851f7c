"""Commands: documentation, examples, panels, whole summaries, uniform words, and answers to wrong words and errors."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

import sexton
from sexton.interfaces.cli.groups import HINTS, PlanGroup, all_commands, unknown_command
from sexton.interfaces.cli.main import WRONG_USAGE, _explained, root, run
from sexton.operations.registry import operations

ROOT: Any = root()
PATHS = ["sexton", *all_commands(ROOT.commands)]
SOURCE = Path(sexton.__file__).parent
NAMED = re.compile(r"""\bsexton ([a-z][^.,;:`\n()'"<]*)""")


def help_of(path: str) -> str:
    """Return the help of a command, as a terminal of 80 columns shows it."""
    command, context = ROOT, ROOT.make_context("sexton", [], resilient_parsing=True, terminal_width=80)
    for word in path.split()[1:]:
        command = command.commands[word]
        context = command.make_context(word, [], parent=context, resilient_parsing=True, terminal_width=80)
    return str(command.get_help(context))


def test_every_operation_is_a_command_or_only_for_programs() -> None:
    of_programs = {name for name, operation in operations().items() if not operation.is_for_people}

    assert {f"sexton {name}" for name in operations().keys() - of_programs} - set(PATHS) == set()
    assert [typed for typed in HINTS if f"sexton {typed}" in PATHS] == []


def test_help_is_whole_spelled_uniformly_and_shows_an_example() -> None:
    for path in PATHS:
        text = help_of(path)
        usage = text.split("\n\n")[0]

        assert max(map(len, text.splitlines())) <= 80, path
        assert "..." not in text.replace(usage, "").replace("TOPIC...", "").replace("KEY]...", "").replace(
            "VALUE]...", ""
        ), path
        assert not re.search(r"[{}<>]|\[\[|\b[a-z]+\b", usage.removeprefix(f"Usage: {path}")), path
        assert "9223372036854775807" not in text, path
        assert "-h, --help" in text, path
        is_group = any(other.startswith(f"{path} ") for other in PATHS)
        assert is_group or f"Example: {path}" in text, "end its docstring with one: Example: sexton wal list"


def texts_of(source: Path) -> Iterator[str]:
    """Yield the texts of a module, or that of a template, with a blank in place of each value."""
    whole = source.read_text()
    if source.suffix == ".html":
        yield re.sub(r"{{.*?}}|{%.*?%}", " ", whole)
        return
    for node in ast.walk(ast.parse(whole)) if NAMED.search(whole) else ():
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else " " for part in parts)


def test_every_text_names_commands_that_exist() -> None:
    sources = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html")]
    texts = {found for source in sources for text in texts_of(source) for found in NAMED.findall(text)}
    wrong = []
    for text in sorted(texts):
        command, words = ROOT, text.split()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if isinstance(command, PlanGroup):
            command = command.commands[command.default_command]
        is_group = hasattr(command, "commands")
        no_word = is_group and words[:1] and (words[0] in HINTS if command is ROOT else re.match("[a-z]", words[0]))
        options = {"--help", *(option for p in command.params for option in (*p.opts, *p.secondary_opts))}
        if no_word or (not options.issuperset(re.findall(r" (--[a-z][a-z-]+)", text)) and not is_group):
            wrong.append(text)

    assert len(texts) > 100
    assert wrong == []


ANSWERS = {
    ("", "holds"): "sexton hold list",
    ("", "calls"): "sexton log",
    ("", "audit"): "sexton deletions ROUND",
    ("", "observe"): "sexton instance observe",
    ("", "sttus"): "sexton status",
    ("", "instances"): "sexton instance",
    ("", "xyzzy"): "See: sexton --help",
    ("hold", "table"): "sexton hold add",
    ("lists", "list"): "sexton lists show",
    ("round", "lst"): "sexton round list",
}


def test_a_wrong_word_is_answered_with_the_command() -> None:
    for (group, word), answer in ANSWERS.items():
        context = ROOT.make_context("sexton", [], resilient_parsing=True)
        if group:
            context = ROOT.commands[group].make_context(group, [], parent=context, resilient_parsing=True)
        assert answer in unknown_command(context, word)


USAGES = {
    "apply PLAN": "it must be a whole number\n",
    "hold release first": "'HOLD': it must be a whole number\n",
    "apply": "Missing argument 'PLAN'.\n",
    "log --last 0": "it must be greater than or equal to 1\n",
    "trial advance -1h": "No such option: -1 (no value may be negative)\n",
    "plan shoow 1": "There is no sexton plan shoow. Did you mean: sexton plan show?\n",
}


def test_wrong_usage_is_answered_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, says in USAGES.items():
        monkeypatch.setattr(sys, "argv", ["sexton", *line.split()])
        code = run()

        error = capsys.readouterr().err
        assert (code, error[-len(says) :]) == (WRONG_USAGE, says)
        assert "Input should" not in error


def test_unreachable_database_has_not_answered() -> None:
    for message, begin in {
        "connection failed: Connection refused": "cannot reach the database",
        "connection timeout expired": "cannot reach the database",
        "permission denied for table mark": "the database answered",
    }.items():
        error = OperationalError("SELECT 1", None, psycopg.OperationalError(message))
        assert _explained(error) == f"{begin}: {message}"
