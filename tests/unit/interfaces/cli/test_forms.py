"""Durations, quantities, sizes and times are read and printed in one form; forms of results name values of items."""

import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from sexton.insight.views import KindStatus
from sexton.insight.wording import (
    duration,
    first_line,
    freed,
    human_bytes,
    kept_counts,
    marked,
    quantity,
    retention,
    shown_names,
    time_left,
    utc,
    utc_column,
)
from sexton.interfaces.cli.operations import valid
from sexton.interfaces.cli.render.tables import COMPUTED, FORMS
from sexton.kernel.errors import WrongUsage
from sexton.operations.fields import parse_duration
from sexton.operations.registry import operations
from sexton.replication.binlog.model import GcReport, LogRetention
from sexton.wal.messages import PurgeReport


def test_a_duration_has_a_number_and_a_unit() -> None:
    assert [parse_duration(text) for text in ("30m", "1.5h", "7d", "2w")] == [1_800, 5_400, 604_800, 1_209_600]
    for text in ("", "d", "7y", "-1d", "7d ", "1000000000d"):
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration(text)


WRONG = [
    ("hold add", {"seconds": "7", "reason": "x"}, "--for: 7 of what"),
    ("binlog set", {"db": "sales", "ttl_seconds": "7"}, "--ttl: 7 of what"),
    ("binlog set", {"db": "sales/orders", "ttl_seconds": "7d"}, "DB does not fit: The database; a table is a word"),
    ("token create", {"scope": "reader"}, "--scope does not fit: One of read, read@I"),
    ("hold add", {"mark": "t12", "seconds": "7d", "reason": "x"}, "--mark does not fit: write KIND/ID; A mark, e.g."),
    ("hold add", {"seconds": "7d", "reason": " "}, "--reason is empty; write a few words"),
    ("token create", {"scope": "admin", "note": "a\nb"}, "--note has characters that are not allowed"),
]


def test_a_value_that_does_not_fit_is_wrong_usage() -> None:
    for name, given, says in WRONG:
        with pytest.raises(WrongUsage, match=re.escape(says)):
            valid(operations()[name], given)


def test_a_reason_is_trimmed_and_is_always_text() -> None:
    stop = operations()["stop"]
    assert valid(stop, {"reason": "  a drill\udcff "})["reason"] == "a drill?"
    with pytest.raises(WrongUsage, match="--reason is empty"):
        valid(stop, {"reason": " "})


QUANTITIES: dict[tuple[Any, ...], str] = {
    (1, "mark"): "1 mark",
    (2_000, "mark"): "2,000 marks",
    (0, "entry", "entries"): "0 entries",
}
BYTES = {0: "0 B", 1_023: "1023 B", 1_536: "1.5 KiB", 5 * 2**40: "5.0 TiB", 2**52: "4096.0 TiB"}
FREED = {(0, 0): "0 B", (2_048, 0): "2.0 KiB", (0, 3): "unknown", (2_048, 1_234): "2.0 KiB + 1,234 unknown"}
TTLS = {None: "forever", 0: "0 s", 3_600: "1h", 5_400: "90m"}
TIMES_LEFT = {
    None: "",
    0: ", about 0 s left",
    89.4: ", about 89 s left",
    600: ", about 10 min left",
    9_000: ", about 2.5 h left",
}


def test_values_are_printed_with_their_units() -> None:
    assert {given: quantity(*given) for given in QUANTITIES} == QUANTITIES
    assert {given: human_bytes(given) for given in BYTES} == BYTES
    assert {given: freed(*given) for given in FREED} == FREED
    assert {given: duration(given) for given in TTLS} == TTLS
    assert {given: time_left(given) for given in TIMES_LEFT} == TIMES_LEFT
    assert (utc(None), utc(0), utc_column(61_000)) == ("-", "1970-01-01 00:00:00 UTC", "1970-01-01 00:01")
    assert (first_line("one\ntwo"), first_line("one"), first_line("")) == ("one …", "one", "")
    assert (kept_counts({"b": 1, "a": 2}), kept_counts({})) == ("2 by a, 1 by b", "nothing")


def test_a_retention_names_every_limit() -> None:
    limits = LogRetention(ttl_seconds=90, max_bytes=1_024, max_history_nums=1_000)

    assert retention(limits) == "records are kept for 90 s, no more than 1,000 of them, no more than 1.0 KiB"
    assert retention(LogRetention(ttl_seconds=None)) == "records are kept forever"
    assert retention(LogRetention(ttl_seconds=7 * 86_400)) == "records are kept for 7d"


def test_a_status_names_its_columns_for_people() -> None:
    names = ["kind", "marked", "waiting_is", "due", "due_bytes", "oldest_at", "next_due_at", "note"]

    assert list(shown_names(KindStatus).values()) == names


def test_a_number_of_marks_says_how_it_was_counted() -> None:
    exact, about, least = (
        KindStatus(kind=how.replace(" ", "-"), waiting=1_000, waiting_is=how, due=0, due_bytes=0, oldest_at=None)
        for how in ("exact", "about", "at least")
    )
    texts = [marked(kinds) for kinds in ([], [exact], [exact, about], [exact, about, least])]

    assert texts == ["0", "1,000", "about 2,000", "at least 3,000"]
    assert COMPUTED["KindStatus"](about, None) == {"marked": "about 1,000", "waiting_is": ""}


COMPUTED_NAMES = {
    "blockers": {"why_/_way_out"},
    "ListedMark": {"due", "files"},
    "quarantine list": {"mark"},
    "round list": {"deleted", "freed", "note"},
    "check list": {"progress"},
    "worker builds": {"of"},
    "wal list": {"last_purged_entry_id", "entries", "about_bytes", "state"},
    "wal purges": {"last_purged_entry_id", "last_entry_id_then"},
    "wal explain": {"last_purged_entry_id", "the_log"},
    "wal purge": {"last_purged_entry_id", "not_asked"},
    "RegionLag": {"state", "last_entry_id"},
    "protection list": {"objects"},
    "binlog list": {"kept_for", "state"},
    "LogCutPreview": {"rule", "first", "bytes"},
    "Consumer": {"state"},
    "JournalEntry": {"what"},
    "KindReport": {"freed"},
    "KindVaultCounts": {"freed"},
}
"""Form → the shown names that are computed, and no fields."""
REPORTS = {"wal purge": PurgeReport, "binlog gc": GcReport}
"""Operations whose command prints the report of what they started."""


def subclasses(of: Any) -> Iterator[Any]:
    for cls in of.__subclasses__():
        yield cls
        yield from subclasses(cls)


def models_in(annotation: Any) -> list[Any]:
    """Return the models that an annotation names, perhaps as one of several or as an item."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in models_in(part)]


def shown_by(form: str) -> Any:
    """Return the class of what a form shows."""
    if form in operations():
        result = REPORTS.get(form) or operations()[form].result
        return models_in(result.model_fields["items"].annotation)[0] if "items" in result.model_fields else result
    return next(cls for cls in subclasses(BaseModel) if cls.__name__ == form)


def has(cls: Any, path: str) -> bool:
    """Return whether objects of a class have such a value."""
    name, _, rest = path.partition(".")
    if (field := cls.model_fields.get(name)) is None:
        return isinstance(getattr(cls, name, None), property)
    return not rest or any(has(model, rest) for model in models_in(field.annotation))


def test_a_form_names_only_what_there_is() -> None:
    for form, text in FORMS.items():
        cls = shown_by(form)
        unknown = {word.partition("=")[0] for word in text.split() if not has(cls, word.rpartition("=")[2])}

        assert unknown <= COMPUTED_NAMES.get(form, set()), form
