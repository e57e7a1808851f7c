"""A key that can never be deleted, named by one listing of a claimed prefix, does not block the prefix permanently."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.model import MAX_FAILURES, Reason
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import new_database
from tests.support.rig import GRACE, Rig

LISTED = (
    "<ListBucketResult><IsTruncated>false</IsTruncated>"
    "<Contents><Key>wh/d/p/../../secret</Key><Size>1</Size></Contents>"
    "<Contents><Key>wh/d/p/1</Key><Size>1</Size></Contents></ListBucketResult>"
)


@pytest.fixture
def s3_rig(tmp_path: Path, proxy: FaultProxy, bucket: str) -> Iterator[Rig]:
    rig = Rig(new_database(), endpoint_url=proxy.url).instance()
    rig.s3(bucket, prefix="wh/")
    yield rig
    rig.db.close()


@pytest.mark.slow
def test_retry_lists_a_prefix_with_an_impossible_key_again(s3_rig: Rig, proxy: FaultProxy, bucket: str) -> None:
    for key in ("wh/d/p/1", "wh/d/p/2", "wh/secret"):
        proxy.client.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3_rig.mark("dropped", NewMark(id="p", vault="cold", prefix="d/p/"))
    s3_rig.later(10_801)
    proxy.answer_next("ListObjectsV2", LISTED.encode())
    for _ in range(MAX_FAILURES):
        s3_rig.round()
    assert s3_rig.row("dropped", "p").quarantined_reason == Reason.DELETE_FAILED

    QuarantineStore(s3_rig.db).retry("shop")
    s3_rig.later(GRACE + 1)
    s3_rig.round()

    listed = proxy.client.list_objects_v2(Bucket=bucket, Prefix="wh/")["Contents"]
    assert [entry["Key"] for entry in listed if not entry["Key"].startswith("wh/_sexton/")] == ["wh/secret"]
    assert s3_rig.count("mark") == 0
    assert s3_rig.count("mark_history", objects=2) == 1
