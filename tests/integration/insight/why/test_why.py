"""`sexton why` explains an object in each state of its mark: live, held, due, claimed, deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from sexton.contract import NewMark
from sexton.insight.why.audit import SHOWN, forgotten
from sexton.marks.model import SECOND_PASS, FilePage, Ref
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.owner import CatalogOwner
from sexton.owners.catalog.tables import create
from sexton.owners.plugin import OwnerContext
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import FAR_MS, claim, token
from tests.support.rig import Rig, put
from tests.support.stories import stories_of
from tests.support.transactions import owner_write

KEY = "data/9/a.dat"


@pytest.fixture
def worker(rig: Rig, tmp_path: Path) -> Iterator[Rig]:
    """A worker that writes its audit into vault ``disk``."""
    made = Rig(rig.url, audit=ParquetAudit(AuditLocations(rig.vaults, rig.registry.vaults), 400))
    put(made.local(tmp_path / "v"), KEY)
    yield made
    made.db.close()


def events(rig: Rig, what: str) -> dict[str, str]:
    """Return the one story's events: name → text."""
    [one] = stories_of(rig, what)
    return {e.event: e.text for e in one.events}


def due(rig: Rig, **more: object) -> None:
    rig.mark("dropped", NewMark(id="9", vault="disk", **({"prefix": "data/9/"} | more)))  # type: ignore[arg-type]
    rig.later(10_801)


def awaiting(rig: Rig, *, since: int = 0, cutoff: int = FAR_MS, lasts_ms: int = 86_400_000) -> int:
    """Store a plan for what is dropped that waits for a person."""
    with rig.db.write() as c:
        now = rig.db.now(c)
        kinds = (KindPlan(kind="dropped", cutoff=cutoff, since=since, marks=1),)
        body = Plan(instance="shop", created_at=now, policy=rig.policy, kinds=kinds).model_dump()
        values = {"instance": "shop", "created_at": now, "state": "PLANNED", "planned_by": "round", "body": body}
        values |= {"policy_version": "v", "awaits": "1 object is over the limit", "expires_at": now + lasts_ms}
        return int(c.execute(insert(rig.db.t.plan).values(**values).returning(rig.db.t.plan.c.id)).scalar_one())


def test_n5_a_mark_shows_which_live_row_keeps_it(worker: Rig) -> None:
    with owner_write(worker.db) as c:
        c.execute(text("CREATE TABLE live (kind text, id text, vault text, key text)"))
        c.execute(text("CREATE VIEW sexton_live AS SELECT * FROM live"))
        c.execute(text(f"INSERT INTO live VALUES ('rowset', '12', 'disk', '{KEY}')"))
    unmarked = events(worker, KEY)
    due(worker)

    [kept] = [e.text for told in stories_of(worker, KEY) for e in told.events if e.text.startswith("kept: its owner")]

    assert unmarked == {"live": f"live: rowset 12, {KEY} in vault disk"}
    assert kept == f"kept: its owner lists it as live: rowset/12 shows {KEY}"


def test_a_mark_shows_its_owner_parent_and_due_time(worker: Rig) -> None:
    worker.prepare("9", ttl=3_600)
    worker.mark("dropped", NewMark(id="part", vault="disk", keys=("data/part",), parent=("table", "t12")))
    worker.mark("dropped", NewMark(id="tab", vault="disk", keys=("data/tab",), parent=("dropped", "part")))

    prepared, below = events(worker, KEY), events(worker, "data/tab")

    assert "by transaction load: prefix data/9/ in vault disk" in prepared["marked"]
    assert {"expires", "falls_due"} <= prepared.keys()
    assert below["below"] == "parents: dropped part, table t12"


def test_a_catalog_key_leads_to_its_tablet_and_rowset(worker: Rig) -> None:
    for kind, id_ in (("tablet", "12"), ("compacted", "ab-1"), ("tablet", "ab-1")):
        worker.mark(kind, NewMark(id=id_, vault="disk", keys=(f"other/{id_}",)))

    of_another_owner = stories_of(worker, "data/12/ab-1_0.dat")
    worker.sql("UPDATE {}instance SET owner = 'catalog', knows_live = true")
    create(worker.db)
    worker.owner = CatalogOwner(OwnerContext(worker.db, worker.registry))
    of_the_catalog = stories_of(worker, "data/12/ab-1_0.dat")

    assert of_another_owner == []
    assert sorted((s.kind, s.id) for s in of_the_catalog) == [("compacted", "ab-1"), ("tablet", "12")]


def test_a_held_or_fenced_mark_is_shown_so_with_the_way_out(worker: Rig) -> None:
    due(worker)
    held, _ = worker.holds.place(
        Hold(instance="shop", scope="prefix", vault="disk", prefix="data/9/a", reason="audit"), 3_600
    )

    found = events(worker, KEY)

    assert found.keys() >= {"due", "hold", "hold_ends", "next_round"}
    assert f"sexton hold release {held.id}" in found["hold"]
    worker.holds.release(held.id)
    worker.sql("UPDATE {}mark SET state = 'FENCED'")
    assert events(worker, KEY).keys() >= {"fenced", "due", "next_round"}


def test_a_mark_awaiting_approval_shows_its_plan_and_no_other(worker: Rig) -> None:
    due(worker)
    for over in ({"since": FAR_MS - 1}, {"cutoff": 1}, {"lasts_ms": 0}):
        awaiting(worker, **over)
        before = events(worker, KEY)
        assert "awaits_approval" not in before, over
        assert "next_round" in before
    plan = awaiting(worker)

    found = events(worker, KEY)

    waits = f"kept: plan {plan}, which contains it, awaits approval: 1 object is over the limit"
    assert found["awaits_approval"] == waits
    assert "approval_ends" in found
    assert "next_round" not in found


def test_a_claimed_mark_shows_batch_round_plan_and_outcome(worker: Rig) -> None:
    due(worker, prefix=None, keys=(KEY, "data/9/b.dat"))
    with_ = token(worker)
    claim(worker, with_, "dropped", "9")
    denied = KeyResult("data/9.dat", KeyOutcome.FAILED, "AccessDenied: no")
    worker.stores.outcomes.record(with_, FilePage("disk", [1], ["data/9.dat"]), [denied])

    found, other = events(worker, "data/9.dat"), events(worker, "9")

    assert f"claimed in batch {with_.batch}, round {with_.round}" in found["claimed"]
    assert "irrevocable" in found["claimed"]
    assert found["file_failed"] == other["file_failed"] == "file data/9.dat in vault disk: failed: AccessDenied: no"
    worker.sql("UPDATE {}mark SET absorbed = true")
    assert "together with its parent" in events(worker, KEY)["claimed"]


def test_a_file_deleted_with_the_parent_shows_its_outcome(worker: Rig) -> None:
    with_ = token(worker, "tablet")
    late = token(worker, "(late)", number=1)
    at = worker.now()
    gone = {"instance": "shop", "kind": "compacted", "id": "r1", "parent_kind": "tablet", "parent_id": "9"}
    gone |= {"vault": "disk", "keys": [KEY], "objects": 0, "bytes": 0, "marked_at": at, "round": with_.round}
    worker.insert("mark_history", **gone, claimed_at=at, gone_at=at, batch=late.batch)
    row = AuditRow(at, "shop", with_.round, with_.batch, 1, "tablet", "9", "disk", KEY, 10, "deleted", "")
    ParquetAudit(AuditLocations(worker.vaults, worker.registry.vaults), 400).write([row])

    assert events(worker, KEY)["object_deleted"].startswith(f"gone: {KEY} in vault disk deleted")


def test_a_deleted_object_is_shown_also_by_the_audit_alone(worker: Rig) -> None:
    due(worker, prefix=None, keys=(KEY, "data/9/none"))
    report = worker.round()

    gone, never = events(worker, KEY), events(worker, "data/9/none")

    assert gone.keys() == {"marked", "claimed", "object_deleted", "gone"}
    assert gone["object_deleted"].startswith(f"gone: {KEY} in vault disk deleted, 10 bytes, batch ")
    assert gone["object_deleted"].endswith(f"round {report.round}")
    assert never.keys() == {"marked", "claimed", "object_absent", "gone"}
    worker.sql("DELETE FROM {}mark_history")
    audit = AuditReader(worker.db, AuditLocations(worker.vaults, worker.registry.vaults))
    [one] = forgotten(audit, ["shop"], {KEY}, 0, FAR_MS)
    [by_id] = forgotten(audit, ["shop"], {"9"}, 0, FAR_MS)
    assert stories_of(worker, KEY) == []
    assert (one.kind, one.id, by_id.kind, by_id.id) == ("dropped", "9", "dropped", "9")
    assert len(by_id.events) == 2
    assert one.events[0] in by_id.events
    assert f"round {report.round}" in one.events[0].text


def test_a_second_pass_keeps_the_batch_and_plan_of_the_claim(worker: Rig, tmp_path: Path) -> None:
    due(worker)
    plan = worker.rounds.plans.plan_for_operator("shop", worker.policy, "cli").id
    worker.approve(plan)
    opened = worker.rounds.open("shop", "applies", plan, worker.policy)
    worker.round(plan=plan, run="applies")
    batch = worker.row("dropped", "9").batch
    put(tmp_path / "v", "data/9/late.dat")
    worker.later(3_601)
    worker.stores.due_marks.take_second_pass(token(worker, SECOND_PASS, run="dies"), Ref("", ""), 10, 0)

    swept, taken = events(worker, KEY), worker.row("dropped", "9").batch
    last = worker.round(after=61)
    finished = worker.round(after=3_601)  # it found an object: it looks once more
    gone, late = events(worker, KEY), events(worker, "data/9/late.dat")

    claimed = f"claimed in batch {batch}, round {opened.round}, plan {plan} applied by anna"
    assert taken != batch
    assert (swept["claimed"], gone["claimed"]) == (f"{claimed}; irrevocable", claimed)
    assert {"swept", "last_look"} <= swept.keys()
    assert swept["object_deleted"] == gone["object_deleted"]
    assert late["object_deleted"].endswith(f"round {last.round}")
    assert gone["gone"] == f"gone: 2 objects, 20 bytes, finished in round {finished.round}"


def test_a_mark_in_a_capped_vault_shows_the_cap(worker: Rig, tmp_path: Path) -> None:
    worker.local(tmp_path / "w", "other")
    due(worker)
    PaceStore(worker.db).put_cap("other", 7)
    before = events(worker, KEY)
    PaceStore(worker.db).put_cap("disk", 1_500)

    waits = events(worker, KEY)
    worker.round()
    swept = events(worker, KEY)

    paced = "deletion in its vault is capped at 1,500 keys/s; see: sexton pace"
    assert "paced" not in before
    assert (waits["paced"], swept["paced"]) == (paced, paced)


def test_many_objects_are_summed_and_an_unread_audit_is_named(worker: Rig, tmp_path: Path) -> None:
    for n in range(SHOWN):
        put(tmp_path / "v", f"data/9/{n}.dat")
    worker.mark("dropped", NewMark(id="other", vault="disk", keys=("data/none",)))
    due(worker)
    worker.round()

    found = events(worker, "9")
    (tmp_path / "v").rename(tmp_path / "unmounted")
    unread = events(worker, "data/none")

    assert found["objects_deleted"].startswith(f"{SHOWN + 1} objects deleted in batch ")
    assert found["objects_deleted"].endswith(f"{10 * (SHOWN + 1)} bytes")
    assert "object_deleted" not in found
    assert unread.keys() == {"marked", "claimed", "audit_unread", "gone"}
    assert "NO_" in unread["audit_unread"]
