"""Which parts are listed again, the evidence of a listing, numbers of buckets, and where executors connect."""

import pytest

from sexton.runtime.spark.compare import TRIES, ListingProgress, Pass, listing_evidence, pending_parts
from sexton.runtime.spark.locations import ConnectionTarget, without_password
from sexton.runtime.spark.reconcile import FEW_BUCKETS, MOST_BUCKETS, bucket_counts
from sexton.runtime.spark.sources import ListingPart
from sexton.storage.model import VaultPart

PARTS = tuple(ListingPart(number=n, vault="disk", part=VaultPart()) for n in range(3))


def progress(*passes: Pass, faults: dict[str, str] | None = None) -> ListingProgress:
    return ListingProgress(parts=PARTS, passes=passes, faults=faults or {})


def test_interrupted_parts_are_listed_again_a_few_times() -> None:
    busy = [Pass(number=n, parts=(0, 1, 2), failed={1: "busy"}, again=(1,)) for n in range(TRIES)]

    assert pending_parts(progress()) == [0, 1, 2]
    assert pending_parts(progress(Pass(number=0, parts=(0, 1)))) == [2]
    assert pending_parts(progress(Pass(number=0, parts=(0, 1, 2), failed={1: "gone"}))) == []
    assert pending_parts(progress(*busy[:-1])) == [1]
    assert pending_parts(progress(*busy)) == []


def test_a_part_that_a_later_pass_listed_counts_as_ended() -> None:
    busy, done = Pass(number=0, parts=(0, 1, 2), failed={1: "busy"}, again=(1,)), Pass(number=1, parts=(1,))

    evidence = listing_evidence("disk", progress(busy, done), 7, 2)

    assert (evidence.parts, evidence.ended, evidence.errors) == (3, 3, ())
    assert (evidence.objects, evidence.young) == (7, 2)


def test_a_fault_of_the_vault_is_an_error_of_its_listing() -> None:
    evidence = listing_evidence("disk", progress(faults={"disk": "NO_MARKER"}), 0, 0)

    assert (evidence.ended, evidence.errors) == (0, ("NO_MARKER",))


def test_many_rows_are_compared_again_in_buckets_of_few_rows() -> None:
    for rows in (0, 1_000_000):
        assert bucket_counts(rows) == (FEW_BUCKETS,)
    for rows in (10_000_000, 100_000_000):
        first, second = bucket_counts(rows)
        assert (first, second.bit_count()) == (FEW_BUCKETS, 1)
        assert 8 <= rows / second <= 16
    assert bucket_counts(10**12) == (FEW_BUCKETS, MOST_BUCKETS)


OWN, LIVE = "postgresql+psycopg://sexton:a@db/shop", "postgresql+psycopg://{instance}_reader:b@db/shop"


def test_both_logins_get_the_passwords_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    where = ConnectionTarget(
        deployment="test-spark", database_url=without_password(OWN), live_database_url=without_password(LIVE)
    )
    monkeypatch.setenv("SEXTON_DATABASE_URL", OWN)
    monkeypatch.setenv("SEXTON_LIVE_DATABASE_URL", LIVE)

    db = ConnectionTarget.model_validate_json(where.model_dump_json()).database()

    logins = [(e.url.username, e.url.password) for e in (db.engine, db.live("shop").engine)]
    assert logins == [("sexton", "a"), ("shop_reader", "b")]
