"""Compare what a command printed with --json with the model of its operation's result."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from sexton.interfaces.cli.operations import FOLLOWED
from sexton.interfaces.cli.tree import WORDS
from sexton.operations.registry import declared_in


def check_json(words: Sequence[str], printed: str) -> None:
    """Raise if a command printed something else than its operation returns; others are not judged."""
    if "--json" not in words or not printed or (kind := result_of(tuple(words))) is None:
        return
    value = json.loads(printed)
    adapter = TypeAdapter[Any](kind)
    assert adapter.dump_python(adapter.validate_json(printed), mode="json", by_alias=True) == value


@cache
def result_of(words: tuple[str, ...]) -> Any:
    """Return the type of what the operation that these words begin with returns; None: none is known, or nothing."""
    text = " ".join(words) + " "
    if not words or words[0] not in WORDS:
        return None
    fitting = [o for o in declared_in(WORDS[words[0]].operations) if text.startswith(f"{o.name} ")]
    operation = max(fitting, key=lambda o: len(o.name), default=None)
    streams = "--follow" in words or "--since" in words
    if operation is None or operation.name in FOLLOWED or (operation.name == "log" and streams):
        return None
    return operation.result
