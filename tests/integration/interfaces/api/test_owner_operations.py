"""Operations on the catalog over HTTP: typed errors, the grants of tokens, the log of calls, and the client."""

from collections.abc import Iterator, Sequence

import pytest

from sexton.client import RequestRefused, Sexton
from sexton.owners.plugin import OwnerOperation, OwnerPlugin
from sexton.owners.plugins import Installed, add_instance, installed
from sexton.owners.port import Owner
from sexton.runtime import owner_operations
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig

TABLE = {"id": "t", "indexes": {"i": {}}, "partitions": {"p": 2}}
LOADED = {"id": "loaded", "indexes": {"l": {}}, "partitions": {"m": 2}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A deployment with the instance ``lake`` of the catalog, and ``shop`` of another owner."""
    rig = Rig(new_database()).instance()
    add_instance(rig.db, rig.registry, "lake", "catalog")
    rig.local(tmp_path_factory.mktemp("lake"), "disk", "lake")
    yield rig
    rig.db.close()


@pytest.fixture(scope="module")
def api(lake: Rig) -> Iterator[Api]:
    with Api(lake) as served:
        yield served


def test_a_meta_service_loads_and_drops_through_the_client(api: Api, lake: Rig) -> None:
    owner = Sexton(api.url, api.token("owner@lake"), patience_seconds=5)
    assert owner.operate("lake", "catalog", "create-table", **LOADED) is None
    tablets = owner.query("lake", "catalog", "tablets", table="loaded")
    load = owner.operate("lake", "catalog", "begin", label="l", timeout_seconds=600)
    with pytest.raises(RequestRefused, match="no vault 'nope'"):
        owner.operate("lake", "catalog", "prepare-rowsets", txn=load, tablets=tablets, vault="nope")
    assert lake.count("mark") == 0
    outputs = owner.operate("lake", "catalog", "prepare-rowsets", txn=load, tablets=tablets, vault="disk")
    written = [{"rowset": o["rowset"], "segments": 1, "bytes": 5} for o in outputs]
    owner.operate("lake", "catalog", "write-rowset", written=written)
    owner.operate("lake", "catalog", "commit", txn=load)
    [shown] = owner.query("lake", "catalog", "show")
    owner.operate("lake", "catalog", "drop-table", table="loaded")

    assert (shown["tablets"], shown["rowsets"], shown["bytes"]) == (2, 2, 10)
    assert all(o["prefix"].startswith("data/") for o in outputs)
    assert lake.count("mark", kind="table") == 1
    calls = [row.action for row in lake.rows("call") if row.instance == "lake"]
    assert {"catalog create-table", "catalog commit", "catalog drop-table"} <= set(calls)
    assert "catalog show" not in calls


REFUSED = (
    ("lake", "drop-table", {"table": "none"}, 404, "NOT_FOUND"),
    ("lake", "create-table", TABLE, 409, "ALREADY_THERE"),
    ("lake", "undrop-table", {"table": "t"}, 409, "WRONG_STATE"),
    ("lake", "drop-table", {}, 422, "INVALID_REQUEST"),
    ("lake", "begin", {"label": "x\0", "timeout_seconds": 60}, 422, "BAD_INPUT"),
    ("lake", "add-partition", {"table": "t", "partition": "q", "tablets": 10**30}, 422, "BAD_INPUT"),
    ("lake", "add-partition", {"table": "t", "partition": "q", "tablets": 10**7}, 422, "BAD_INPUT"),
    ("lake", "commit", {"txn": "x", "rowset": []}, 422, "INVALID_REQUEST"),
    (
        "lake",
        "add-index",
        {"table": "t", "index": "j", "index_schema": {"invertd": []}, "tablets": 1},
        422,
        "INVALID_REQUEST",
    ),
    ("lake", "begin", {"label": "x" * 5_000, "timeout_seconds": 60}, 422, "BAD_INPUT"),
    ("lake", "begin", {"label": "", "timeout_seconds": 60}, 422, "BAD_INPUT"),
    ("lake", "write-rowset", {"written": [{"rowset": "r", "segments": 10**15}]}, 422, "INVALID_REQUEST"),
    ("lake", "write-rowset", {"written": []}, 422, "BAD_INPUT"),
    ("lake", "alter-index", {"index": "i", "version": 0, "index_schema": {}}, 422, "BAD_INPUT"),
    ("shop", "show", {}, 422, "BAD_INPUT"),
    ("nobody", "show", {}, 404, "UNKNOWN_INSTANCE"),
)
"""Instance, operation and values, and the status and the code of the refusal."""


def test_refusals_are_typed(api: Api) -> None:
    refusals = []
    with Sexton(api.url, api.token("owner@*")) as client:
        client.operate("lake", "catalog", "create-table", **TABLE)
        for instance, operation, values, *_ in REFUSED:
            send = client.query if operation == "show" else client.operate
            with pytest.raises(RequestRefused) as refused:
                send(instance, "catalog", operation, **values)
            refusals.append((instance, operation, values, refused.value.status, refused.value.code))

    assert refusals == [*REFUSED]


def test_operations_of_a_broken_plugin_break_no_other_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Sequence[OwnerOperation]:
        raise RuntimeError("a defect")

    broken = Installed("broken", "other", OwnerPlugin("x", lambda _: Owner(), operations=fails))
    monkeypatch.setattr(owner_operations, "installed", lambda: {**installed(), "broken": broken})

    assert list(owner_operations.operations()) == ["catalog"]
