"""The page of the museum names each exhibit once."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_exhibit_is_on_the_page() -> None:
    named = re.findall(r"\(\.\./tests/museum/(test_\w+\.py)\)", (ROOT / "docs" / "museum.md").read_text())
    exhibits = [path.name for path in (ROOT / "tests" / "museum").glob("test_*.py")]

    assert sorted(named) == sorted(exhibits)
    assert len(exhibits) >= 26
