"""The exported metrics equal the tables in every process: the seed's 18 and Sexton's own."""

import logging
import re
import secrets
from pathlib import Path

import pytest
from sqlalchemy import text

from config.settings import owner_policy
from sexton.contract import NewMark
from sexton.database.engine import Database
from sexton.database.tables import METADATA
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.plugin import PLUGIN
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import OpenedRound
from tests.support.planned import Limited, limited_policy
from tests.support.rig import GRACE, INTERVAL, RETENTION, Checked, Rig, put
from tests.support.scrape import collector, scrape

ARTICLE = [
    "recycler_vault_recycle_status",
    "recycler_vault_recycle_task_concurrency",
    "recycler_instance_last_round_recycled_num",
    "recycler_instance_last_round_to_recycle_num",
    "recycler_instance_last_round_recycled_bytes",
    "recycler_instance_last_round_to_recycle_bytes",
    "recycler_instance_last_round_recycle_elpased_ts",
    "recycler_instance_recycle_round",
    "recycler_instance_recycle_time_per_resource",
    "recycler_instance_recycle_bytes_per_ms",
    "recycler_instance_recycle_total_num_since_started",
    "recycler_instance_recycle_total_bytes_since_started",
    "recycler_instance_running_counter",
    "recycler_instance_last_round_recycle_duration",
    "recycler_instance_next_ts",
    "recycler_instance_recycle_start_ts",
    "recycler_instance_recycle_end_ts",
    "recycler_instance_recycle_last_success_ts",
]
"""The column *metrics name* of the article's table 4.2."""
ELAPSED_MS = 250


class Timed(Rig):
    """A rig whose rounds work 250 ms on each kind."""

    def recycle(self, opened: OpenedRound, plan: Plan, kind: KindPlan, ledger: Ledger, checked: Checked) -> None:
        super().recycle(opened, plan, kind, ledger, checked)
        ledger.add_elapsed(kind.kind, ELAPSED_MS)


@pytest.fixture
def timed(rig: Rig, tmp_path: Path) -> Timed:
    """One vault ``disk`` with 100 bytes under a dropped mark, 50 under a compacted one that is held."""
    made = Timed(rig.url)
    root = made.local(tmp_path / "v")
    put(root, "data/1/a.dat", 30)
    put(root, "data/1/b.dat", 70)
    put(root, "data/2/a.dat", 50)
    made.mark("dropped", NewMark(id="d1", vault="disk", keys=("data/1/a.dat", "data/1/b.dat"), bytes=120))
    made.mark("compacted", NewMark(id="c1", vault="disk", keys=("data/2/a.dat",), bytes=50))
    made.holds.place(Hold(instance="shop", scope="mark", mark_kind="compacted", mark_id="c1", reason="look"), 864_000)
    made.later(10_801)
    return made


def test_all_18_seed_metrics_have_the_figures_computed_by_hand(timed: Timed) -> None:
    report = timed.round()

    s = scrape(timed)
    assert len(ARTICLE) == 18
    assert {name for name in s.names() if name.startswith("recycler_")} == set(ARTICLE)
    dropped = {"instance_id": "shop", "resource_type": "dropped"}
    held = {"instance_id": "shop", "resource_type": "compacted"}
    assert s("recycler_instance_last_round_recycled_num", **dropped) == 1
    assert s("recycler_instance_last_round_to_recycle_num", **dropped) == 1
    assert s("recycler_instance_last_round_recycled_bytes", **dropped) == 100
    assert s("recycler_instance_last_round_to_recycle_bytes", **dropped) == 120
    assert s("recycler_instance_last_round_recycle_elpased_ts", **dropped) == ELAPSED_MS
    assert s("recycler_instance_recycle_time_per_resource", **dropped) == ELAPSED_MS
    assert s("recycler_instance_recycle_bytes_per_ms", **dropped) == 100 / ELAPSED_MS
    assert s("recycler_instance_last_round_to_recycle_num", **held) == 1
    assert s("recycler_instance_last_round_recycled_num", **held) == 0
    assert s("recycler_instance_recycle_time_per_resource", **held) == -1
    assert s("recycler_instance_recycle_bytes_per_ms", **held) == -1
    assert s("recycler_vault_recycle_status", instance_id="shop", resource_id="disk", status="normal") == 1
    assert report.started_at is not None
    assert report.ended_at is not None
    assert s("recycler_instance_recycle_start_ts", instance_id="shop") == report.started_at
    assert s("recycler_instance_recycle_end_ts", instance_id="shop") == report.ended_at
    assert s("recycler_instance_recycle_last_success_ts", instance_id="shop") == report.ended_at
    took = report.ended_at - report.started_at
    assert s("recycler_instance_last_round_recycle_duration", instance_id="shop") == took
    next_ts = s("recycler_instance_next_ts", instance_id="shop")
    assert next_ts is not None
    assert next_ts - INTERVAL * 1000 == pytest.approx(report.started_at, abs=5_000)


def test_totals_survive_a_restart_and_equal_in_each_process(timed: Timed, tmp_path: Path) -> None:
    dropped = {"instance_id": "shop", "resource_type": "dropped"}
    timed.round()
    put(tmp_path / "v", "data/3/a.dat", 11)
    timed.mark("dropped", NewMark(id="d2", vault="disk", keys=("data/3/a.dat",)))
    timed.round(after=10_801)
    timed.controls.put(ControlKind.STOP, "shop", "a look")
    other = Database.open(timed.url)

    mine, s = scrape(timed), scrape(collector(timed, db=other))
    other.close()
    assert s("recycler_instance_last_round_recycled_bytes", **dropped) == 11
    assert s("recycler_instance_recycle_total_bytes_since_started", **dropped) == 111
    assert s("recycler_instance_recycle_total_num_since_started", **dropped) == 2
    assert s("recycler_instance_recycle_round", **dropped) == 2
    assert s("sexton_freed_bytes_total", instance_id="shop", kind="dropped") == 111
    assert s("sexton_removed_marks_total", instance_id="shop", kind="dropped") == 2
    assert s("sexton_rounds_total", instance_id="shop") == 2
    assert s("sexton_freed_bytes_total", instance_id="shop", kind="prepared") == 0  # there before it counts
    # These are read some milliseconds apart; the database may change the files of its tables meanwhile.
    ages = re.compile(r"sexton_.*(age_seconds|stopped_seconds|seconds_since_success|table_bytes)")
    compared, theirs = ({k: v for k, v in one.samples.items() if not ages.fullmatch(k[0])} for one in (mine, s))
    assert compared == theirs
    assert mine.samples.keys() == s.samples.keys()


def test_due_kept_claimed_and_quarantined_marks_are_shown(timed: Timed) -> None:
    timed.mark("dropped", NewMark(id="lost", vault="nowhere", keys=("x/y.dat",)))
    timed.mark("orphan", NewMark(id="new", vault="disk", keys=("x/z.dat",)))
    timed.mark("dropped", NewMark(id="prefix", vault="disk", prefix="data/4/"))
    timed.round(after=10_801)

    s = scrape(timed)
    age = s("sexton_oldest_due_age_seconds", instance_id="shop", kind="compacted")
    assert age == pytest.approx(2 * 10_801, abs=60)
    assert s("sexton_oldest_due_age_seconds", instance_id="shop", kind="dropped") == 0  # only a quarantined one is left
    assert s("sexton_oldest_due_age_seconds", instance_id="shop", kind="orphan") == 0  # not due yet
    assert {k: s("sexton_retention_seconds", kind=k) for k in RETENTION} == RETENTION
    assert s("sexton_last_round_held_marks", instance_id="shop", holder="hold") == 1
    assert s("sexton_last_round_held_marks", instance_id="shop", holder="live") == 0
    assert s("sexton_quarantined_marks", instance_id="shop", reason="UNKNOWN_VAULT") == 1
    assert s("sexton_quarantined_marks", instance_id="shop", reason="BAD_KEY") == 0
    assert s("sexton_holds", instance_id="shop") == 1
    assert s("sexton_oldest_hold_age_seconds", instance_id="shop") == pytest.approx(2 * 10_801, abs=60)
    assert s("sexton_round_interval_seconds") == INTERVAL
    assert s("sexton_rounds_failed_in_a_row", instance_id="shop") == 0
    # A prefix that was listed waits for late uploads.
    assert s("sexton_claimed_marks", instance_id="shop", stage="upload_grace") == 1
    assert s("sexton_claimed_marks", instance_id="shop", stage="files") == 0


def test_ages_restart_at_a_success_and_stops_are_timed(rig: Rig) -> None:
    rig.instance("looker", enable=False).instance("viewless")
    rig.later(7_200)
    before = scrape(rig)
    report = rig.round()
    view = "public.sexton_live"
    for name, live_view in (("shop", view), ("looker", view), ("viewless", "none")):
        rig.registry.set_live_view(name, live_view)
    rig.controls.put(ControlKind.STOP, "shop", "a look")
    rig.later(90_000)

    after = scrape(rig)
    rig.controls.remove(ControlKind.STOP, "shop")
    running = scrape(rig)
    assert before("sexton_seconds_since_success", instance_id="shop") == pytest.approx(7_200, abs=60)
    assert before("sexton_last_success_timestamp_seconds", instance_id="shop") is None
    assert after("sexton_seconds_since_success", instance_id="shop") is None  # nothing is expected of it
    assert running("sexton_seconds_since_success", instance_id="shop") == pytest.approx(90_000, abs=60)
    assert after("sexton_last_success_timestamp_seconds", instance_id="shop") == (report.ended_at or 0) / 1000
    assert after("sexton_seconds_since_success", instance_id="looker") is None
    assert [after("sexton_instance_enabled", instance_id=i) for i in ("shop", "looker")] == [1, 0]
    assert after("sexton_stopped_seconds", instance_id="shop") == pytest.approx(90_000, abs=60)
    assert after("sexton_instance_halted", instance_id="shop", by="stop") == 1
    assert after("sexton_instance_halted", instance_id="shop", by="blacklist") == 0
    assert after("sexton_stopped_seconds", instance_id="looker") == 0
    # A check that never was complete has an age, where there is a view and the instance is enabled.
    assert after("sexton_seconds_since_complete_check", instance_id="shop") == pytest.approx(97_200, abs=60)
    assert after("sexton_seconds_since_complete_check", instance_id="viewless") is None
    assert after("sexton_seconds_since_complete_check", instance_id="looker") is None


def test_a_missing_vault_is_counted_as_a_fault_with_its_reason(timed: Timed, tmp_path: Path) -> None:
    (tmp_path / "v").rename(tmp_path / "unmounted")
    report = timed.round()

    s = scrape(timed)
    reason = report.vaults["disk"]
    assert reason != "normal"
    assert s("sexton_vault_fault", instance_id="shop", vault="disk") == 1
    assert s("recycler_vault_recycle_status", instance_id="shop", resource_id="disk", status=reason) == 1
    assert s("sexton_last_round_held_marks", instance_id="shop", holder="vault") == 2
    assert s("recycler_instance_recycle_last_success_ts", instance_id="shop") is None


def test_running_rounds_are_counted_by_their_leases(rig: Rig, root: Path) -> None:
    before = scrape(rig)
    rig.leases.acquire("shop", "recycle", "a run")
    during = scrape(collector(rig, in_flight={("shop", "disk"): 3}))
    rig.later(61)

    expired = scrape(rig)
    busy = {"instance_id": "shop", "resource_id": "disk"}
    assert [s("recycler_instance_running_counter") for s in (before, during, expired)] == [0, 1, 0]
    assert [s("recycler_vault_recycle_task_concurrency", **busy) for s in (before, during)] == [0, 3]


def test_waiting_approvals_and_unapproved_deletions_are_shown(rig: Rig, tmp_path: Path) -> None:
    shop = Limited(rig.url)
    shop.policy = limited_policy(objects=50)
    shop.local(tmp_path / "v")
    shop.garbage("dropped", 10)
    shop.round(after=10_801)
    shop.garbage("dropped", 41, "more")
    shop.round(after=10_801)
    shop.later(7_200)

    s = scrape(shop)
    shop.later(86_400)
    expired = scrape(shop)
    shop.db.close()
    assert s("sexton_approvals_waiting", instance_id="shop") == 1
    assert s("sexton_oldest_approval_age_seconds", instance_id="shop") == pytest.approx(7_200, abs=60)
    assert s("sexton_unapproved_objects", instance_id="shop") == 10
    assert s("sexton_max_delete_objects") == 50
    assert s("sexton_last_round_held_marks", instance_id="shop", holder="approval") == 41
    assert s("sexton_oldest_due_age_seconds", instance_id="shop", kind="dropped") == pytest.approx(18_001, abs=60)
    assert expired("sexton_approvals_waiting", instance_id="shop") == 0
    assert expired("sexton_oldest_approval_age_seconds", instance_id="shop") == 0
    assert expired("sexton_unapproved_objects", instance_id="shop") == 0


def test_places_and_owners_have_figures_of_their_own(rig: Rig) -> None:
    told = "INSERT INTO {}pace_share (place, worker, seen_at, requests, throttled, keys) SELECT "
    rig.sql(
        "INSERT INTO {}pace (place, keys_per_second, updated_at) SELECT 's3/cold/data', 700, created_at FROM {}instance"
    )
    rig.sql(f"{told} 's3/cold/data', 'w1', created_at, 10, 3, 900 FROM {{}}instance")
    rig.sql(f"{told} 's3/cold/data', 'w2', created_at, 10, 4, 900 FROM {{}}instance")
    rig.sql("INSERT INTO {}instance (id, owner) VALUES ('tree', 'catalog')")
    rig.policy = policy(RETENTION, GRACE, owners={"catalog": owner_policy(PLUGIN, {"tablet": 0, "table": 10_800})})

    s = scrape(rig)
    assert s("sexton_pace_keys_per_second", place="s3/cold/data") == 700
    assert s("sexton_throttled_requests_total", place="s3/cold/data") == 7
    assert s("sexton_oldest_due_age_seconds", instance_id="tree", kind="tablet") == 0
    assert s("sexton_oldest_due_age_seconds", instance_id="tree", kind="dropped") == 0
    assert s("sexton_oldest_due_age_seconds", instance_id="shop", kind="tablet") is None
    assert s("sexton_removed_marks_total", instance_id="tree", kind="table") == 0
    assert s("sexton_retention_seconds", kind="table") == 10_800


ROWS = 5_000
SMALLEST_ROW = 100
"""A mark of one key takes more bytes than this, without its indexes."""
TABLES = {table.name for table in METADATA.sorted_tables}


@pytest.mark.slow
def test_each_table_has_a_size_with_its_rows_indexes_and_toast(rig: Rig) -> None:
    before = scrape(rig)
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=(f"data/{n}/a.dat",)) for n in range(ROWS)))
    rig.sql(
        "INSERT INTO {}file_list (batch, last, first, instance, first_key, last_key, files, results) "
        "VALUES (1, 1, 1, 'shop', 'a', 'b', convert_to(repeat('x', 1000000), 'UTF8'), '')"
    )

    after = scrape(rig)
    grown = {
        t: (after("sexton_table_bytes", table=t) or 0) - (before("sexton_table_bytes", table=t) or 0) for t in TABLES
    }
    assert before.values("table") == TABLES
    assert grown["mark"] > ROWS * SMALLEST_ROW
    assert grown["file_list"] > 1_000_000  # outside of the row
    assert grown["pace"] == 0


def test_sizes_need_no_right_to_the_table(rig: Rig) -> None:
    role = f"svc_{secrets.token_hex(4)}"
    rig.sql(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA sexton TO {role};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sexton TO {role};"
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sexton TO {role};"
        f"REVOKE ALL ON sexton.call FROM {role}"
    )
    restricted = Database.open(rig.url.replace("postgres@", f"{role}@"))

    found = scrape(collector(rig, db=restricted))
    restricted.close()
    assert found("sexton_up") == 1
    assert found("sexton_scrape_errors_total") == 0
    assert found("sexton_table_bytes", table="call") == scrape(rig)("sexton_table_bytes", table="call")


def test_an_exclusive_lock_costs_only_the_sizes(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    ours = collector(rig)
    with rig.db.write() as c, caplog.at_level(logging.WARNING):
        c.execute(text("LOCK TABLE sexton.call IN ACCESS EXCLUSIVE MODE"))  # as VACUUM FULL does
        during = scrape(ours)

    after = scrape(ours)
    assert (during("sexton_up"), during("sexton_scrape_errors_total")) == (1, 1)
    assert during("sexton_instance_enabled", instance_id="shop") == 1
    assert during.values("table") == set()
    assert "the sizes of Sexton's tables are unknown for this scrape: " in caplog.text
    assert after("sexton_table_bytes", table="call") is not None
