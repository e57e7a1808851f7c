"""A set of keys as bits: for jobs with millions of objects. It never denies a key it was built from.

A Bloom filter (Bloom 1970) whose probes are made of two hashes (Kirsch and Mitzenmacher 2006). The bytes are the same
on every machine and in every version of Python:

| bytes | what |
| --- | --- |
| 4 | ``SXPF`` |
| 1 | version, 1 |
| 1 | probes a key, 1 to 32 |
| 16 | name of the hash, ``blake2b-128``, filled up with NUL |
| 8 | seed |
| 8 | keys it was built from |
| 8 | bits |
| n | the bits; bit ``i`` is ``1 << i % 8`` of byte ``i // 8`` |
| 32 | SHA-256 of all that is before |

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

from sexton.protection.errors import Invalid
from sexton.protection.model import Item

MAGIC, VERSION, HASH = b"SXPF", 1, b"blake2b-128"
_HEAD = struct.Struct(">4sBB16sQQQ")
_SUM_BYTES = 32
_HALVES = struct.Struct(">QQ")
MAX_PROBES = 32
MAX_BITS = 1 << 33
"""A gigabyte: 500 million keys at one false positive in a thousand."""


class Filter:
    """Bits, and how to read them; made by ``build`` or ``parse``."""

    def __init__(self, bits: bytearray | bytes, size: int, probes: int, seed: int, count: int) -> None:
        """``size``: bits that are used; ``count``: keys it was built from."""
        self.size, self.probes, self.seed, self.count = size, probes, seed, count
        self._bits = bits
        self._salt = seed.to_bytes(8)

    @classmethod
    def build(cls, items: Iterable[Item], expected: int, *, false_positives: float = 0.001, seed: int = 0) -> Self:
        """Build one.

        Args:
            items: exact objects; a filter cannot be asked about prefixes.
            expected: about how many; with more of them there are more false positives, never a false negative.
            false_positives: share of other keys that are taken for ones of the set, and kept.
            seed: another one has other false positives.

        Raises:
            Invalid: no filter of this size can be made, or an item is a prefix.
        """
        if not 0 < false_positives < 1 or expected < 0 or not 0 <= seed < 1 << 64:
            raise Invalid(f"no filter has {expected} keys, {false_positives} false positives and seed {seed}")
        size = max(64, math.ceil(-max(1, expected) * math.log(false_positives) / math.log(2) ** 2))
        if size > MAX_BITS:
            raise Invalid(f"{expected} keys are too many for one filter; register several, or prefixes")
        made = cls(bytearray(-(-size // 8)), size, min(MAX_PROBES, max(1, round(-math.log2(false_positives)))), seed, 0)
        made._add(items)
        return made

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read one; what is not exactly one is refused, so nothing that protects nothing is taken for one.

        Raises:
            Invalid: see above.
        """
        if len(data) < _HEAD.size + _SUM_BYTES:
            raise Invalid(f"{len(data)} bytes are no filter; build it with sexton.client")
        body, told = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
        magic, version, probes, name, seed, count, size = _HEAD.unpack_from(body)
        if magic != MAGIC:
            raise Invalid("this is no filter of sexton.client: it does not begin with SXPF")
        if version != VERSION or name.rstrip(b"\0") != HASH:
            raise Invalid(f"a filter of version {version} with {name.rstrip(bytes(1))!r} is unknown; this is version 1")
        if hashlib.sha256(body).digest() != told:
            raise Invalid("the filter's checksum is wrong: it was cut off or changed on its way; send it again")
        if not 1 <= probes <= MAX_PROBES or not 0 < size <= MAX_BITS or len(body) - _HEAD.size != -(-size // 8):
            raise Invalid(f"the filter says {size} bits and {probes} probes, which does not fit its {len(data)} bytes")
        if not count:
            raise Invalid("the filter was built from no key: it protects nothing")
        return cls(body[_HEAD.size :], size, probes, seed, count)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read one in base64, as it travels in JSON. Raises as ``parse`` does."""
        try:
            return cls.parse(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as e:
            raise Invalid(f"the filter is no base64: {e}") from e

    def __bytes__(self) -> bytes:
        """Return the bytes that ``parse`` reads."""
        head = _HEAD.pack(MAGIC, VERSION, self.probes, HASH, self.seed, self.count, self.size)
        body = head + bytes(self._bits)
        return body + hashlib.sha256(body).digest()

    def encode(self) -> str:
        """Return it in base64."""
        return base64.b64encode(bytes(self)).decode()

    def covers(self, vault: str, key: str) -> bool:
        """Tell whether the key may be one of the set; False is certain."""
        a, b = self._hash(vault, key)
        bits, size = self._bits, self.size
        for _ in range(self.probes):
            at = a % size
            if not bits[at >> 3] >> (at & 7) & 1:
                return False
            a += b
        return True

    def _add(self, items: Iterable[Item]) -> None:
        bits, size, probes = self._bits, self.size, range(self.probes)
        assert isinstance(bits, bytearray)
        for vault, key, prefix in items:
            if prefix:
                raise Invalid(f"a filter cannot be asked about a prefix: {vault}/{key}")
            a, b = self._hash(vault, key)
            for _ in probes:
                at = a % size
                bits[at >> 3] |= 1 << (at & 7)
                a += b
            self.count += 1

    def _hash(self, vault: str, key: str) -> tuple[int, int]:
        name = f"{vault}\0{key}".encode()
        a, b = _HALVES.unpack(hashlib.blake2b(name, digest_size=16, salt=self._salt).digest())
        return a, b | 1
