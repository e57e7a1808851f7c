"""A Bloom filter of keys, for jobs with millions of objects. It covers every key from which it was built.

The probes of a key are made from two hashes (Bloom 1970, Kirsch and Mitzenmacher 2006). The bytes are the same on every
machine and in every version of Python:

| bytes | content |
| --- | --- |
| 4 | ``SXPF`` |
| 1 | version, 1 |
| 1 | probes per key, 1 to 32 |
| 16 | name of the hash, ``blake2b-128``, padded with NUL |
| 8 | seed |
| 8 | number of keys from which it was built |
| 8 | number of bits |
| n | the bits; bit ``i`` is ``1 << i % 8`` of byte ``i // 8`` |
| 32 | SHA-256 of all preceding bytes |

Numbers are big-endian. A key is hashed as ``VAULT NUL KEY`` in UTF-8, the seed is the hash's salt; the probes are
``(a + n * b) % bits`` of the digest's halves ``a`` and ``b | 1``.
"""

import base64
import binascii
import hashlib
import math
import struct
from collections.abc import Iterable
from typing import Self

from sexton.protection.model import Invalid, Item

MAGIC, VERSION, HASH = b"SXPF", 1, b"blake2b-128"
_HEAD = struct.Struct(">4sBB16sQQQ")
_SUM_BYTES = 32
_HALVES = struct.Struct(">QQ")
MAX_PROBES = 32
MAX_BITS = 1 << 33
"""One gigabyte: 500 million keys with one false positive in a thousand."""


class Filter:
    """A Bloom filter; made by ``build`` or ``parse``."""

    def __init__(self, bits: bytearray | bytes, size: int, probes: int, seed: int, count: int) -> None:
        """``size``: number of bits; ``count``: number of keys from which the filter was built."""
        self.size, self.probes, self.seed, self.count = size, probes, seed, count
        self._bits = bits
        self._salt = seed.to_bytes(8)

    @classmethod
    def build(cls, items: Iterable[Item], expected: int, *, false_positives: float = 0.001, seed: int = 0) -> Self:
        """Build a filter of exact objects; it cannot contain prefixes.

        ``expected``: about how many items; more items cause more false positives, never a false negative.
        ``false_positives``: share of other keys that the filter covers too, so that their deletion is blocked; another
        ``seed`` causes others.

        Raises:
            Invalid: the arguments are out of range, too many keys are expected, or an item is a prefix.
        """
        if not 0 < false_positives < 1 or expected < 0 or not 0 <= seed < 1 << 64:
            raise Invalid(
                f"a filter cannot have {expected} keys, a share of {false_positives} false positives and seed {seed}; "
                "use 0 or more keys, a share between 0 and 1, and a seed of 64 bits"
            )
        size = max(64, math.ceil(-max(1, expected) * math.log(false_positives) / math.log(2) ** 2))
        if size > MAX_BITS:
            raise Invalid(f"{expected} keys are too many for one filter; register several, or prefixes")
        probes = min(MAX_PROBES, max(1, round(-math.log2(false_positives))))
        bits = bytearray(-(-size // 8))
        built = cls(bits, size, probes, seed, count=0)
        for vault, key, prefix in items:
            if prefix:
                raise Invalid(f"a filter cannot contain a prefix: {vault}/{key}; register prefixes without a filter")
            probe, step = built._hash(vault, key)
            for _ in range(probes):
                bit = probe % size
                bits[bit >> 3] |= 1 << (bit & 7)
                probe += step
            built.count += 1
        return built

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a filter from its bytes.

        Raises:
            Invalid: the bytes are not exactly one filter, or the filter covers nothing.
        """
        if len(data) < _HEAD.size + _SUM_BYTES:
            raise Invalid(f"{len(data)} bytes are no filter; build it with sexton.client")
        body, checksum = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
        magic, version, probes, name, seed, count, size = _HEAD.unpack_from(body)
        if magic != MAGIC:
            raise Invalid("these bytes are no filter: they do not begin with SXPF; build it with sexton.client")
        hash_name = name.rstrip(b"\0")
        if version != VERSION or hash_name != HASH:
            raise Invalid(
                f"a filter of version {version} with hash {hash_name!r} cannot be read; "
                f"use version {VERSION} with {HASH!r}"
            )
        if hashlib.sha256(body).digest() != checksum:
            raise Invalid("the filter's checksum is wrong: it was truncated or changed on its way; send it again")
        if not 1 <= probes <= MAX_PROBES or not 0 < size <= MAX_BITS or len(body) - _HEAD.size != -(-size // 8):
            raise Invalid(
                f"the filter's header gives {size} bits and {probes} probes, which does not fit its {len(data)} bytes"
            )
        if not count:
            raise Invalid("the filter was built from no key: it protects nothing")
        return cls(body[_HEAD.size :], size, probes, seed, count)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read a filter from base64, as JSON carries it. Raises as ``parse`` does."""
        try:
            return cls.parse(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as e:
            raise Invalid(f"the filter is not base64: {e}") from e

    def __bytes__(self) -> bytes:
        """Return the bytes that ``parse`` reads."""
        head = _HEAD.pack(MAGIC, VERSION, self.probes, HASH, self.seed, self.count, self.size)
        body = head + bytes(self._bits)
        return body + hashlib.sha256(body).digest()

    def encode(self) -> str:
        """Return the filter in base64."""
        return base64.b64encode(bytes(self)).decode()

    @property
    def stored_bytes(self) -> int:
        """How many bytes it has when it is stored."""
        return _HEAD.size + len(self._bits) + _SUM_BYTES

    def share_of_all_keys(self) -> float:
        """Return about which share of all keys the filter covers, whatever it was built from."""
        ones = int.from_bytes(self._bits).bit_count()
        return float(min(1.0, ones / self.size) ** self.probes)

    def covers(self, vault: str, key: str) -> bool:
        """Return whether the key may be one of the set; False is certain."""
        probe, step = self._hash(vault, key)
        bits, size = self._bits, self.size
        for _ in range(self.probes):
            bit = probe % size
            if not bits[bit >> 3] >> (bit & 7) & 1:
                return False
            probe += step
        return True

    def _hash(self, vault: str, key: str) -> tuple[int, int]:
        name = f"{vault}\0{key}".encode()
        first, second = _HALVES.unpack(hashlib.blake2b(name, digest_size=16, salt=self._salt).digest())
        return first, second | 1
