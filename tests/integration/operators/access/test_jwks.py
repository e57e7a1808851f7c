"""Keys of an issuer are read rarely, count for a bounded time while it is away, and verify only what they are for."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.operators.access.errors import IssuerAway, Unauthenticated
from sexton.operators.access.jwks import MIN_READ_SECONDS, REFRESH_SECONDS, IssuerKeys, KeysUnread, key_set
from tests.servers.issuer import Issuer, jwk

OUTAGE_SECONDS = 3_600.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        issuer.add_key("k1")
        yield issuer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(issuer: Issuer, clock: Clock) -> IssuerKeys:
    return IssuerKeys(f"{issuer.url}/jwks", OUTAGE_SECONDS, clock=clock)


def test_many_unknown_keys_cause_one_read(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    keys.find("k1", "RS256")
    for number in range(200):
        with pytest.raises(Unauthenticated):
            keys.find(f"unknown-{number}", "RS256")
    first = issuer.requests
    clock.now += MIN_READ_SECONDS
    for number in range(200):
        with pytest.raises(Unauthenticated):
            keys.find(f"unknown-{number}", "RS256")

    assert (first, issuer.requests) == (1, 2)


def test_new_key_is_found_and_a_withdrawn_one_is_dropped(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    keys.find("k1", "RS256")
    issuer.add_key("k2", curve=True)
    clock.now += MIN_READ_SECONDS
    assert keys.find("k2", "ES256").key_id == "k2"
    del issuer.keys["k1"]
    assert keys.find("k1", "RS256").key_id == "k1"
    clock.now += REFRESH_SECONDS + 1

    with pytest.raises(Unauthenticated):
        keys.find("k1", "RS256")


@pytest.mark.parametrize("fault", ["stopped", "500", "no JSON", "no keys", "endless"])
def test_known_keys_count_for_a_bounded_time(issuer: Issuer, keys: IssuerKeys, clock: Clock, fault: str) -> None:
    keys.find("k1", "RS256")
    if fault == "stopped":
        issuer.stop()
    issuer.status = 500 if fault == "500" else 200
    issuer.answer = {"no JSON": b"<html>", "no keys": b'{"keys": 7}', "endless": b"x" * 2_000_000}.get(fault)
    clock.now += OUTAGE_SECONDS - 1
    assert keys.find("k1", "RS256").key_id == "k1"
    clock.now += 2

    with pytest.raises(IssuerAway):
        keys.find("k1", "RS256")


def test_keys_never_read_are_no_refusal_of_the_token(issuer: Issuer, clock: Clock) -> None:
    issuer.stop()
    keys = IssuerKeys(f"{issuer.url}/jwks", OUTAGE_SECONDS, clock=clock)

    with pytest.raises(IssuerAway) as caught:
        keys.find("k1", "RS256")
    assert caught.value.passes


def test_keys_are_read_from_a_file(issuer: Issuer, tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "jwks.json"
    keys = IssuerKeys(str(file), OUTAGE_SECONDS, clock=clock)
    with pytest.raises(IssuerAway):
        keys.find("k1", "RS256")
    file.write_bytes(issuer.document())
    clock.now += MIN_READ_SECONDS

    assert keys.find("k1", "RS256").key_id == "k1"
    assert issuer.requests == 0


def test_key_verifies_only_what_it_is_for(issuer: Issuer) -> None:
    issuer.add_key("weak", rsa_bits=1_024)
    issuer.add_key("curve", curve=True)
    good, weak, curve = (jwk(key_id, issuer.keys[key_id]) for key_id in ("k1", "weak", "curve"))
    unusable = [
        weak,
        good | {"kid": "enc", "use": "enc"},
        good | {"kid": "rs512", "alg": "RS512"},
        good | {"kid": "broken", "n": "!"},
        curve | {"kid": "p384", "crv": "P-384"},
        {name: value for name, value in good.items() if name != "kid"},
        {"kty": "oct", "kid": "oct", "k": "c2VjcmV0", "alg": "HS256"},
        {"kty": "OKP", "kid": "okp", "crv": "Ed25519", "x": "x"},
        "text",
    ]

    assert set(key_set(json.dumps({"keys": [*unusable, good, curve]}).encode())) == {
        ("k1", "RS256"),
        ("curve", "ES256"),
    }


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": {}}', b"[" * 100_000])
def test_broken_document_is_no_key_set(document: bytes) -> None:
    with pytest.raises(KeysUnread):
        key_set(document)
