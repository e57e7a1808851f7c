"""A request is signed if its secret, path and body are those of the signature, and for some minutes only."""

import hashlib
import hmac

import pytest

from sexton.kernel.signatures import is_signed, sign_request

SECRET, PATH, BODY, NOW = "s3cr3t-" * 6, "/node/v1/regions/flush", b'{"regions": []}', 1_795_622_851.9


def test_signature_is_the_hmac_that_the_guide_describes() -> None:
    digest = hmac.new(SECRET.encode(), b"1795622851\n/node/v1/regions/flush\n" + BODY, hashlib.sha256).hexdigest()

    assert sign_request(SECRET, PATH, BODY, NOW) == f"t=1795622851,v1={digest}"


@pytest.mark.parametrize("later", [-299, 0, 299])
def test_a_signature_counts_for_some_minutes(later: float) -> None:
    assert is_signed(SECRET, sign_request(SECRET, PATH, BODY, NOW), PATH, BODY, NOW + later)


@pytest.mark.parametrize("later", [-302, 302])
def test_an_old_or_future_signature_is_refused(later: float) -> None:
    assert not is_signed(SECRET, sign_request(SECRET, PATH, BODY, NOW), PATH, BODY, NOW + later)


@pytest.mark.parametrize(
    ("secret", "path", "body"),
    [(SECRET + "x", PATH, BODY), (SECRET, "/v1/regions/flush", BODY), (SECRET, PATH, BODY + b" ")],
    ids=["secret", "path", "body"],
)
def test_what_differs_from_the_signature_is_refused(secret: str, path: str, body: bytes) -> None:
    assert not is_signed(secret, sign_request(SECRET, PATH, BODY, NOW), path, body, NOW)


@pytest.mark.parametrize("signature", ["", "t=1,v1=", "v1=" + "0" * 64, "t=١٧٩٥٦٢٢٨٥١,v1=" + "0" * 64, "é"])
def test_what_is_no_signature_is_refused(signature: str) -> None:
    assert not is_signed(SECRET, signature, PATH, BODY, NOW)


@pytest.mark.parametrize("secret", ["", "short"])
def test_no_request_is_signed_with_a_short_secret(secret: str) -> None:
    assert not is_signed(secret, sign_request(secret, PATH, BODY, NOW), PATH, BODY, NOW)
