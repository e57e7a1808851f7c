"""A request is signed if its secret, path and body are those of the signature, and for some minutes only."""

import hashlib
import hmac

from sexton.kernel.signatures import is_signed, sign_request

SECRET, PATH, BODY, NOW = "s3cr3t-" * 6, "/node/v1/regions/flush", b'{"regions": []}', 1_795_622_851.9


def test_signature_is_the_hmac_that_the_guide_describes() -> None:
    digest = hmac.new(SECRET.encode(), b"1795622851\n/node/v1/regions/flush\n" + BODY, hashlib.sha256).hexdigest()

    assert sign_request(SECRET, PATH, BODY, NOW) == f"t=1795622851,v1={digest}"


def test_a_signature_counts_for_some_minutes() -> None:
    signed = sign_request(SECRET, PATH, BODY, NOW)

    assert [t for t in (-302, -299, 0, 299, 302) if is_signed(SECRET, signed, PATH, BODY, NOW + t)] == [-299, 0, 299]


def test_what_differs_from_the_signature_is_refused() -> None:
    signed = sign_request(SECRET, PATH, BODY, NOW)

    assert not is_signed(SECRET + "x", signed, PATH, BODY, NOW)
    assert not is_signed(SECRET, signed, "/v1/regions/flush", BODY, NOW)
    assert not is_signed(SECRET, signed, PATH, BODY + b" ", NOW)
    for signature in ("", "t=1,v1=", "v1=" + "0" * 64, "t=١٧٩٥٦٢٢٨٥١,v1=" + "0" * 64, "é"):
        assert not is_signed(SECRET, signature, PATH, BODY, NOW)
    for short in ("", "short"):
        assert not is_signed(short, sign_request(short, PATH, BODY, NOW), PATH, BODY, NOW)
