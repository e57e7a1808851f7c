"""Audit files have reproducible names at the configured place and return their rows unchanged."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.recycle.audit import model, writer
from sexton.recycle.audit.model import AuditRow, AuditUnreadable

NOON = 20_000 * model.DAY_MS + 43_200_000
ODD_KEYS = ("data/é", "data/e\u0301", "data/\U0001f600", "data/a b+c%20", "data/n\nn", "data/\uffee", "data/'q\"")


def row(key: str, *, at: int = NOON, seq: int = 1, outcome: str = "deleted", reason: str = "") -> AuditRow:
    return AuditRow(at, "shop", 7, 3, seq, "dropped", "t1", "disk", key, None, outcome, reason)


def test_the_same_rows_written_later_that_day_have_the_same_name() -> None:
    early, late = [row("a"), row("b")], [row("a", at=NOON + 60_000, seq=9), row("b", at=NOON + 60_000, seq=10)]

    name = model.file_name(early)

    assert name == model.file_name(late)
    assert name.startswith("audit/shop/2024-10-04/round-7/batch-3-")
    assert model.parse(name, 5) == model.AuditFile(name, 5, "2024-10-04", 7, 3)


def test_other_objects_or_outcomes_have_another_name() -> None:
    failed = row("b", outcome="failed")

    for other in ([row("a")], [row("a"), row("c")], [row("a"), failed], [row("a\0b")]):
        assert model.file_name(other) != model.file_name([row("a"), row("b")])
    for foreign in ("audit/shop/notes.txt", "probe/x", "audit/shop/2024-10-04/round-7/batch-3-.parquet"):
        assert model.parse(foreign, 1) is None


def test_days_run_from_one_instant_to_another_over_midnight() -> None:
    assert list(model.days(NOON, NOON + model.DAY_MS)) == ["2024-10-04", "2024-10-05"]
    assert list(model.days(NOON, NOON)) == ["2024-10-04"]


PLACES = {
    "s3://archive": ("s3", "archive", "d-1/"),
    "s3://archive/sexton/audit/": ("s3", "archive", "sexton/audit/d-1/"),
    "file:///srv/au%20dit": ("local", "/srv/au dit", "d-1/"),
    "/srv/audit": ("local", "/srv/audit", "d-1/"),
}
MALFORMED = (
    *("s3://", "s3:///x", "file://host/x", "file:///", "/", "https://a/b", "audit", "s3://b/a//c", "s3://b/../c"),
    *("s3://b/wh/_sexton/x", "/srv/wh/_sexton", "/srv/../etc", "file:///srv/_sexton/audit"),  # in a vault
)


def test_audit_url_has_a_folder_for_each_deployment() -> None:
    specs = {url: spec for url in PLACES if (spec := model.separate_location(url, "d-1"))}

    assert {url: (spec.kind, spec.location, spec.prefix) for url, spec in specs.items()} == PLACES
    assert model.separate_location("", "d-1") is None
    for url in MALFORMED:
        with pytest.raises(BadInput):
            model.separate_location(url, "d-1")


def test_file_returns_its_rows_unchanged() -> None:
    rows = [row(key, seq=n, outcome="failed", reason=f"AccessDenied: {key}") for n, key in enumerate(sorted(ODD_KEYS))]
    rows[0] = rows[0]._replace(bytes=2**40)

    assert list(writer.decode(writer.encode(rows), "f")) == rows


def test_search_returns_only_the_rows_of_the_name() -> None:
    keys = sorted([f"data/{n:05d}" for n in range(2 * writer.GROUP_ROWS + 1)] + list(ODD_KEYS))
    data = writer.encode([row(k)._replace(id=f"of {k}") for k in keys])

    for key in (keys[0], keys[-1], keys[writer.GROUP_ROWS], *ODD_KEYS):
        assert [r.key for r in writer.decode(data, "f", {key})] == [key]
        assert [r.key for r in writer.decode(data, "f", {f"of {key}"})] == [key]
    assert list(writer.decode(data, "f", {"data/00001x", "a", "z"})) == []


def test_a_damaged_file_is_named() -> None:
    for data in (b"", b"PAR1 no more than that PAR1", writer.encode([row("a")])[:-20]):
        with pytest.raises(AuditUnreadable, match=r"file audit/x\.parquet of the log of deletions cannot be read"):
            list(writer.decode(data, "audit/x.parquet"))
