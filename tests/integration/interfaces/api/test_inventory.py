"""The API compares a peer's memory with the owner's records."""

from collections.abc import Callable, Sequence
from pathlib import Path

import httpx

from tests.integration.check.conftest import Owned, owned
from tests.integration.owners.catalog.shop import Shop
from tests.servers.api import Api

__all__ = ["owned"]


def comparing(api: Api, http: httpx.Client) -> Callable[..., httpx.Response]:
    """Return a function that compares a peer's memory of a kind with the records of ``shop``."""
    headers = {"Authorization": f"Bearer {api.token('operate@*')}"}

    def compared(kind: str, ids: Sequence[str], **more: str) -> httpx.Response:
        given = {"kind": kind, "ids": ids, **more}
        return http.post(f"{api.url}/v1/instances/shop/inventory", json=given, headers=headers)

    return compared


def test_a_peers_memory_is_compared_with_the_view_both_ways(owned: Owned, connections: httpx.Client) -> None:
    owned.live_rows(*((f"data/t/{i}", 1) for i in ("a", "b", "c", "x")))
    with Api(owned) as api:
        compared = comparing(api, connections)
        whole = compared("rowset", ["a", "b", "z"]).json()
        part = compared("rowset", ["b", "c"], after="a", until="c").json()
        outside = compared("rowset", ["z"], after="a", until="c")

    assert (whole["unknown_ids"], whole["missing_ids"]) == (["z"], ["c", "x"])
    assert (part["unknown"], part["missing"]) == (0, 0)
    assert outside.status_code == 422


def test_a_peers_memory_is_compared_with_the_catalog(
    database_url: str, tmp_path: Path, connections: httpx.Client
) -> None:
    shop = Shop(database_url).register()
    shop.local(tmp_path / "catalog")
    kept, gone = shop.table("kept", 3), shop.table("gone", 2)
    rowsets = shop.loaded(kept)
    shop.catalog.drop_table("gone")
    with Api(shop) as api:
        compared = comparing(api, connections)
        tablets = compared("tablet", [*kept[1:], gone[0]]).json()
        files = compared("rowset", [*rowsets, "ghost"]).json()
        refused = compared("nothing", [])
    shop.close()

    assert (tablets["unknown_ids"], tablets["missing_ids"]) == ([gone[0]], [kept[0]])
    assert (files["unknown_ids"], files["missing"]) == (["ghost"], 0)
    assert refused.status_code == 422
    assert "one of: table, index" in refused.json()["detail"]
