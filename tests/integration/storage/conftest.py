"""Buckets behind a fault proxy, and directories, for the tests of vaults."""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import moto
from tests.servers.fault_proxy import FaultProxy
from tests.servers.moto import MotoS3
from tests.servers.s3 import RunningS3
from tests.support.places import Bucket, Directory, Place, show_how_to_send

MOTO_LACKS = {
    "test_the_abilities_of_the_embedded_store_are_detected": "its abilities differ, see test_moto.py",
    "test_a_versioned_bucket_is_probed_without_leftovers": "the same",
    "test_a_store_that_ignores_etags_is_detected": "it ignores the ETags of a multi-delete, and the probe detects that",
    "test_wrong_credentials_are_denied": "it accepts every key, and the probe detects that",
    "test_replaced_credentials_are_used_without_a_restart": "the same",
    "test_a_key_with_only_markers_is_purged_and_frees_0_bytes": "it makes no marker for a key without versions",
    "test_a_key_without_versions_keeps_its_marker": "the same",
    "test_an_unlistable_key_is_not_reported_absent": "it answers 500 for the key, see test_moto.py",
    "test_a_report_says_what_a_listing_says": "it cannot store odd keys",
    "test_odd_keys_are_purged_under_their_exact_names": "it cannot store such keys",
    "test_a_locked_version_is_named_and_blocks_no_other": "it does not say until when a version is locked",
    "test_suspended_versioning_still_purges_versions": "it overwrites the version instead of adding one",
    "test_a_suspended_bucket_frees_what_was_written_since": "the same",
    "test_a_marker_that_remains_after_its_removal_is_a_failure": "its markers do not remain",
}
"""Test of SeaweedFS → why moto cannot pass it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that needs S3 on two implementations; SeaweedFS, the usual one, is not in the test's name."""
    if "s3_kind" not in metafunc.fixturenames:
        return
    servers = {"weed": pytest.HIDDEN_PARAM, "moto": "moto"}
    if metafunc.function.__name__ in MOTO_LACKS:
        del servers["moto"]
    metafunc.parametrize("s3_kind", servers, indirect=True, ids=servers.values())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out of moto's tests the other database, and ETags in a multi-delete, which its vaults never use.

    Where the proxy makes up the answers, the implementation behind it matters little: on moto these are soak tests.
    """
    left_out = {("database_url", "postgresql"), ("vault", "together")}
    items[:] = [item for item in items if not _is_on_moto(item) or left_out.isdisjoint(_parameters(item).items())]
    for item in items:
        if _is_on_moto(item) and "proxy" in inspect.signature(getattr(item, "function")).parameters:  # noqa: B009
            item.add_marker("soak")


def _is_on_moto(item: pytest.Item) -> bool:
    return _parameters(item).get("s3_kind") == "moto"


def _parameters(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else {n: v for n, v in callspec.params.items() if isinstance(v, str)}


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoS3]:
    """moto, which accepts every key; those of this process, if it has some."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, os.environ.get(name, "moto"))
        with moto.serving(tmp_path_factory.mktemp("moto")) as running:
            yield running


@pytest.fixture
def s3_kind(request: pytest.FixtureRequest) -> str:
    """Return which implementation of S3 a test runs on; tests that need S3 for some parameters only get SeaweedFS.

    A parameter of ``s3_server`` itself would also be one of the server of the whole session, which pytest would stop
    and start again, with new keys, whenever it changes.
    """
    return str(getattr(request, "param", "weed"))


@pytest.fixture
def s3_server(request: pytest.FixtureRequest, s3_kind: str, s3_server: RunningS3) -> RunningS3 | MotoS3:
    """Return one of two implementations of S3."""
    if s3_kind == "weed":
        return s3_server
    server: MotoS3 = request.getfixturevalue("moto_server")
    return server


@pytest.fixture
def place(proxy: FaultProxy, s3_server: RunningS3, bucket: str) -> Bucket:
    """A bucket whose vaults go through the proxy, and whose puts do not; boto3 has sent the first of its requests."""
    place = Bucket(s3_server.client(), proxy.url, bucket)
    show_how_to_send(place)
    return place


@pytest.fixture(params=["local", "s3"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A fresh bucket, of whose requests boto3 has sent the first, or directory."""
    if request.param == "local":
        (tmp_path / "root").mkdir()
        return Directory(tmp_path / "root")
    server: RunningS3 = request.getfixturevalue("s3_server")
    place = Bucket(server.client(), server.endpoint_url, request.getfixturevalue("bucket"))
    show_how_to_send(place)
    return place
