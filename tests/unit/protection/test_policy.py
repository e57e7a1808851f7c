"""A protection covers the right objects until the right time (P07 to P11, P21), and is sealed with all its chunks."""

from collections.abc import Mapping

import pytest

from sexton.protection.model import (
    NAMED,
    Exists,
    GcIsRunning,
    Invalid,
    MaxCount,
    Protection,
    ProtectionEnd,
    ProtectionError,
    ProtectionNotFound,
    ProtectionSettings,
    ProtectionState,
    Sealed,
    SoftDeleted,
)
from sexton.protection.policy import canonical, ended, expiry, renewed, renewed_valid_ts, sealing
from sexton.storage.model import VaultSpec

TERMS = ProtectionSettings()
NOW = 1_000_000
VAULTS = {
    "cold": VaultSpec(instance="shop", name="cold", kind="s3", location="b", prefix="wh/"),
    "deep": VaultSpec(instance="shop", name="deep", kind="s3", location="b", prefix="wh/deep/"),
    "disk": VaultSpec(instance="shop", name="disk", kind="local", location="/srv/v"),
}


def protection(state: ProtectionState = ProtectionState.ACTIVE, **more: int) -> Protection:
    values = {"registered_at": NOW, "expires_at": NOW + 1_200_000} | more
    return Protection(instance="shop", job="j", owner="o", state=state, **values)


def test_the_codes_are_those_of_matrixone() -> None:
    names = ("GC_IS_RUNNING", "NOT_FOUND", "EXISTS", "MAX_COUNT", "SOFT_DELETED", "INVALID")
    errors = (GcIsRunning, ProtectionNotFound, Exists, MaxCount, SoftDeleted, Invalid)

    assert {e.code: e.name for e in errors} == dict(enumerate(names, 20_642))
    assert all(issubclass(e, ProtectionError) for e in errors)


def test_protection_lasts_as_requested_up_to_the_maximum() -> None:
    assert expiry(NOW, None, TERMS) == NOW + 1_200_000
    assert expiry(NOW, 86_400, TERMS) == NOW + 86_400_000
    for seconds in (0, -1, 86_401):
        with pytest.raises(Invalid, match="max_protection_seconds"):
            expiry(NOW, seconds, TERMS)


def test_p09_protection_ends_a_millisecond_after_its_expiry() -> None:
    active = protection()

    assert ended(active, active.expires_at, None, TERMS) is None
    for state in (ProtectionState.ACTIVE, ProtectionState.OPEN):
        assert ended(protection(state), active.expires_at + 1, None, TERMS) is ProtectionEnd.OVERDUE


def test_p07_finished_protection_ends_past_the_watermark() -> None:
    finished = protection(ProtectionState.SOFT, valid_ts=1_000, finished_at=NOW)

    assert ended(finished, NOW + 1, 1_000, TERMS) is None
    assert ended(finished, NOW + 1, 1_001, TERMS) is ProtectionEnd.PASSED
    assert ended(finished, NOW + 86_400_000, 1_000, TERMS) is None
    assert ended(finished, NOW + 86_400_001, 1_000, TERMS) is ProtectionEnd.TOO_LONG


def test_finished_protection_without_watermark_ends_next_round() -> None:
    for more, watermark in (({"valid_ts": 1_000}, None), ({}, 7)):
        finished = protection(ProtectionState.SOFT, finished_at=NOW, **more)
        assert ended(finished, NOW, watermark, TERMS) is ProtectionEnd.NO_WATERMARK


def test_p08_no_watermark_ends_an_active_protection() -> None:
    assert ended(protection(valid_ts=1_000), NOW, 1_000_000, TERMS) is None


def test_p11_renewal_never_shortens_a_protection() -> None:
    active = protection()

    assert renewed(active, NOW + 60_000, 1_200, TERMS) == NOW + 1_260_000
    with pytest.raises(Invalid, match="1140 s earlier"):
        renewed(active, NOW, 60, TERMS)
    with pytest.raises(SoftDeleted):
        renewed(protection(ProtectionState.SOFT), NOW, 1_200, TERMS)


def test_p11_renewal_never_lowers_the_awaited_watermark() -> None:
    without, waits = protection(), protection(valid_ts=7)

    assert [renewed_valid_ts(without, n) for n in (None, -1, 7)] == [None, -1, 7]
    assert [renewed_valid_ts(waits, n) for n in (None, 7, 8)] == [7, 7, 8]
    assert renewed_valid_ts(waits, 6, at_least=True) == 7
    with pytest.raises(Invalid, match="cannot wait for a lower one, 6"):
        renewed_valid_ts(waits, 6)


MEANINGS = {
    "cold/data/a.dat": ("cold", "data/a.dat"),
    "cold//data/a.dat": ("cold", "data/a.dat"),
    "s3://b/wh/data/a.dat": ("cold", "data/a.dat"),
    "s3a://b/wh/deep/a.dat": ("deep", "a.dat"),
    "file:///srv/v/data/a.dat": ("disk", "data/a.dat"),
}
MEANINGLESS = (
    *("", "/", "data/a.dat", "cold", "cold/", "s3://other/wh/a", "s3://b/elsewhere/a", "gs://b/wh/a"),
    *("file:///srv/v2/a", "cold/a//b", "cold/../a", "cold/_sexton/vault.json", "cold/a\0"),
)


def test_p21_name_is_made_canonical() -> None:
    assert {name: canonical(name, VAULTS) for name in MEANINGS} == {n: (*m, False) for n, m in MEANINGS.items()}
    assert canonical("cold/data/t1", VAULTS, prefix=True) == ("cold", "data/t1", True)


def test_p21_name_without_vault_or_key_is_refused() -> None:
    for name in MEANINGLESS:
        with pytest.raises(Invalid) as refused:
            canonical(name, VAULTS)
        assert refused.value.code == 20647
    with pytest.raises(Invalid):  # the whole vault
        canonical("cold/", VAULTS, prefix=True)


COMPLETE = Sealed(objects=3)
PARTIAL = Sealed(objects=2, claimed=1, missing=1, named=("v/a: claimed", "v/b: not there"))


def test_results_of_all_chunks_are_summed() -> None:
    many = Sealed(objects=80, missing=80, named=tuple(f"v/{n}: not there" for n in range(80)))
    total = Sealed(objects=5, claimed=1, missing=1, named=("v/a: claimed", "v/b: not there"))

    for count in (None, 2):
        assert sealing("j", {0: PARTIAL, 1: COMPLETE}, count, is_filter=False) == total
    assert total.verified
    sealed = sealing("j", {0: many, 1: many}, None, is_filter=False)
    assert (sealed.missing, len(sealed.named)) == (160, NAMED)
    assert sealing("j", {}, None, is_filter=True) == Sealed(objects=0, verified=False)  # a filter needs no chunk


INCORRECT: list[tuple[Mapping[int, Sealed | None], int | None, int]] = [
    ({0: COMPLETE, 1: None}, None, 1),
    ({1: COMPLETE}, None, 0),
    ({0: COMPLETE, 2: COMPLETE}, None, 1),
    ({0: COMPLETE}, 2, 1),
    ({0: COMPLETE, 1: COMPLETE, 2: COMPLETE}, 2, 2),
    ({}, 1, 0),
]
"""Results of the chunks, how many were announced, and the first incorrect one."""


def test_unfinished_missing_or_extra_chunks_are_invalid() -> None:
    for results, count, chunk in INCORRECT:
        with pytest.raises(Invalid, match=f"chunk {chunk} of job j is not registered correctly"):
            sealing("j", results, count, is_filter=False)
    for count in (None, 0):
        with pytest.raises(Invalid, match="no chunk"):
            sealing("j", {}, count, is_filter=False)
