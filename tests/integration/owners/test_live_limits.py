"""A live view that computes without an end, or that its owner has locked, is unreadable; nothing waits for it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from sexton.check.model import RunState
from sexton.contract import NewMark
from sexton.database import engine
from sexton.database.engine import OPTIONS
from sexton.insight.metrics.figures.store import FigureStore
from sexton.insight.status import overview
from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.story import story
from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.interfaces.cli.doctor.stored import examine_roles, examine_work
from sexton.marks.model import DueMark, Ref
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_reading, owner
from tests.integration.owners.views import COLUMNS, execute
from tests.support.kept import kept_texts
from tests.support.rig import INTERVAL, Rig, listing, put, service_of, stores_of

ENDLESS = "'file'::text AS kind, g::text AS id, 'disk'::text AS vault, 'k'::text AS key FROM generate_series(1, 1e15) g"
SILENT_SECONDS = owner.SILENT_SECONDS
"""As in production: the fixture of this folder sets it to 0."""
TOO_SLOW = "did not answer within 2 s|was read for 2 s without an end"
"""Which of the two ends it first depends on the machine."""
MARK = DueMark("dropped", "m", 0, "disk", None, ("data/a",), 0)


def set_limits(monkeypatch: pytest.MonkeyPatch, statement: int, lock: int) -> None:
    """Limit statements that read a view, and their waits for locks, to so many seconds."""
    monkeypatch.setattr(live_reading, "STATEMENT_SECONDS", statement)
    monkeypatch.setattr(owner, "STATEMENT_SECONDS", statement)
    monkeypatch.setattr(engine, "OPTIONS", re.sub(r"lock_timeout=\d+", f"lock_timeout={lock * 1000}", OPTIONS))


@pytest.fixture
def shop(rig: Rig, tmp_path: Path) -> Rig:
    """An instance with a due mark of one file."""
    put(rig.local(tmp_path / "v"), "data/a")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("data/a",)))
    rig.later(10_801)
    return rig


@pytest.fixture
def locked(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """The instance's view reads a table that an open transaction of the owner has locked."""
    set_limits(monkeypatch, 60, 1)
    execute(shop, f"CREATE TABLE live ({COLUMNS})", "CREATE VIEW sexton_live AS SELECT * FROM live")
    connection = psycopg.connect(shop.url.replace("postgresql+psycopg", "postgresql"))
    connection.execute("LOCK TABLE public.live IN ACCESS EXCLUSIVE MODE")
    yield shop
    connection.close()


def endless(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, 2, 1)
    execute(shop, f"CREATE VIEW sexton_live AS SELECT {ENDLESS}")


def live_objects(shop: Rig) -> DoctorFinding:
    (finding,) = [found for found in examine_work(service_of(shop.db)) if found.about == "live objects"]
    return finding


def why(shop: Rig) -> str:
    stores = stores_of(shop.db)
    context = WhyContext(shop.policy, stores.insight, stores.owners, stores.audit)
    stories = story(shop.db, "data/a", "shop", context)
    return " ".join(event.text for told in stories for event in told.events)


@pytest.mark.slow
def test_an_endless_view_keeps_everything_and_is_named(
    shop: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless(shop, monkeypatch)

    report, checked = shop.round(), shop.check()

    assert listing(tmp_path / "v") == {"data/a": 10}
    assert any(re.search(TOO_SLOW, kept) for kept in kept_texts(report))
    assert checked.run.state is RunState.PARTIAL
    assert re.search(TOO_SLOW, " ".join(checked.run.missing_inputs))
    assert re.search(TOO_SLOW, why(shop))


def test_many_slow_statements_end_with_their_transaction(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_reading, "LOOK_SECONDS", -1)
    execute(shop, "CREATE VIEW sexton_live AS SELECT ''::text kind, ''::text id, ''::text vault, ''::text AS key")

    with pytest.raises(OwnerSilent, match="without an end"):
        ask(shop)


@pytest.mark.slow
def test_a_locked_view_keeps_everything_and_is_named(locked: Rig, tmp_path: Path) -> None:
    report, checked = locked.round(), locked.check()

    assert listing(tmp_path / "v") == {"data/a": 10}
    assert any("is locked by a transaction of its owner" in kept for kept in kept_texts(report))
    assert "is locked" in " ".join(checked.run.missing_inputs)
    assert "is locked" in why(locked)
    finding = live_objects(locked)
    assert (finding.state, "shop keeps every mark: the live view is locked" in finding.detail) == ("FAIL", True)
    assert "correct the view" in finding.todo


def ask(worker: Rig) -> Mapping[Ref, str]:
    """Ask a worker's owner whether the mark is live."""
    return worker.owner.live("shop", [MARK], lambda: None)


def test_a_view_that_is_slow_is_not_read_again_soon(locked: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = {silent_seconds: Rig(locked.url) for silent_seconds in (0, 300)}
    for silent_seconds, worker in workers.items():
        monkeypatch.setattr(owner, "SILENT_SECONDS", silent_seconds)
        with pytest.raises(OwnerSilent, match="is locked"):
            ask(worker)
    locked.sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted")
    set_limits(monkeypatch, 60, 60)

    assert ask(workers[0]) == {}
    with pytest.raises(OwnerSilent, match=r"is locked.*a worker reads it again 300 s later"):
        ask(workers[300])
    for worker in workers.values():
        worker.db.close()


def test_a_view_that_fails_late_is_not_read_again_soon(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "'file'::text kind, id, 'disk'::text vault, (1 / bytes)::text AS key FROM live"
    execute(shop, "CREATE TABLE live (id text, bytes bigint)", "INSERT INTO live VALUES ('x', 0)")
    execute(shop, f"CREATE VIEW sexton_live AS SELECT {rows}")
    monkeypatch.setattr(owner, "SLOW_SECONDS", 1_000)
    monkeypatch.setattr(owner, "SILENT_SECONDS", SILENT_SECONDS)
    with pytest.raises(OwnerSilent, match="division by zero"):
        ask(shop)
    finding = live_objects(shop)
    execute(shop, "UPDATE live SET bytes = 1")
    mended = ask(shop)
    execute(shop, "UPDATE live SET bytes = 0")
    monkeypatch.setattr(owner, "SLOW_SECONDS", 0)
    with pytest.raises(OwnerSilent, match="division by zero"):
        ask(shop)
    execute(shop, "UPDATE live SET bytes = 1")

    assert (finding.state, "shop keeps every mark" in finding.detail) == ("FAIL", True)
    assert "division by zero" in finding.detail
    assert mended == {}
    with pytest.raises(OwnerSilent, match=r"division by zero.*a worker reads it again 300 s later"):
        ask(shop)
    assert stores_of(shop.db).owners.live("shop", [MARK], lambda: None) == {}


def test_a_locked_view_stops_no_other_instance_nor_command(locked: Rig, tmp_path: Path) -> None:
    locked.instance("other")
    put(locked.local(tmp_path / "w", instance="other"), "data/b")
    locked.registry.set_live_view("other", "none")
    locked.mark("dropped", NewMark(id="n", vault="disk", keys=("data/b",)), instance="other")
    locked.later(10_801)
    stores = stores_of(locked.db)

    assert locked.round("other").deleted == 1
    assert len(overview(locked.db, stores.insight, locked.policy, 1).instances) == 2
    assert len(FigureStore(locked.db, stores.insight, locked.policy, INTERVAL).read().instances) == 2
    assert examine_roles(stores).detail


def test_a_long_error_of_a_view_is_cut(shop: Rig) -> None:
    execute(
        shop,
        "CREATE TABLE live (id text)",
        "INSERT INTO live VALUES ('x')",
        "CREATE VIEW sexton_live AS SELECT 'file'::text kind, id, 'disk'::text vault, id AS key FROM live "
        "WHERE repeat(id, 5000000)::bigint > 0",
    )

    with pytest.raises(OwnerSilent, match="invalid input syntax") as silence:
        ask(shop)

    error: BaseException | None = silence.value
    while error is not None:
        assert len(str(error)) < 5_000  # with the statement
        error = error.__cause__
    (kept,) = kept_texts(shop.round())
    assert len(kept) < 1_000
