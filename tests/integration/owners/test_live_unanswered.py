"""A live view whose computation no time limit of PostgreSQL ends: its session is closed, and nothing waits for it."""

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, text

from sexton.database import live_engine
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_sessions, live_side, owner
from tests.integration.owners.test_live_limits import MARK, why
from tests.servers.proxy import slow_proxy
from tests.support.eventually import eventually
from tests.support.rig import Rig
from tests.support.transactions import owner_write

DIVISIONS = " + ".join(["(a % b)"] * 80)
"""Some seconds of one expression, which PostgreSQL does not end at a time limit."""
COMPUTING = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()"
)


@pytest.fixture
def shop(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """An instance whose view computes for longer than the limit and the grace."""
    monkeypatch.setattr(live_sessions, "STATEMENT_SECONDS", 1)
    monkeypatch.setattr(live_sessions, "GRACE_SECONDS", 1)
    monkeypatch.setattr(live_side, "STATEMENT_SECONDS", 1)
    monkeypatch.setattr(owner, "SILENT_SECONDS", 0)
    rig.local(tmp_path / "v")
    with owner_write(rig.db) as c:
        c.execute(text("CREATE TABLE n (a numeric, b numeric)"))
        c.execute(text("INSERT INTO n SELECT repeat('9', 131000)::numeric, repeat('7', 65000)::numeric"))
        c.execute(
            text(
                "CREATE VIEW sexton_live AS SELECT 'file'::text kind, 'i'::text id, 'disk'::text vault, "
                f"'k'::text AS key FROM n WHERE ({DIVISIONS}) > 0"
            )
        )
    yield rig
    _wait_until_idle(rig)


def _wait_until_idle(rig: Rig) -> None:
    def is_idle() -> bool:
        with rig.db.read() as c:
            return c.execute(text(COMPUTING)).first() is None

    eventually("the query of the view has ended", is_idle)


@pytest.mark.slow
def test_a_session_without_an_answer_is_closed(shop: Rig) -> None:
    with pytest.raises(OwnerSilent, match="the session was closed"):
        shop.owner.live("shop", [MARK], lambda: None)

    with shop.db.read() as c:
        assert c.execute(text(COMPUTING)).first() is not None  # nothing waited for the end of the query


@pytest.mark.slow
def test_no_further_query_begins_while_one_computes(shop: Rig) -> None:
    checked = shop.check()
    assert "the session was closed" in " ".join(checked.run.missing_inputs)

    for answer in (why(shop), " ".join(shop.check().run.missing_inputs)):
        assert "still computes an earlier query" in answer
    with pytest.raises(OwnerSilent, match="still computes an earlier query"):
        shop.owner.live_objects("shop")


@pytest.mark.slow
def test_a_view_is_read_again_after_its_query_has_ended(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OwnerSilent, match="the session was closed"):
        shop.owner.live("shop", [MARK], lambda: None)
    _wait_until_idle(shop)
    shop.sql("TRUNCATE public.n")
    monkeypatch.setattr(live_sessions, "STATEMENT_SECONDS", 60)

    assert shop.owner.live("shop", [MARK], lambda: None) == {}


def test_a_process_that_ignores_its_limit_is_ended(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql("TRUNCATE public.n")
    url = shop.url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url) as planted:
        pid = planted.info.backend_pid
        planted.execute("SET statement_timeout = 100")
        planted.pgconn.send_query(
            b"DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(600);"
            b" EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$"
        )
        planted.pgconn.flush()
        shop.db.computing["shop"] = (pid, time.monotonic())

        with pytest.raises(OwnerSilent, match=f"process {pid} of PostgreSQL still computes"):
            shop.owner.live("shop", [MARK], lambda: None)
        _wait_until_idle(shop)
        planted.close()
    monkeypatch.setattr(live_sessions, "STATEMENT_SECONDS", 60)

    assert shop.owner.live("shop", [MARK], lambda: None) == {}


def test_a_later_process_of_the_same_number_is_not_ended(rig: Rig) -> None:
    url = rig.url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url) as later:
        rig.db.computing["shop"] = (later.info.backend_pid, time.monotonic() - 60)

        with live_sessions.reading(rig.db, "shop") as c:
            assert c.execute(text("SELECT 1")).scalar_one() == 1
        assert later.execute("SELECT 1").fetchone() == (1,)


def test_an_error_message_is_not_read_without_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_engine, "MOST_BYTES", 1_000_000)
    url = make_url(rig.url)
    # Bytes are counted between reads of the socket: slower ones than the server's make sure that there are several.
    with slow_proxy((str(url.host), url.port or 0), pause_seconds=0.01) as (host, port):
        slow = url.set(drivername="postgresql", host=host, port=port).render_as_string()
        with live_engine.LiveSession.connect(slow) as c, pytest.raises(live_engine.NoAnswer, match="more than 1,000,0"):
            c.execute("SELECT CAST(repeat('x', 100000000) AS integer)")
