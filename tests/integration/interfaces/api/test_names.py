"""Every value has one name in JSON, whether the API or a command prints it."""

from typing import Any

from sexton.interfaces.api.app import describe
from tests.servers.api import Api

VAGUE = {"since", "until", "at", "now", "cutoff", "oldest", "first_seen", "next_due"}
"""Names that say neither that a value is an instant nor its unit."""


def _numbers(schemas: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the class and the name of each whole number in schemas."""
    found = set()
    for name, of_class in schemas.items():
        for field, value in of_class.get("properties", {}).items():
            if "integer" in (value.get("type"), *(kind.get("type") for kind in value.get("anyOf", ()))):
                found.add((name, field))
    return found


def test_instants_and_numbers_have_names_that_say_what_they_are(api: Api) -> None:
    answers = describe(api.app)["components"]["schemas"]
    numbers = _numbers(answers)
    vague = {(cls, name) for cls, name in numbers if name in VAGUE or name.endswith("_since") or name == "id"}

    assert vague == {("Region", "until")}  # an entry id of a log
