"""A refusal of an S3 store reports the requested wait and the object lock."""

import pytest

from sexton.storage.model import KeyOutcome
from tests.servers.fault_proxy import FaultProxy
from tests.support.places import Bucket


def test_the_wait_requested_by_a_busy_store_is_reported(
    place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests
) -> None:
    for status in [503, 429]:
        for said, seconds in [
            *(("7", 7.0), ("0.5", 0.5), ("100000", 60.0), ("soon", None), ("", None), ("-3", None)),
            *(("Fri, 01 Jan 2100 00:00:00 GMT", 60.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)),
        ]:
            with subtests.test(status=status, said=said, seconds=seconds):
                proxy.fail_next("DeleteObjects", status, "SlowDown", retry_after=said)

                results = place.vault().delete(["d/1", "d/2"])

                assert [(r.outcome, r.retry_after) for r in results] == [(KeyOutcome.THROTTLED, seconds)] * 2


@pytest.mark.parametrize("code", ["ObjectLocked", "ObjectLockedByRetention"])
def test_a_key_under_object_lock_is_named_and_blocks_no_other(place: Bucket, proxy: FaultProxy, code: str) -> None:
    place.put("wh/d/1")
    proxy.fail_keys({"wh/d/1": code})

    locked, free = place.vault().delete(["d/1", "d/2"])

    assert (locked.outcome, locked.reason.startswith(f"LOCKED: {code}: ")) == (KeyOutcome.FAILED, True)
    assert free.outcome is KeyOutcome.DELETED


LOCKS = [
    ("AccessDenied", "Access Denied because object protected by object lock."),
    ("InvalidRequest", "Object is WORM protected and cannot be overwritten"),
    ("AccessDenied", "forbidden by object lock"),
    ("InvalidRequest", "The object is under legal hold"),
]


def test_a_lock_is_recognised_by_the_stores_messages(
    place: Bucket, proxy: FaultProxy, subtests: pytest.Subtests
) -> None:
    for code, message in LOCKS:
        with subtests.test(code=code, message=message):
            error = f"<Error><Key>wh/d/1</Key><Code>{code}</Code><Message>{message}</Message></Error>"
            proxy.answer_next("DeleteObjects", f"<DeleteResult>{error}</DeleteResult>".encode())

            assert place.vault().delete(["d/1"])[0].reason == f"LOCKED: {code}: {message}"
