"""A reply to GetBucketVersioning is accepted as the SDK accepts it, unless it leaves open whether versions are kept."""

import pytest

from sexton.storage.model import KeyOutcome
from sexton.storage.port import VaultFault
from tests.servers.fault_proxy import FaultProxy
from tests.support.places import Bucket


def test_an_unclear_versioning_reply_is_a_fault(place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests) -> None:
    place.put("wh/d/1")
    for body, why in [
        ("<ListBucketResult/>", "a ListBucketResult without a Status does not show whether the bucket is versioned"),
        ("<html><body/></html>", "expected a VersioningConfiguration"),
        ("<ListBucketResult><Contents/></ListBucketResult>", "expected a VersioningConfiguration"),
        ("<VersioningConfiguration><Status>On</Status></VersioningConfiguration>", "the status is On, not Enabled"),
    ]:
        with subtests.test(body=body, why=why):
            proxy.answer_next("GetBucketVersioning", body.encode())

            with pytest.raises(VaultFault, match=f"BAD_REPLY: GetBucketVersioning: {why}"):
                place.vault().delete(["d/1"])
            assert place.has("wh/d/1")


def test_a_status_is_read_whatever_the_root_is_called(place: Bucket, proxy: FaultProxy) -> None:
    proxy.answer_next("GetBucketVersioning", b"<Answer><Status>Enabled</Status></Answer>")

    assert place.vault().delete(["d/1"])[0].outcome is KeyOutcome.HIDDEN
