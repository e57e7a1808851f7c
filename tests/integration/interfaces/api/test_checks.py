"""The API lists checks and findings, and compares a peer's memory with the owner's records."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.check.conftest import Owned, file_keys, owned
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.owners.catalog.shop import Shop
from tests.servers.api import Api

__all__ = ["owned"]
HERE = "/v1/instances/shop"


@pytest.fixture
def rig(owned: Owned) -> Owned:
    return owned


@pytest.fixture
def root(owned: Owned) -> Path:
    return owned.root


def test_checks_and_findings_are_listed(ask: Ask, owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    (owned.root / file_keys(20)[3]).unlink()
    owned.write_old("data/t9/a_0.dat")
    owned.check()
    every = ask("GET", f"{HERE}/findings").json()["items"]
    lost = ask("GET", f"{HERE}/findings?type=LOST").json()["items"]
    later = ask("GET", f"{HERE}/findings?after={every[0]['finding']}").json()["items"]
    [run] = ask("GET", "/v1/checks?instance=shop").json()["items"]
    one = ask("GET", f"/v1/checks/{run['check']}").json()

    assert [(f["type"], f["key"]) for f in lost] == [("LOST", file_keys(20)[3])]
    assert {f["type"] for f in every} == {"LOST", "ORPHAN"}
    assert [f["finding"] for f in later] == [every[1]["finding"]]
    assert (one["run"]["state"], one["found"], one["confirmed"]) == ("WHOLE", {"LOST": 1, "ORPHAN": 1}, {"LOST": 1})
    assert ask("GET", "/v1/checks/99").status_code == 404
    assert ask("GET", "/v1/checks?instance=nope").status_code == 404


def test_a_peers_memory_is_compared_with_the_view_both_ways(ask: Ask, owned: Owned) -> None:
    owned.live_rows(*((f"data/t/{i}", 1) for i in ("a", "b", "c", "x")))

    def compared(*ids: str, **more: str) -> httpx.Response:
        return ask("POST", f"{HERE}/inventory", {"kind": "rowset", "ids": ids, **more})

    whole = compared("a", "b", "z").json()
    part = compared("b", "c", after="a", until="c").json()

    assert (whole["unknown_ids"], whole["missing_ids"]) == (["z"], ["c", "x"])
    assert (part["unknown"], part["missing"]) == (0, 0)
    assert compared("z", after="a", until="c").status_code == 422


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(database_url).register()
    shop.local(tmp_path / "catalog")
    yield shop
    shop.close()


def test_a_peers_memory_is_compared_with_the_catalog(shop: Shop) -> None:
    kept, gone = shop.table("kept", 3), shop.table("gone", 2)
    rowsets = shop.loaded(kept)
    shop.catalog.drop_table("gone")
    with Api(shop) as api, httpx.Client(base_url=api.url) as http:

        def compared(kind: str, ids: list[str]) -> httpx.Response:
            given = {"kind": kind, "ids": ids}
            token = {"Authorization": f"Bearer {api.token('operate@*')}"}
            return http.post(f"{HERE}/inventory", json=given, headers=token)

        tablets = compared("tablet", [*kept[1:], gone[0]]).json()
        files = compared("rowset", [*rowsets, "ghost"]).json()
        refused = compared("nothing", [])

    assert (tablets["unknown_ids"], tablets["missing_ids"]) == ([gone[0]], [kept[0]])
    assert (files["unknown_ids"], files["missing"]) == (["ghost"], 0)
    assert refused.status_code == 422
    assert "one of: table, index" in refused.json()["detail"]


def test_findings_are_accepted_and_orphans_repaired(ask: Ask, owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    for name in ("a", "b"):
        owned.write_old(f"data/t9/{name}_0.dat")
    owned.check()
    owned.later(2 * 86_400)
    owned.check()
    first, second = ask("GET", f"{HERE}/findings?type=ORPHAN").json()["items"]
    accepted = ask("POST", f"/v1/findings/{first['finding']}/accept", {"reason": "put there by hand"}).json()
    counted = ask("POST", f"{HERE}/repair", {"what": "orphans", "dry_run": True}).json()
    repaired = ask("POST", f"{HERE}/repair", {"what": "orphans"}).json()

    assert (accepted["state"], "put there by hand" in accepted["accepted_by"]) == ("ACCEPTED", True)
    assert (counted["found"], counted["marked"]) == (1, 0)
    assert (repaired["found"], repaired["marked"]) == (1, 1)
    assert owned.count("mark", kind="orphan") == 1
    assert second["finding"] != first["finding"]
    assert ask("GET", f"{HERE}/findings?type=ORPHAN").json()["items"] == []


def test_what_cannot_be_accepted_or_repaired_is_refused(ask: Ask, owned: Owned) -> None:
    assert ask("POST", "/v1/findings/7/accept", {"reason": "x"}).status_code == 404
    assert ask("POST", "/v1/findings/7/accept", {}).status_code == 422
    assert ask("POST", f"{HERE}/repair", {"what": "lost", "limit": 3}).status_code == 422
    refused = ask("POST", f"{HERE}/repair", {"what": "orphans"})
    assert (refused.status_code, refused.json()["code"]) == (422, "REPAIR_REFUSED")
    assert ask("POST", "/v1/instances/nope/repair", {"what": "orphans"}).status_code == 404
