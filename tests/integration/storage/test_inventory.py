"""What an inventory says of a vault is what a listing said then; what it does not prove is a fault."""

import datetime as dt
from typing import Any, cast

import pyarrow as pa
import pytest

from sexton.storage.model import ListedObject, ReportFile, VaultPart
from sexton.storage.port import VaultFault
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.test_vault import ODD
from tests.servers.s3 import RunningS3
from tests.support.inventories import INVENTORY, WRITERS, bucket_rows, write_report
from tests.support.places import MARKER, Bucket, put_all

NOW = dt.datetime(2026, 11, 30, 1, 0, tzinfo=dt.UTC)
KEYS = ["a.dat", "b c+d%41/é.dat", "t/1"]


@pytest.fixture
def place(s3_server: RunningS3, bucket: str) -> Bucket:
    return Bucket(s3_server.client(), s3_server.endpoint_url, bucket)


@pytest.fixture
def vault(place: Bucket) -> S3Vault:
    """A vault with an inventory, of which no report is written yet."""
    put_all(place, [*(f"wh/{key}" for key in KEYS), "wh2/x", "other"])
    vault = place.vault(inventory=f"s3://{place.name}/{INVENTORY}/")
    vault.write_marker(MARKER)
    return vault


def report(place: Bucket, *files: Any, **options: Any) -> str:
    rows = files or (bucket_rows(place.client, place.name, "wh"),)
    return write_report(place.client, place.name, *rows, **{"as_of": NOW} | options)


def read_file(vault: S3Vault, file: ReportFile | None) -> list[ListedObject]:
    rows = [row for page in vault.list_part(VaultPart(report=file)) for row in cast(Any, page).to_pylist()]
    return [ListedObject(**row) for row in rows]


def read(vault: S3Vault) -> list[ListedObject]:
    return [listed for part in vault.reports() for listed in read_file(vault, part.report)]


def listed(place: Bucket) -> list[ListedObject]:
    vault = place.vault()
    return [one for part in vault.parts(1) for page in vault.list_part(part) for one in cast(Any, page)]


@pytest.mark.parametrize("form", WRITERS)
def test_a_report_says_what_a_listing_says(vault: S3Vault, place: Bucket, form: str) -> None:
    put_all(place, [f"wh/odd/{n}/{name}" for n, name in enumerate(ODD)])
    rows = bucket_rows(place.client, place.name)
    halves = [{name: values[n::2] for name, values in rows.items()} for n in range(2)]
    report(place, *halves, form=form)

    parts = vault.reports()
    assert sorted(read(vault)) == sorted(listed(place))
    assert {part.report.as_of for part in parts if part.report} == {NOW.timestamp() * 1000}
    assert len(parts) == 2


@pytest.mark.parametrize("form", WRITERS)
def test_only_the_newest_versions_count(vault: S3Vault, place: Bucket, form: str) -> None:
    rows = bucket_rows(place.client, place.name, "wh/a.dat")
    sizes = [1, 2, None]
    versions = {name: values * 3 for name, values in rows.items()} | {
        "version_id": ["v1", "v2", "v3"],
        "is_latest": [False, True, True],
        "is_delete_marker": [False, False, True],
        "size": sizes,
    }
    report(place, versions, form=form)

    assert [(one.key, one.bytes) for one in read(vault)] == [("a.dat", 2)]


def test_the_newest_complete_report_counts(vault: S3Vault, place: Bucket) -> None:
    report(place, bucket_rows(place.client, place.name, "wh/t"), as_of=NOW - dt.timedelta(days=1))
    report(place, bucket_rows(place.client, place.name, "wh/a"), as_of=NOW)
    report(place, as_of=NOW + dt.timedelta(days=1), complete=False)

    assert [one.key for one in read(vault)] == ["a.dat"]


def test_a_folder_of_parquet_files_is_a_report(vault: S3Vault, place: Bucket) -> None:
    rows = bucket_rows(place.client, place.name, "wh")
    names = {"e_tag": "etag", "last_modified_date": "last_modified"}
    body = WRITERS["Parquet"][1]({names.get(name, name): values for name, values in rows.items() if name != "bucket"})
    place.put(f"{INVENTORY}/part-0.parquet", body)
    file = vault.reports()[0].report
    found = read(vault)
    place.put(f"{INVENTORY}/part-0.parquet", body + b"x")

    assert sorted(found) == sorted(listed(place))
    assert file is not None
    assert abs(file.as_of / 1000 - dt.datetime.now(dt.UTC).timestamp()) < 3_600
    with pytest.raises(VaultFault):  # it is another file now
        read_file(vault, file)


def test_without_a_report_there_is_a_fault(vault: S3Vault, place: Bucket) -> None:
    for _ in range(2):
        with pytest.raises(VaultFault, match="has no complete report yet"):
            vault.reports()
        report(place, complete=False)


def change(place: Bucket, key: str, old: bytes, new: bytes) -> None:
    body = place.client.get_object(Bucket=place.name, Key=key)["Body"].read()
    assert old in body
    place.put(key, body.replace(old, new, 1))


def test_a_changed_manifest_is_a_fault(vault: S3Vault, place: Bucket) -> None:
    folder = report(place)
    change(place, f"{folder}manifest.json", b'"files": [', b'"files": [], "f": [')

    with pytest.raises(VaultFault, match="has another checksum"):
        vault.reports()


@pytest.mark.parametrize("form", WRITERS)
def test_a_changed_or_missing_file_is_a_fault(vault: S3Vault, place: Bucket, form: str) -> None:
    report(place, form=form)
    (part,) = vault.reports()
    assert part.report is not None
    body = place.client.get_object(Bucket=place.name, Key=part.report.key)["Body"].read()
    for changed in (body[:-1], body[:-1] + bytes([body[-1] ^ 1])):
        place.put(part.report.key, changed)
        with pytest.raises(VaultFault, match="another checksum than its manifest says"):
            read(vault)
    with pytest.raises(VaultFault, match="cannot be read"):
        read_file(vault, part.report._replace(md5="", columns=("key",) if form == "CSV" else ()))
    place.client.delete_object(Bucket=place.name, Key=part.report.key)
    with pytest.raises(VaultFault):
        read(vault)


def test_a_report_of_another_bucket_is_a_fault(vault: S3Vault, place: Bucket) -> None:
    report(place, of="another")

    with pytest.raises(VaultFault, match="its inventory is of bucket another"):
        vault.reports()


@pytest.mark.parametrize(
    ("column", "shown"), [("key", "Key"), ("size", "Size"), ("e_tag", "ETag"), ("last_modified_date", "Last mod")]
)
def test_a_missing_column_is_named(vault: S3Vault, place: Bucket, column: str, shown: str) -> None:
    rows = bucket_rows(place.client, place.name)
    report(place, {name: values for name, values in rows.items() if name != column})

    with pytest.raises(VaultFault, match=f"lacks a column: configure it with {shown}"):
        read(vault)


def test_an_object_without_a_size_is_a_fault(vault: S3Vault, place: Bucket) -> None:
    rows = bucket_rows(place.client, place.name, "wh/a")
    report(place, rows | {"size": pa.nulls(len(rows["size"]), pa.int64())})

    with pytest.raises(VaultFault, match="objects without a size"):
        read(vault)


def test_another_vault_inside_is_a_fault(vault: S3Vault, place: Bucket) -> None:
    place.put("wh/in/_sexton/vault.json")
    report(place)

    with pytest.raises(VaultFault, match="another vault inside"):
        read(vault)
