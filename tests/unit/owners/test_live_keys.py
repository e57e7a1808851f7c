"""Which keys a row of the live view may have, and what they mean."""

import pytest

from sexton.marks.live import LiveEntry
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.live_keys import misplaced_keys, resolved
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
    ("disk", "s3://bucket/lake/a"),
    ("other", "s3://bucket/lake/a"),
]


def is_misplaced(vault: str, key: str) -> bool:
    """Return whether the claim's look into the view finds the key misplaced; byte order, as the database compares."""
    return any(r.first.encode() <= key.encode() < r.end.encode() for r in misplaced_keys(vault, VAULTS))


@pytest.mark.parametrize(("vault", "key"), ALLOWED)
def test_claims_and_checks_accept_the_same_keys(vault: str, key: str) -> None:
    entry = LiveEntry(vault, key, prefix=False, live=True, record="f/1")

    assert not is_misplaced(vault, key)
    assert resolved(entry, VAULTS).vault == vault


@pytest.mark.parametrize(("vault", "key"), REFUSED)
def test_claims_and_checks_refuse_the_same_keys(vault: str, key: str) -> None:
    assert is_misplaced(vault, key)
    if (vault, key) != ("cold", ""):  # an empty key is refused before it is resolved
        with pytest.raises(OwnerSilent, match="write keys relative to the vault"):
            resolved(LiveEntry(vault, key, prefix=False, live=True, record="f/1"), VAULTS)


def test_a_url_means_the_key_below_its_vault() -> None:
    entry = LiveEntry("cold", "s3n://bucket/lake/data/a.dat", prefix=False, live=True)

    assert resolved(entry, VAULTS).key == "data/a.dat"


@pytest.mark.parametrize(
    ("as_of", "message"),
    [(1_000_000, "last true 4,000 s ago"), (5_000_000 + 60_001, "still to come"), (1_399_000, "refresh it")],
)
def test_a_copy_that_is_too_old_or_ahead_is_unreadable(as_of: int, message: str) -> None:
    with pytest.raises(OwnerSilent, match=message):
        require_recent(as_of, 5_000_000, 3_600)


@pytest.mark.parametrize("as_of", [None, 5_000_000, 5_060_000, 1_400_000])
def test_a_recent_copy_is_readable(as_of: int | None) -> None:
    require_recent(as_of, 5_000_000, 3_600)
