"""The commands `sexton pace`, `vault cap` and `vault uncap` work without Temporal."""

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
    put = offline("vault", "cap", "shop", "disk", "500", "--reason", "the disk is shared")
    shown, listed = offline("pace"), json.loads(offline("pace", "--json").stdout)
    cleared = [offline("vault", "uncap", "shop", "disk") for _ in "12"]

    assert put.returncode == 0
    assert "within 5 s; until: sexton vault uncap shop disk" in put.stdout
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
    as_json = json.loads(offline("pace", "--json").stdout)
    [figures] = as_json["places"]

    assert (figures["vault"], figures["place"], figures["keys_per_second"], figures["ceiling"]) == (
        "shop/disk",
        place,
        3150,
        3500,
    )
    assert (figures["requests"], figures["throttled"], figures["workers"], as_json["caps"]) == (200, 3, 1, [])
    assert all(word in people.stdout for word in ("shop/disk", "3150", "3500", "1.5 %"))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("cap", "shop", "disk", "0"), 64, "RATE"),
        (("cap", "shop", "disk", "500/s"), 64, "RATE"),
        (("cap", "shop", "disk"), 64, "RATE"),
        (("cap", "shop", "nowhere", "500"), 1, "has no vault nowhere"),
        (("uncap", "shop", "nowhere"), 1, "has no vault nowhere"),
        (("uncap", "shop"), 64, "VAULT"),
    ],
)
def test_wrong_argument_is_refused_and_caps_nothing(
    offline: Run, shop: Database, words: tuple[str, ...], code: int, says: str
) -> None:
    refused = offline("vault", *words)

    assert (refused.returncode, says in refused.stderr, "Traceback" in refused.stderr) == (code, True, False), refused
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
