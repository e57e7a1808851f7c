"""Iceberg #4194: metadata named s3://, the listing s3a://, so every file was an orphan, and all were deleted.

Sexton resolves a name to vault and key in one place, and does not act on a check that finds too many orphans.
"""

from collections.abc import Iterator

import pytest

from tests.integration.check.conftest import Owned, file_keys, live_view
from tests.servers.s3 import RunningS3
from tests.support.rig import DAY

NAMED = ["s3://{b}/{k}", "s3a://{b}/{k}", "s3n://{b}/{k}", "{k}"]


@pytest.fixture
def bucketed(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Owned]:
    owned = Owned(database_url, endpoint_url=s3_server.endpoint_url, clock_step_seconds=0.01).instance()
    assert isinstance(owned, Owned)
    with live_view(owned):
        owned.s3(bucket, prefix="warehouse/")
        owned.registry.set_key_pattern("shop", r"data/.*\.dat")
        yield owned
    owned.db.close()


def test_k13_iceberg_4194_spellings_of_a_name_are_one_object(
    bucketed: Owned, s3_server: RunningS3, bucket: str
) -> None:
    client = s3_server.client()
    keys = file_keys(len(NAMED) * 2)
    for key in (*keys, "data/a b%/ü_0.dat"):
        client.put_object(Bucket=bucket, Key=f"warehouse/{key}", Body=b"x" * 10)
    for n, key in enumerate(keys):
        name = NAMED[n % len(NAMED)].format(b=bucket, k=f"warehouse/{key}" if "://" in NAMED[n % len(NAMED)] else key)
        bucketed.live_rows((name, 10), vault="cold")
    bucketed.live_rows(("data//a%20b%25//%C3%BC_0.dat", 10), vault="cold")
    bucketed.later(3 * DAY)

    report = bucketed.check()

    assert (report.run.missing_inputs, report.found) == ((), {})


@pytest.mark.slow
def test_iceberg_4194_no_round_deletes_all_objects_unapproved(
    bucketed: Owned, s3_server: RunningS3, bucket: str
) -> None:
    client = s3_server.client()
    for key in file_keys(20):
        client.put_object(Bucket=bucket, Key=f"warehouse/{key}", Body=b"x" * 10)
        bucketed.live_rows((f"elsewhere/{key}", 10), vault="cold")  # another form than anybody understands
    for _ in range(2):
        bucketed.later(3 * DAY)
        bucketed.check()

    assert len(bucketed.open_findings(confirmed=True)["ORPHAN"]) == 20
    assert "20 orphans are 100" in bucketed.repairs.awaits("shop")
    bucketed.repairs.orphans("shop")
    bucketed.later(3 * DAY)
    bucketed.check()
    bucketed.later(60)
    assert bucketed.round().deleted == 0
