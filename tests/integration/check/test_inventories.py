"""A check by an inventory finds what a listing finds, and calls nothing lost or an orphan that it has not looked up."""

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest

from sexton.check.model import CheckReport, RunState
from tests.integration.check.conftest import PATTERN, Owned, file_keys, live_view
from tests.servers.s3 import RunningS3
from tests.support.command import run
from tests.support.inventories import INVENTORY, WRITERS, bucket_rows, write_report
from tests.support.places import Bucket
from tests.support.rig import DAY

pytestmark = pytest.mark.slow

LIVE, BODY = file_keys(200), b"x" * 10
LOST, RESIZED, ORPHAN, UNKNOWN = LIVE[7], LIVE[8], "data/t9/gone_0.dat", "tmp/u.tmp"


class Lake(Owned):
    """An owner whose vault is the folder ``wh/`` of a bucket with an inventory; its objects are ten days old."""

    place: Bucket

    def put(self, *keys: str, body: bytes = BODY) -> None:
        for key in keys:
            self.place.put(f"wh/{key}", body)

    def remove(self, key: str) -> None:
        self.place.client.delete_object(Bucket=self.place.name, Key=f"wh/{key}")

    def report(self, *, age: float = 0, **options: Any) -> str:
        """Write a report of what the bucket has now, as of some seconds ago; return its folder."""
        as_of = dt.datetime.fromtimestamp(self.now() / 1000 - age, dt.UTC)
        rows = bucket_rows(self.place.client, self.place.name, "wh/")
        return write_report(self.place.client, self.place.name, rows, as_of=as_of, **options)

    def found(self, report: CheckReport) -> set[tuple[str, str]]:
        assert report.run.state is RunState.WHOLE, report.run.missing_inputs
        return {(str(f.type), f.key) for f in self.runs.findings("shop", limit=1_000)}


@pytest.fixture
def lake(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Lake]:
    lake = Lake(database_url, endpoint_url=s3_server.endpoint_url)
    lake.place = Bucket(s3_server.client(), s3_server.endpoint_url, bucket)
    lake.instance()
    lake.s3(bucket, prefix="wh/", inventory=f"s3://{bucket}/{INVENTORY}")
    lake.registry.set_key_pattern("shop", PATTERN)
    with live_view(lake):
        lake.put(*LIVE)
        lake.live_rows(*((key, 10) for key in LIVE), vault="cold")
        lake.later(10 * DAY)
        yield lake
    lake.db.close()


@pytest.mark.parametrize("form", WRITERS)
def test_it_finds_what_a_listing_finds(lake: Lake, form: str) -> None:
    lake.remove(LOST)
    lake.put(RESIZED, body=b"longer than ten")
    lake.put(ORPHAN, UNKNOWN)
    lake.report(age=3_600, form=form)

    report = lake.check()
    found = lake.found(report)
    lake.update("vault", inventory="")
    lake.sql("DELETE FROM {}finding")
    listed = lake.check()

    assert found == lake.found(listed)
    assert found == {("LOST", LOST), ("SIZE_MISMATCH", RESIZED), ("ORPHAN", ORPHAN), ("UNKNOWN_KIND", UNKNOWN)}
    assert report.run.evidence is not None
    assert listed.run.evidence is not None
    by_inventory, by_listing = report.run.evidence.listings[0], listed.run.evidence.listings[0]
    assert by_listing.inventory_at is None
    assert by_inventory.inventory_at is not None
    assert by_inventory.inventory_at <= report.run.cutoff - 3_600_000
    assert (by_inventory.objects, by_inventory.live) == (by_listing.objects, by_listing.live)
    assert any("its inventory of" in note for note in report.run.evidence.notes)


def test_what_is_newer_than_the_inventory_is_not_lost(lake: Lake) -> None:
    lake.report(age=3_600)
    lake.put("data/t2/new_0.dat")
    lake.live_rows(("data/t2/new_0.dat", 10), vault="cold")

    assert lake.found(lake.check()) == set()


def test_what_is_gone_since_or_another_object_is_no_orphan(lake: Lake) -> None:
    lake.put(ORPHAN, "data/t9/other_0.dat", "data/t9/stays_0.dat")
    lake.report(age=3_600)
    lake.remove(ORPHAN)
    lake.put("data/t9/other_0.dat", body=b"another object")

    report = lake.check()
    assert lake.found(report) == {("ORPHAN", "data/t9/stays_0.dat")}
    assert report.found == {"ORPHAN": 1}


def test_the_grace_counts_from_the_inventory(lake: Lake) -> None:
    """An object that was young in the inventory may have been recorded since: it is not judged, however old it is."""
    lake.put(ORPHAN)
    rows = bucket_rows(lake.place.client, lake.place.name, "wh/")
    as_of = dt.datetime.fromtimestamp(lake.now() / 1000, dt.UTC) - dt.timedelta(days=2)
    for hours, expected in ((23, set()), (25, {("ORPHAN", ORPHAN)})):
        written = (as_of - dt.timedelta(hours=hours)).replace(tzinfo=None)
        rows["last_modified_date"] = [written] * len(rows["key"])
        write_report(lake.place.client, lake.place.name, rows, as_of=as_of + dt.timedelta(minutes=hours))

        report = lake.check()
        assert lake.found(report) == expected
        assert report.run.evidence is not None
        assert report.run.evidence.listings[0].young == (0 if expected else len(LIVE) + 1)


def test_vault_add_changes_the_inventory(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["vault", "add", "shop", "cold", "--s3", f"{lake.place.name}/wh", "--inventory"]
    wrong = run(lake, capsys, *place, "https://elsewhere/x")
    run(lake, capsys, *place, f"s3://{lake.place.name}/other")
    other = json.loads(run(lake, capsys, "vault", "list", "shop", "--json").out)["items"][0]["inventory"]
    run(lake, capsys, *place, "")
    report = lake.check()

    assert (wrong.code, "--inventory" in wrong.err) == (64, True), wrong.err
    assert other == f"s3://{lake.place.name}/other"
    assert lake.found(report) == set()  # it was listed


@pytest.mark.parametrize("harm", ["stale", "absent", "incomplete", "changed", "truncated", "of another bucket"])
def test_an_inventory_that_proves_nothing_condemns_nothing(lake: Lake, harm: str) -> None:
    lake.put(ORPHAN)
    lake.remove(LOST)
    if harm == "stale":
        lake.report(age=3 * DAY + 60)
    elif harm == "incomplete":
        lake.report(complete=False)
    elif harm == "of another bucket":
        lake.report(of="another")
    elif harm != "absent":
        lake.report()
        key = f"{INVENTORY}/data/"
        (file,) = lake.place.client.list_objects_v2(Bucket=lake.place.name, Prefix=key)["Contents"]
        body = lake.place.client.get_object(Bucket=lake.place.name, Key=file["Key"])["Body"].read()
        lake.place.put(file["Key"], body[:-1] if harm == "truncated" else body[:-1] + b"?")

    report = lake.check()
    assert report.run.state is RunState.PARTIAL
    assert "inventory" in str(report.run.missing_inputs)
    assert report.found == {}


def test_an_orphan_of_inventories_is_deleted_as_any_other(lake: Lake) -> None:
    lake.put(ORPHAN)
    for _ in range(2):
        lake.report(age=3_600)
        lake.check(after=DAY + 60)
    assert lake.repairs.orphans("shop").marked == 1
    lake.later(3 * DAY)
    lake.report(age=60)
    lake.check()
    lake.later(60)

    assert lake.round().deleted == 1
    assert not lake.place.has(f"wh/{ORPHAN}")
    assert lake.found(lake.check()) == set()  # though the inventory still names it
