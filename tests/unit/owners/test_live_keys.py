"""Which keys a row of the live view may have, and what they mean."""

import pyarrow as pa
import pytest

from sexton.marks.live import LiveEntry, short_key
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.live_keys import misplaced_keys, resolved, split
from sexton.owners.sql.live_moment import require_recent
from sexton.storage.model import VaultSpec

VAULTS = {
    spec.name: spec
    for spec in (
        VaultSpec(instance="shop", name="cold", kind="s3", location="bucket", prefix="lake/"),
        VaultSpec(instance="shop", name="inner", kind="s3", location="bucket", prefix="lake/inner/"),
        VaultSpec(instance="shop", name="disk", kind="local", location="/srv/disk"),
    )
}
ALLOWED = [
    ("cold", "data/a.dat"),
    ("cold", "s3.dat"),
    ("cold", "s3:a.dat"),
    ("cold", "s3a://bucket/lake/data/a.dat"),
    ("inner", "s3://bucket/lake/inner/a"),
    ("disk", "file:///srv/disk/a"),
    ("disk", "file://localhost/srv/disk/a"),
    ("other", "s3://elsewhere/a"),
    ("other", "a"),
]
REFUSED = [
    ("cold", ""),
    ("cold", "/data/a.dat"),
    ("cold", "s3://bucket/lake/"),
    ("cold", "s3://bucket/lake//a"),
    ("cold", "s3://bucket/other/a"),
    ("cold", "s3a://other/lake/a"),
    ("cold", "s3://bucket/lake/inner/a"),
    ("cold", "file:///srv/disk/a"),
    ("cold", "hdfs://name/a"),
    ("cold", "S3://bucket/lake/a"),
    ("cold", "adl://name/a"),
    ("cold", "s3:/bucket/lake/a"),
    ("disk", "file:/srv/disk/a"),
    ("disk", "s3://bucket/lake/a"),
    ("other", "s3://bucket/lake/a"),
]


def is_misplaced(vault: str, key: str) -> bool:
    """Return whether the claim's look into the view finds the key misplaced; byte order, as the database compares."""
    return any(r.first.encode() <= key.encode() < r.end.encode() for r in misplaced_keys(vault, VAULTS))


def test_claims_and_checks_accept_the_same_keys() -> None:
    for vault, key in ALLOWED:
        entry = LiveEntry(vault, key, prefix=False, live=True, record="f/1")
        assert (is_misplaced(vault, key), resolved(entry, VAULTS).vault) == (False, vault)
    for vault, key in REFUSED:
        assert is_misplaced(vault, key), key
        if key:  # an empty key is refused before it is resolved
            with pytest.raises(OwnerSilent, match="write keys relative to the vault"):
                resolved(LiveEntry(vault, key, prefix=False, live=True, record="f/1"), VAULTS)


def test_a_check_refuses_a_url_of_any_scheme() -> None:
    for key in ("Weird+2://x/a", "weird:/x/a"):
        with pytest.raises(OwnerSilent, match="write keys relative to the vault"):
            resolved(LiveEntry("cold", key, prefix=False, live=True, record="f/1"), VAULTS)


def test_a_url_means_the_key_below_its_vault() -> None:
    entry = LiveEntry("cold", "s3n://bucket/lake/data/a.dat", prefix=False, live=True)

    assert resolved(entry, VAULTS).key == "data/a.dat"


def test_a_copy_that_is_too_old_or_ahead_is_unreadable() -> None:
    now = 5_000_000
    for as_of in (None, now, now + 60_000, now - 3_600_000):
        require_recent(as_of, now, 3_600)
    for as_of, message in ((1_000_000, "last true 4,000 s ago"), (now + 60_001, "to come"), (1_399_000, "refresh it")):
        with pytest.raises(OwnerSilent, match=message):
            require_recent(as_of, now, 3_600)


def test_rows_read_as_columns_are_those_that_stay_as_they_are() -> None:
    keys = [*(key for _, key in (*ALLOWED, *REFUSED)), "é" * 512, "é" * 512 + "a", "a\n/b", "\na://b", "1a://b"]
    page = pa.RecordBatch.from_pydict({"key": keys})

    plain, others = (part["key"].to_pylist() for part in split(page))

    assert sorted([*plain, *others]) == sorted(keys)
    for key in plain:
        entry = LiveEntry("cold", key, prefix=False, live=True)
        assert (resolved(entry, VAULTS), short_key(key)) == (entry, key)
    assert set(plain) == {"data/a.dat", "s3.dat", "s3:a.dat", "a", "é" * 512, "a\n/b", "\na://b", "1a://b"}
