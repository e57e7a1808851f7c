"""What a workflow shows in the Temporal UI has no markup and no control character of a name or an error."""

from pathlib import Path

import pytest

from workflows.details import plain

WORKFLOWS = Path(__file__).parents[3] / "workflows"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-wal: 3 of 4 pages", "orders-wal: 3 of 4 pages"),
        ("http://n/[log in](https://x.example)", r"http://n/\[log in\](https://x.example)"),
        ("![](https://x.example/pixel)", r"\!\[\](https://x.example/pixel)"),
        ("**PURGED** `all` <b>", r"\*\*PURGED\*\* \`all\` \<b\>"),
        ("\x1b[2J\x1b]0;x\x07", r" \[2J \]0;x "),
        ("first\n\n# second\r\u2028third", r"first \# second third"),
        ("\u202eevil\x85&lt;", r" evil \&lt;"),
        ("a\\*", r"a\\\*"),
    ],
)
def test_details_show_text_as_it_is(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_every_workflow_shows_its_details_this_way() -> None:
    callers = [file.name for file in WORKFLOWS.glob("*.py") if "set_current_details" in file.read_text()]

    assert callers == ["details.py"]
