"""A view is read by COPY: any text arrives as it is, and a read that does not end is no shorter view."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from sexton.check import columns
from sexton.check.model import CheckRequest, RunState
from sexton.database import rows
from sexton.kernel.errors import SextonError
from sexton.marks.live import MOST_KEY, MOST_SHOWN, LiveEntry, names_prefix
from sexton.owners.port import OwnerSilent
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.owners.views import execute
from tests.support.eventually import eventually

ODD = (
    *("a,b", 'a"b', '""', '"', "a\nb", "a\r\nb\r", "\\.", "\\N", "a\\nb", "a\tb", " a ", "null", "NULL", "NaN", "t"),
    *("\ufeffbom", "\u2028", "é", "e\u0301", "雪", "\U0001f9f9", "\x01\x7f", "%s %(x)s %% :y", "a'b", "$1", "-- x"),
    *("1", "x" * 1_024),
)
SHOWN = "f.kind, f.id, f.vault, f.key, f.bytes FROM file f"


def read(owned: Owned) -> Iterator[LiveEntry]:
    """Yield the entries of the live side."""
    with owned.live_side.snapshot("shop") as moment:
        for part in moment.parts:
            for page in filter(len, owned.live_side.read("shop", moment.name, part)):
                fields = (columns.records(page)[name].to_pylist() for name in LiveEntry._fields)
                yield from itertools.starmap(LiveEntry, zip(*fields, strict=True))


def show(owned: Owned, query: str) -> None:
    """Let the view show the rows of a query."""
    execute(owned, "DROP VIEW sexton_live", f"CREATE VIEW sexton_live AS SELECT {query}")


def test_texts_of_any_form_arrive_as_they_are(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BLOCK_BYTES", 300)  # a few rows each
    with owned.db.write() as c:
        for n, odd in enumerate(ODD):
            row = {"k": odd, "n": str(n), "key": f"d/{odd}", "b": n if n % 2 else None}
            c.execute(text("INSERT INTO public.file VALUES (:k, :k, 'disk', :key, :b)"), row)
            c.execute(text("INSERT INTO public.file VALUES (:n, :n, :k, 'd/x.dat', NULL)"), row)

    entries = list(read(owned))

    for n, odd in enumerate(ODD):
        shown = odd[:MOST_SHOWN]
        key, size = f"d/{odd}", n if n % 2 else None
        is_key_cut = len(key.encode()) > 1_024
        record = f"{shown}/{shown}"
        is_prefix = names_prefix(key, size)
        [of_key] = [e for e in entries if e.record == record and e.vault == "disk"]
        assert (of_key.key == key or is_key_cut, of_key.bytes, of_key.prefix, of_key.live) == (
            True,
            size,
            is_prefix,
            True,
        )
        assert LiveEntry(shown, "d/x.dat", prefix=False, live=True, record=f"{n}/{n}") in entries
    assert len(entries) == 2 * len(ODD)


def test_missing_values_and_long_keys_are_read(owned: Owned) -> None:
    show(
        owned,
        "* FROM (VALUES (NULL, NULL, 'disk', 'a.dat', 1.0), ('', '', '', 'b.dat', NULL), ('f', 'x', NULL, 'c.dat', 1), "
        "('f', 'y', 'disk', NULL, 1), ('f', 'z', 'elsewhere', repeat('é', 5000), 2)) v (kind, id, vault, key, bytes)",
    )

    entries = sorted(read(owned))

    assert entries == [
        LiveEntry("", "b.dat", prefix=False, live=True, record="/"),
        LiveEntry("disk", "a.dat", prefix=False, live=True, bytes=1, record="/"),
        LiveEntry("elsewhere", "é" * MOST_KEY, prefix=False, live=True, bytes=2, record="f/z"),
    ]


@pytest.mark.parametrize(
    "row", ["('f', 'x', 'disk', '', 1)", "('f', 'x', 'disk', '/a', 1)", "('f', 'x', 'disk', 'a', 1e30)"]
)
def test_a_row_that_means_no_object_ends_the_read(owned: Owned, row: str) -> None:
    show(owned, f"* FROM (VALUES {row}) v (kind, id, vault, key, bytes)")

    with pytest.raises(OwnerSilent, match=r"in vault disk|out of range"):
        list(read(owned))


def test_the_views_own_login_reads_it_and_writes_nothing(owned: Owned) -> None:
    show(owned, "'login' AS kind, session_user::text AS id, 'disk' AS vault, 'a.dat' AS key, 1 AS bytes")
    [entry] = read(owned)
    execute(
        owned, "CREATE FUNCTION meddle() RETURNS text LANGUAGE sql AS $$ CREATE TEMP TABLE t AS SELECT 1; SELECT 'a' $$"
    )
    show(owned, "meddle() AS kind, 'x' AS id, 'disk' AS vault, 'a.dat' AS key, 1 AS bytes")

    assert entry.record == f"login/{owned.db.live_login('shop')}"
    assert entry.record != f"login/{owned.db.engine.url.username}"
    with pytest.raises(OwnerSilent, match="read-only transaction"):
        list(read(owned))


def test_a_view_that_changes_the_encoding_is_read_as_it_is(owned: Owned) -> None:
    execute(
        owned,
        "CREATE FUNCTION encoded(key text) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM set_config('client_encoding', 'LATIN1', false); RETURN key; END $$",
    )
    show(owned, "'f' AS kind, 'x' AS id, 'disk' AS vault, encoded('d/é.dat') AS key, 1 AS bytes")

    assert [entry.key for entry in read(owned)] == ["d/é.dat"]


STUBBORN = (
    "CREATE FUNCTION stubborn() RETURNS int LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..60 LOOP "
    "BEGIN PERFORM pg_sleep(2); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; RETURN 1; END $$"
)
FAILING = {
    "an error": ("CASE f.key WHEN '{last}' THEN 1 / (f.bytes - f.bytes) ELSE f.bytes END", "division by zero"),
    "a lost connection": (
        "CASE f.key WHEN '{last}' THEN pg_terminate_backend(pg_backend_pid())::int ELSE f.bytes END",
        "live view cannot be read",
    ),
    "its limit": (
        "CASE f.key WHEN '{last}' THEN length(pg_sleep(1000)::text) ELSE f.bytes END",
        "did not answer within 2 s",
    ),
    "its limit, which it ignores": (
        "CASE f.key WHEN '{last}' THEN stubborn() ELSE f.bytes END",
        "gave no answer within 3 s",
    ),
}


@pytest.mark.parametrize("how", FAILING)
def test_a_view_that_fails_at_its_end_proves_nothing(owned: Owned, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(rows, "BLOCK_BYTES", 100)
    monkeypatch.setattr("sexton.owners.sql.owner.STATEMENT_SECONDS", 2)
    monkeypatch.setattr("sexton.owners.sql.live_reading.GRACE_SECONDS", 1)
    execute(owned, STUBBORN)
    keys = file_keys(40)
    owned.write_live(*keys)
    owned.write_old("data/t9/r7_0.dat")
    assert owned.check().run.state is RunState.WHOLE
    size, error = FAILING[how]
    show(owned, f"f.kind, f.id, f.vault, f.key, {size.format(last=keys[-1])} AS bytes FROM file f")

    report = owned.check()

    assert report.run.state is RunState.PARTIAL
    assert error in " ".join(report.run.missing_inputs)
    assert (report.found, report.confirmed) == ({"ORPHAN": 1}, {})
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'"
    owned.sql(ended.format(owned.db.live_login("shop")))
    show(owned, SHOWN)
    assert owned.check().run.state is RunState.WHOLE


def test_a_cancelled_read_leaves_no_session_behind(owned: Owned) -> None:
    owned.live_rows(*((key, 10) for key in file_keys(1_000)))
    show(owned, "a.kind, a.id, a.vault, b.key, 1 AS bytes FROM file a, file b, file c, file d")
    order: Any = owned.checker.begin(CheckRequest(instance="shop"), "a run").order
    beats = itertools.count()

    def heartbeat() -> None:
        if next(beats) > 5:
            raise SextonError("cancelled")

    with pytest.raises(SextonError, match="cancelled"):
        owned.direct.compare(order, owned.registry.vaults("shop"), heartbeat)

    login = owned.db.live_login("shop")
    with owned.db.look_up() as c:
        sessions = text("SELECT count(*) FROM pg_stat_activity WHERE usename = :login")
        eventually("the session ends", lambda: c.execute(sessions, {"login": login}).scalar_one() == 0)
