"""A filter has no false negative, follows its byte format, and refuses malformed input (P05)."""

import base64
import hashlib
import os
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.protection.filter import Filter
from sexton.protection.model import Invalid, Item

GOLDEN = "53585046010a626c616b6532622d3132380000000000000000000000000700000000000000020000000000000040"
"""The head of the filter below: magic, version, 10 probes, hash, seed 7, 2 keys, 64 bits."""


def keys(n: int, what: str = "in") -> list[Item]:
    return [Item("cold", f"data/tablet-{i % 97:08}/{what}-{i:07}.dat") for i in range(n)]


def test_decoded_filter_covers_every_key_it_was_built_from() -> None:
    for count, seed in product((1, 10, 5_000), (0, 1, 2**63)):
        read = Filter.decode(Filter.build(keys(count), count, seed=seed).encode())

        assert all(read.covers(item.vault, item.key) for item in keys(count))
        assert read.count == count


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=20)), min_size=1), st.integers(0, 300))
def test_filter_has_no_false_negative(items: list[tuple[str, str]], expected: int) -> None:
    items = [(v, k) for v, k in items if (v + k).isprintable()]
    built = Filter.build((Item(*i) for i in items), expected)

    assert all(built.covers(*i) for i in items)


def test_false_positive_rate_is_about_the_requested_one() -> None:
    built = Filter.build(keys(20_000), 20_000, false_positives=0.01)
    others = sum(built.covers(item.vault, item.key) for item in keys(20_000, "out"))

    assert 100 <= others <= 300


def test_bytes_follow_the_format() -> None:
    built = Filter.build([Item("cold", "a"), Item("cold", "b")], 2, seed=7)
    data = bytes(built)
    a, b = (int.from_bytes(half) for half in _halves("cold\0a", 7))
    bits = int.from_bytes(data[46:54], "little")

    assert data[:46].hex() == GOLDEN
    assert len(data) == 46 + 8 + 32
    assert data[54:] == hashlib.sha256(data[:54]).digest()
    assert all(bits >> ((a + n * (b | 1)) % 64) & 1 for n in range(10))


def _halves(name: str, seed: int) -> tuple[bytes, bytes]:
    digest = hashlib.blake2b(name.encode(), digest_size=16, salt=seed.to_bytes(8)).digest()
    return digest[:8], digest[8:]


def test_the_same_keys_and_seed_make_the_same_bytes_in_any_order() -> None:
    assert bytes(Filter.build(keys(100), 100)) == bytes(Filter.build(reversed(keys(100)), 100))
    assert bytes(Filter.build(keys(100), 100)) != bytes(Filter.build(keys(100), 100, seed=1))


GOOD = bytes(Filter.build(keys(10), 10))


def summed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


INVALID = [
    (b"", "0 bytes are no filter"),
    (bytes(20), "20 bytes"),
    (os.urandom(4_000), "SXPF"),
    (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "checksum"),
    (GOOD[:60] + bytes([GOOD[60] ^ 1]) + GOOD[61:], "checksum"),
    (GOOD[:-4], "checksum"),
    (summed(b"SXPF\2" + GOOD[5:-32]), "version 2"),
    (summed(GOOD[:6] + b"md5".ljust(16, b"\0") + GOOD[22:-32]), "md5"),
    (summed(GOOD[:5] + b"\0" + GOOD[6:-32]), "0 probes"),
    (summed(GOOD[:-32] + b"\0"), "does not fit"),
    (summed(GOOD[:38] + bytes(8) + GOOD[46:-32]), "does not fit"),
    (bytes(Filter.build([], 10)), "from no key"),
]


def test_p05_anything_else_is_invalid() -> None:
    for data, says in INVALID:
        with pytest.raises(Invalid, match=says):
            Filter.parse(data)
        with pytest.raises(Invalid):
            Filter.decode(base64.b64encode(data).decode())


def test_p05_text_that_is_no_base64_is_invalid() -> None:
    for text in ("", "?", "abc", "é", "U1hQRg"):
        with pytest.raises(Invalid):
            Filter.decode(text)


def test_filter_of_impossible_size_is_refused() -> None:
    with pytest.raises(Invalid):
        Filter.build([Item("cold", "data/", prefix=True)], 1)
    for expected, rate, seed in ((-1, 0.01, 0), (10, 0.0, 0), (10, 1.0, 0), (10, 0.01, -1), (10**12, 0.01, 0)):
        with pytest.raises(Invalid):
            Filter.build([], expected, false_positives=rate, seed=seed)
