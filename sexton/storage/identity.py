"""One identity for one object: its vault's name and its key, whatever a name for it looks like. Pure.

A store knows keys, which are bytes: what a listing shows is exact. Names come from people and from owners' records, as
``VAULT/KEY`` or as a URL, and there the same object may be written in several ways.
"""

import re
import unicodedata
from collections.abc import Mapping
from urllib.parse import unquote

from sexton.kernel.errors import SextonError
from sexton.storage.model import VaultSpec

S3_SCHEMES = ("s3", "s3a", "s3n")
DECODED = 5
"""Times a name may have been percent-encoded."""
_SLASHES = re.compile("/{2,}")


class Nowhere(SextonError):
    """A name lies in no vault of the instance, or is no name of an object."""


def resolve(name: str, vaults: Mapping[str, VaultSpec]) -> tuple[str, str]:
    """Return vault and key of a name: ``VAULT/KEY``, or a URL of a vault's store. ``%`` is a part of the key.

    A leading ``/`` of the key is dropped; whether there is such an object is not asked.

    Raises:
        Nowhere: it lies in no vault of the instance.
    """
    vault, key = _placed(name, vaults)
    return vault, key.lstrip("/")


def canonical(key: str) -> str:
    """Return the form in which keys and prefixes are compared, whoever wrote them: idempotent, the same for most.

    Percent-encoding is taken away, slashes are single and none is the first, characters are composed (NFC). Several
    objects may share it. So it may say that an object is known which is not; never that a known one is unknown.
    """
    if "%" not in key and "//" not in key and key[:1] != "/" and key.isascii():
        return key
    for _ in range(DECODED):
        if (plain := unquote(key)) == key:
            break
        key = plain
    return unicodedata.normalize("NFC", _SLASHES.sub("/", key).removeprefix("/"))


def _placed(name: str, vaults: Mapping[str, VaultSpec]) -> tuple[str, str]:
    if "://" not in name:
        vault, slash, key = name.partition("/")
        if vault in vaults and slash:
            return vault, key
        raise Nowhere(f"{name!r} names no vault of the instance; write VAULT/KEY; vaults: {', '.join(sorted(vaults))}")
    scheme, _, rest = name.partition("://")
    if scheme == "file":
        places = [(v, f"{v.location.rstrip('/')}/{v.prefix}") for v in vaults.values() if v.kind == "local"]
        host, slash, path = rest.partition("/")  # as it is written: '#', '?' and '%' are parts of a key
        if host not in ("", "localhost") or not slash:
            raise Nowhere(f"{name!r}: write file:///PATH, with a path of this machine")
        rest = f"/{path}"
    elif scheme in S3_SCHEMES:
        places = [(v, f"{v.location}/{v.prefix}") for v in vaults.values() if v.kind == "s3"]
    else:
        raise Nowhere(f"{name!r}: write VAULT/KEY, s3://BUCKET/KEY or file:///PATH")
    found = [(spec, root) for spec, root in places if rest.startswith(root)]
    if not found:
        raise Nowhere(f"{name!r} lies in no vault of the instance; see: sexton vault list")
    spec, root = max(found, key=lambda its: len(its[1]))
    return spec.name, rest.removeprefix(root)
