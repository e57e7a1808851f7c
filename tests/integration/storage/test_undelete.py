"""Undelete makes hidden objects of a versioned bucket visible again, and changes nothing else."""

import itertools
import time
from collections.abc import Iterator

import pytest

from sexton.kernel.errors import BadInput
from sexton.storage.model import Undeleted
from sexton.storage.port import VaultFault
from sexton.storage.s3 import purge
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.versioned_bucket import set_versioning
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.eventually import eventually
from tests.support.places import MARKER, Bucket, Directory, keys, put_all


@pytest.fixture
def place(place: Bucket) -> Bucket:
    """A versioned bucket."""
    set_versioning(place, "Enabled")
    return place


@pytest.fixture
def vault(place: Bucket) -> S3Vault:
    return place.vault()


def total(pages: Iterator[Undeleted]) -> tuple[int, int, int, int]:
    """Return shown, markers, nothing_left, failed."""
    found = list(pages)
    return (
        sum(p.shown for p in found),
        sum(p.markers for p in found),
        sum(p.nothing_left for p in found),
        sum(p.failed for p in found),
    )


def markers(place: Bucket) -> list[str]:
    reply = place.client.list_object_versions(Bucket=place.name)
    return sorted(m["Key"] for m in reply.get("DeleteMarkers", ()))


def test_all_markers_above_the_newest_version_are_removed(place: Bucket, vault: S3Vault) -> None:
    place.put("wh/d/1", b"old")
    place.put("wh/d/1", b"newest")
    for _ in range(3):  # a repeated delete
        vault.delete(["d/1"])

    (counted,) = vault.undelete("d/", dry_run=True)
    assert markers(place) == ["wh/d/1"] * 3
    (page,) = vault.undelete("d/")

    assert page == Undeleted(examined=1, shown=1, markers=3, bytes=6)
    assert counted.model_copy(update={"markers": 3}) == page  # markers of one second are not counted in advance
    assert place.client.get_object(Bucket=place.name, Key="wh/d/1")["Body"].read() == b"newest"
    assert markers(place) == []
    assert total(vault.undelete("d/")) == (0, 0, 0, 0)


def test_markers_below_the_newest_version_stay(place: Bucket, vault: S3Vault) -> None:
    place.put("wh/d/1", b"first")
    vault.delete(["d/1"])
    place.put("wh/d/1", b"again")
    place.put("wh/d/2")
    vault.delete(["d/2"])

    assert total(vault.undelete("d/")) == (1, 1, 0, 0)
    assert markers(place) == ["wh/d/1"]
    assert keys(vault, "d/") == ["d/1", "d/2"]


def test_only_the_named_keys_or_prefix_are_undeleted(place: Bucket, vault: S3Vault) -> None:
    for path in ("wh/d/1/a", "wh/d/10/a", "d/1/a", "wh/d/1", "wh/d/2"):
        place.put(path)
        place.client.delete_object(Bucket=place.name, Key=path)

    assert total(vault.undelete("d/1/")) == (1, 1, 0, 0)
    assert markers(place) == ["d/1/a", "wh/d/1", "wh/d/10/a", "wh/d/2"]
    assert total(vault.undelete(keys=["d/1", "d/2", "d/2", "d/never"])) == (2, 2, 0, 0)
    assert markers(place) == ["d/1/a", "wh/d/10/a"]


def test_a_key_without_versions_keeps_its_marker(place: Bucket, vault: S3Vault) -> None:
    vault.delete(["d/1"])

    assert total(vault.undelete("d/")) == (0, 0, 1, 0)
    assert markers(place) == ["wh/d/1"]


@pytest.mark.slow
def test_all_hidden_keys_over_several_pages_are_undeleted(
    place: Bucket, vault: S3Vault, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    paths = [f"wh/d/{a}/{n}" for a in "abc" for n in range(6)]
    for listed in [4, 7, 20]:
        with subtests.test(listed=listed):
            for _ in range(2):
                put_all(place, paths)
            vault.delete([path.removeprefix("wh/") for path in paths])
            vault.delete(["d/b/3"])
            monkeypatch.setattr(purge, "LISTED", listed)

            assert total(vault.undelete("d/")) == (18, 19, 0, 0)
            assert markers(place) == []


def delete_twice_in_one_second(place: Bucket, vault: S3Vault) -> str:
    """Return a prefix with keys ``1`` and ``2``: put, deleted, ``2`` deleted again, all within one second.

    In one second, only the latest marker is certainly above the version.
    """
    numbers = itertools.count()

    def in_one_second() -> str:
        prefix = f"p{next(numbers)}"
        time.sleep(1 - time.time() % 1)
        put_all(place, [f"wh/{prefix}/1", f"wh/{prefix}/2"])
        for deleted in ([f"{prefix}/1", f"{prefix}/2"], [f"{prefix}/2"]):
            time.sleep(0.02)  # moto orders versions by their millisecond
            vault.delete(deleted)
        reply = place.client.list_object_versions(Bucket=place.name, Prefix=f"wh/{prefix}/")
        seconds = {entry["LastModified"] for entry in (*reply["Versions"], *reply["DeleteMarkers"])}
        return f"{prefix}/" if len(seconds) == 1 else ""

    return eventually("put and deletes are of one second", in_one_second)


def test_an_incomplete_listing_proves_no_undelete(
    place: Bucket, vault: S3Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = delete_twice_in_one_second(place, vault)
    monkeypatch.setattr(purge, "LISTED", 1)

    assert total(vault.undelete(prefix)) == (1, 2, 0, 1)
    assert keys(vault, prefix) == [f"{prefix}1"]


def test_a_forbidden_marker_is_a_failure_and_blocks_no_other(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    for n in (1, 2):
        place.put(f"wh/d/{n}")
    vault.delete(["d/1", "d/2"])
    proxy.fail_keys({"wh/d/1": "AccessDenied"})

    (page,) = vault.undelete("d/")

    assert (page.shown, page.failed, page.reason[:17]) == (1, 1, "d/1: AccessDenied")
    assert keys(vault, "d/") == ["d/2"]


def test_a_key_at_which_the_store_fails_blocks_no_other(place: Bucket, vault: S3Vault, proxy: FaultProxy) -> None:
    for n in (1, 2, 3):
        place.put(f"wh/d/{n}")
    vault.delete(["d/1", "d/2", "d/3"])
    proxy.fails_about = {"wh/d/2": 0}

    assert total(vault.undelete(keys=["d/1", "d/2", "d/3"])) == (2, 2, 0, 1)
    assert keys(vault, "d/") == ["d/1", "d/3"]


def test_a_marker_that_remains_after_its_removal_is_a_failure(place: Bucket, vault: S3Vault) -> None:
    """SeaweedFS does so where versioning was suspended."""
    place.put("wh/d/1")
    set_versioning(place, "Suspended")
    vault.delete(["d/1"])

    (page,) = vault.undelete("d/")

    assert (page.shown, page.failed, "still lists it" in page.reason) == (0, 1, True)


SUSPENDED = (
    "<ListVersionsResult><Version><Key>wh/d/1</Key><VersionId>v1</VersionId><IsLatest>false</IsLatest><Size>1</Size>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Version><DeleteMarker><Key>wh/d/1</Key>"
    "<VersionId>null</VersionId><IsLatest>true</IsLatest><LastModified>2026-01-02T00:00:00.000Z</LastModified>"
    "</DeleteMarker><IsTruncated>false</IsTruncated></ListVersionsResult>"
)


def test_what_a_suspended_bucket_deleted_may_be_gone(vault: S3Vault, proxy: FaultProxy) -> None:
    proxy.answer_next("ListObjectVersions", SUSPENDED.encode())

    (page,) = vault.undelete("d/", dry_run=True)

    assert page == Undeleted(examined=1, shown=1, markers=1, bytes=1, older=1)


def test_a_nested_vault_is_left_alone(place: Bucket, vault: S3Vault) -> None:
    place.vault("wh/d/inner/").write_marker(MARKER)
    place.client.delete_object(Bucket=place.name, Key="wh/d/inner/_sexton/vault.json")

    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        total(vault.undelete("d/"))
    assert markers(place) == ["wh/d/inner/_sexton/vault.json"]


def test_a_root_or_ambiguous_prefix_is_refused(vault: S3Vault, subtests: pytest.Subtests) -> None:
    for prefix in ["_sexton/", "/", "d//"]:
        with subtests.test(prefix=prefix), pytest.raises(BadInput):
            total(vault.undelete(prefix))


def test_an_unversioned_bucket_has_nothing_to_undelete(
    s3_server: RunningS3, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plain = Bucket(s3_server.client(), s3_server.endpoint_url, bucket).vault()
    directory = Directory(tmp_path_factory.mktemp("root")).vault()

    for vault in (plain, directory):
        with pytest.raises(BadInput, match="restore them from a backup"):
            total(vault.undelete("d/"))
