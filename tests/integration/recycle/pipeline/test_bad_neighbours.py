"""An error that one key or one prefix causes costs its own mark only; the marks beside it are deleted.

Reported of other collectors and stores: rustfs 3191, minio 10873, starrocks 78590 (a listing that never answers),
clickhouse-backup 1532, indexify 1284 (a request for several keys that fails as a whole), vm0 18280, opencast 4972 (a
link in the place of a folder), rustfs 4810 (a listing that ends early).
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.recycle.pacing import policy
from sexton.recycle.pipeline import resolve
from sexton.recycle.pipeline.sql import settlement
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import GRACE, RETENTION, Rig, listing, put

COUNT = 40


@pytest.fixture
def proxy(s3_server: RunningS3) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        yield proxy


@pytest.fixture
def rig(database_url: str, proxy: FaultProxy, bucket: str) -> Iterator[Rig]:
    """A vault ``cold`` in a bucket with 40 folders of two objects each, behind the proxy."""
    rig = Rig(database_url, endpoint_url=proxy.url).instance()
    rig.s3(bucket)
    for n in range(COUNT):
        for name in "ab":
            proxy.client.put_object(Bucket=bucket, Key=f"t/{n:02}/{name}.dat", Body=b"x")
    yield rig
    rig.db.close()


def left(proxy: FaultProxy, bucket: str) -> set[str]:
    found = proxy.client.list_objects_v2(Bucket=bucket, Prefix="t/").get("Contents", ())
    return {listed["Key"] for listed in found}


def mark_folders(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=f"{n:02}", vault="cold", prefix=f"t/{n:02}/") for n in range(COUNT)))
    rig.later(RETENTION["dropped"] + 1)


def mark_keys(rig: Rig) -> None:
    keys = {f"{n:02}": tuple(f"t/{n:02}/{name}.dat" for name in "ab") for n in range(COUNT)}
    rig.mark("dropped", *(NewMark(id=id_, vault="cold", keys=of_mark) for id_, of_mark in keys.items()))
    rig.later(RETENTION["dropped"] + 1)


def test_a_prefix_that_cannot_be_listed_keeps_no_other_mark(
    rig: Rig, proxy: FaultProxy, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    mark_folders(rig)
    proxy.fails_about = {"t/07/": 0}

    with caplog.at_level(logging.WARNING, "sexton.recycle"):
        report = rig.round()

    assert left(proxy, bucket) == {"t/07/a.dat", "t/07/b.dat"}
    assert (report.vaults, report.faults) == ({"cold": "BAD_REPLY"}, 1)
    assert "vault cold of shop: BAD_REPLY: " in caplog.text
    assert report.vault_fault("cold").endswith("met by mark dropped/07")
    proxy.fails_about = {}
    rig.round()
    rig.later(GRACE + 1)
    rig.round()
    assert (left(proxy, bucket), rig.count("mark")) == (set(), 0)


def test_a_vault_whose_listings_all_fail_is_given_up(
    rig: Rig, proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "MOST_UNANSWERED", 1)
    mark_folders(rig)
    proxy.fails_about = {"list-type": 0}

    report = rig.round()

    assert (report.vaults, report.claimed, len(left(proxy, bucket))) == ({"cold": "UNREACHABLE"}, 0, 2 * COUNT)


@pytest.mark.parametrize("status", [0, 500], ids=["reset", "internal error"])
def test_a_request_that_fails_for_one_key_is_divided(
    rig: Rig, proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("sexton.recycle.pacing.model.TRIES", 3)
    mark_keys(rig)
    proxy.fails_about = {"t/07/b.dat": status}

    report = rig.round()

    assert left(proxy, bucket) == {"t/07/b.dat"}
    assert (report.removed, report.failed, report.waiting) == (COUNT - 1, 1, 1)
    assert report.vaults == {"cold": "normal"}
    proxy.fails_about = {}
    assert (rig.round().removed, rig.count("mark")) == (1, 0)


def test_a_vault_that_refuses_every_delete_is_given_up(
    rig: Rig, proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "BROKEN_TRIES", 3)
    mark_keys(rig)
    proxy.fails_about = {"?delete": 0}

    report = rig.round()

    assert (report.removed, report.failed, report.vaults) == (0, 0, {"cold": "UNREACHABLE"})
    assert rig.count("mark", failures=0) == COUNT
    assert len([e for e in proxy.log if e.operation == "DeleteObjects"]) <= 8


def test_a_store_without_multi_delete_deletes_keys_alone(rig: Rig, proxy: FaultProxy, bucket: str) -> None:
    mark_keys(rig)
    proxy.fails_about = {"?delete": 501}

    assert (rig.round().removed, left(proxy, bucket)) == (COUNT, set())


def test_a_link_in_the_place_of_a_prefix_keeps_no_other_mark(database_url: str, tmp_path: Path) -> None:
    rig = Rig(database_url).instance()
    root, outside = rig.local(tmp_path / "v"), tmp_path / "outside"
    for n in range(3):
        put(root, f"t/{n}/a.dat")
    put(outside, "precious")
    (root / "t" / "1" / "a.dat").unlink()
    (root / "t" / "1").rmdir()
    (root / "t" / "1").symlink_to(outside)
    rig.mark("dropped", *(NewMark(id=f"t{n}", vault="disk", prefix=f"t/{n}/") for n in range(3)))
    rig.later(RETENTION["dropped"] + 1)

    report = rig.round()

    assert (listing(root), listing(outside).keys()) == ({}, {"precious"})
    assert (report.claimed, report.vaults) == (2, {"disk": "BAD_REPLY"})
    rig.db.close()


def test_a_second_pass_that_finds_objects_asks_for_another(rig: Rig, proxy: FaultProxy, bucket: str) -> None:
    mark_folders(rig)
    rig.round()
    proxy.client.put_object(Bucket=bucket, Key="t/07/late.dat", Body=b"x")  # or a listing that ended before it
    rig.later(GRACE + 1)

    rig.round()

    assert (left(proxy, bucket), rig.count("mark"), rig.count("mark_history")) == (set(), 1, COUNT - 1)
    rig.later(GRACE + 1)
    rig.round()
    assert (rig.count("mark"), rig.count("mark_history")) == (0, COUNT)


def test_a_prefix_that_never_gets_empty_is_quarantined(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path is in use again, or the store lists what it has deleted: no pass may follow the other without end."""
    monkeypatch.setattr(settlement, "MAX_FAILURES", 3)
    rig = Rig(database_url).instance()
    root = rig.local(tmp_path / "v")
    put(root, "t/0.dat")
    rig.mark("dropped", NewMark(id="t", vault="disk", prefix="t/"))
    rig.later(RETENTION["dropped"] + 1)
    rig.round()
    for n in range(1, 5):
        put(root, f"t/{n}.dat")
        rig.later(GRACE + 1)
        rig.round()

    row = rig.row("dropped", "t")
    assert (row.quarantined_reason, row.last_error) == ("DELETE_FAILED", settlement.STILL_FOUND)
    assert listing(root).keys() == {"t/4.dat"}
    rig.db.close()
