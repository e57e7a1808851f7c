"""The command `sexton pace` works without Temporal."""

import json

import pytest
from sqlalchemy import text

from sexton.database.engine import Database
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.registry.store import Registry
from sexton.operators.stores import operator_stores
from sexton.recycle.pacing.model import PaceReport, Rate
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.model import CloseOrder
from sexton.recycle.rounds.sql.store import RoundStore
from tests.e2e.conftest import Run
from tests.support.rig import GRACE, INTERVAL, RETENTION


def test_a_cap_is_put_shown_and_cleared(offline: Run, shop: Database) -> None:
    put = offline("pace", "disk", "500/s", "--reason", "the disk is shared")
    shown, listed = offline("pace"), json.loads(offline("pace", "--json").stdout)
    cleared = [offline("pace", "shop/disk", "--clear") for _ in "12"]

    assert (put.returncode, "within 5 s" in put.stdout, "sexton pace shop/disk --clear" in put.stdout) == (
        0,
        True,
        True,
    )
    assert "500" in shown.stdout
    assert [(c["vault"], c["keys_per_second"], c["reason"]) for c in listed["caps"]] == [
        ("disk", 500, "the disk is shared")
    ]
    assert ["the cap of" in cleared[0].stdout, "had no cap" in cleared[1].stdout] == [True, True]
    assert PaceStore(shop).caps() == []


def test_pace_shows_the_refusals_of_each_place(offline: Run, shop: Database) -> None:
    row = shop.t.vault
    with shop.read() as c:
        root = c.execute(row.select()).one().location
    place = f"file:{root}/data/"
    PaceStore(shop).exchange("a", [PaceReport(place, None, Rate(3_150, 3_500), True, True, 200, 3, 90_000)])

    people = offline("pace")
    [figures] = json.loads(offline("pace", "--json").stdout)["places"]

    assert (figures["vault"], figures["place"], figures["keys_per_second"], figures["ceiling"]) == (
        "shop/disk",
        place,
        3150,
        3500,
    )
    assert (figures["requests"], figures["throttled"], figures["workers"], figures["cap"]) == (200, 3, 1, None)
    assert all(word in people.stdout for word in ("shop/disk", "3,150", "3,500", "1.5 %"))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("disk", "0/s"), 1, "is not a pace"),
        (("disk", "fast"), 1, "use keys per second"),
        (("nowhere", "500/s"), 1, "there is no vault nowhere"),
        (("nowhere", "--clear"), 1, "there is no vault nowhere"),
        (("disk",), 64, "exactly one"),
        (("disk", "500/s", "--clear"), 64, "exactly one"),
        (("--clear",), 64, "name a vault"),
    ],
)
def test_wrong_argument_is_refused_and_caps_nothing(
    offline: Run, shop: Database, words: tuple[str, ...], code: int, says: str
) -> None:
    refused = offline("pace", *words)

    assert (refused.returncode, says in refused.stderr, "Traceback" in refused.stderr) == (code, True, False)
    assert PaceStore(shop).caps() == []


def test_pace_reports_that_nothing_was_deleted_yet(offline: Run, shop: Database) -> None:
    assert "nothing was deleted yet" in offline("pace").stdout


def test_blockers_name_the_vault_whose_store_throttles(offline: Run, shop: Database) -> None:
    with shop.read() as c:
        root = c.execute(shop.t.vault.select()).one().location
    refused = [PaceReport(f"file:{root}/{folder}/", None, Rate(10, 3_500), True) for folder in ("a", "b")]
    PaceStore(shop).exchange("w", [*refused, PaceReport(f"file:{root}/c/", None, Rate(3_500, 0), False)])

    rows = json.loads(offline("blockers", "shop", "--json").stdout)["items"]
    with shop.write() as c:
        c.execute(text("UPDATE sexton.pace SET throttled_at = throttled_at - interval '61 seconds'"))
    a_minute_later = offline("blockers", "shop")

    assert [(r["what"], r["way_out"]) for r in rows if r["held_by"] == "throttling"] == [
        ("vault disk: 2 places", "sexton pace")
    ]
    assert "throttling" not in a_minute_later.stdout


def test_a_round_without_a_throttled_vault_points_to_pace(offline: Run, shop: Database) -> None:
    Registry(shop).enable("shop")
    rounds = RoundStore(shop, LeaseStore(shop), operator_stores(shop), INTERVAL)
    opened = rounds.open("shop", "run", None, policy(RETENTION, GRACE))
    rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED", faults={"disk": "THROTTLED"}))

    listed, status, why = offline("round", "list"), offline("status"), offline("why", "t1")
    [row] = [b for b in json.loads(offline("blockers", "--json").stdout)["items"] if "THROTTLED" in b["held_by"]]

    assert "disk THROTTLED" in listed.stdout
    assert "vaults it excluded: disk THROTTLED; see: sexton pace" in status.stdout
    assert "excluded vault disk: THROTTLED; see: sexton pace" in why.stdout
    assert row["way_out"] == "sexton pace"
