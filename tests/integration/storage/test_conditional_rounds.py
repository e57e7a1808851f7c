"""A round keeps and quarantines an object that was rewritten after it was resolved (R40)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from sexton.operators.registry.add_remove import add_vault
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.model import VaultSpec
from tests.servers.postgres import new_database
from tests.servers.s3 import RunningS3
from tests.support.crashes import at_point
from tests.support.rig import DEPLOYMENT, GRACE, Rig


@pytest.fixture
def rig(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Rig]:
    made = Rig(database_url, endpoint_url=s3_server.endpoint_url).instance()
    spec = VaultSpec(instance="shop", name="cold", kind="s3", location=bucket, prefix="wh/", conditional=True)
    add_vault(made.registry, spec, DEPLOYMENT, s3_server.endpoint_url)
    yield made
    made.db.close()


def keys_left(s3: RunningS3, bucket: str) -> list[str]:
    listed = s3.client().list_objects_v2(Bucket=bucket, Prefix="wh/data/")
    return [o["Key"].removeprefix("wh/") for o in listed.get("Contents", ())]


def test_r40_a_rewritten_object_is_quarantined_until_a_retry(rig: Rig, s3_server: RunningS3, bucket: str) -> None:
    s3 = s3_server.client()
    kept, gone = (["data/k/b.dat", "data/p/b.dat"], ["data/k/a.dat", "data/p/a.dat"])
    for key in (*kept, *gone):
        s3.put_object(Bucket=bucket, Key=f"wh/{key}", Body=b"old")
    rig.mark("dropped", NewMark(id="k", vault="cold", keys=(gone[0], kept[0])))
    rig.mark("dropped", NewMark(id="p", vault="cold", prefix="data/p/"))
    rig.later(10_801)

    def rewrite() -> None:
        for key in kept:
            s3.put_object(Bucket=bucket, Key=f"wh/{key}", Body=b"new")

    with crash_points.installed(at_point("claim.committed", rewrite)):
        report = rig.round()

    assert keys_left(s3_server, bucket) == kept
    for mark in (rig.row("dropped", "k"), rig.row("dropped", "p")):
        assert (mark.state, mark.quarantined_reason, mark.objects_gone) == ("CLAIMED", "CHANGED", 1)
    assert (report.deleted, report.failed) == (2, 2)
    for key in kept:
        assert s3.get_object(Bucket=bucket, Key=f"wh/{key}")["Body"].read() == b"new"

    QuarantineStore(rig.db).retry("shop", reason="CHANGED")
    rig.round()
    assert keys_left(s3_server, bucket) == ["data/p/b.dat"]  # an upload below a prefix may still end
    rig.round(after=GRACE)
    assert keys_left(s3_server, bucket) == []
    rig.later(GRACE + 1)  # it found an object: it looks once more
    rig.round()

    assert rig.count("mark") == 0
    assert rig.count("mark_history", objects=2) == 2


def test_a_mark_waiting_for_its_second_pass_can_be_discarded(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    root = rig.local(tmp_path / "v")
    (root / "p").mkdir()
    (root / "p" / "x.dat").write_bytes(b"x")
    rig.mark("dropped", NewMark(id="p", vault="disk", prefix="p/"), NewMark(id="young", vault="disk", prefix="y/"))
    rig.round(after=10_801)
    (root / "p" / "x.dat").write_bytes(b"back")

    given_up = QuarantineStore(rig.db).discard("shop", Ref("dropped", "p"), "undeleted")
    rig.round(after=GRACE + 1)

    assert given_up.reason == "SWEPT"
    assert (root / "p" / "x.dat").read_bytes() == b"back"
    with pytest.raises(BadInput, match="is not quarantined"):
        QuarantineStore(rig.db).discard("shop", Ref("dropped", "p"), "again")
