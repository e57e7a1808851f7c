"""Resolve names of objects to one identity: the name of a vault and a key. Pure.

A listing shows keys exactly, as bytes. Names come from people and from owners' records, as ``VAULT/KEY`` or as a URL,
which can spell the same object in several ways.
"""

import re
import unicodedata
from collections.abc import Mapping
from urllib.parse import unquote

from sexton.kernel.errors import SextonError
from sexton.storage.model import VaultSpec

S3_SCHEMES = ("s3", "s3a", "s3n")
DECODED = 5
"""How many times a name may be percent-encoded."""
_SLASHES = re.compile("/{2,}")


class NotInAnyVault(SextonError):
    """A name is in no vault of the instance, or does not name an object."""


def resolve(name: str, vaults: Mapping[str, VaultSpec]) -> tuple[str, str]:
    """Return vault and key of a name: ``VAULT/KEY``, or a URL of a vault's store. ``%`` is a part of the key.

    A leading ``/`` of the key is dropped. The object need not exist.

    Args:
        name: as a person or an owner wrote it.
        vaults: the vaults of the instance by name.

    Raises:
        NotInAnyVault: the name is in no vault of the instance.
    """
    if "://" in name:
        vault, key = _resolve_url(name, vaults)
    else:
        vault, slash, key = name.partition("/")
        if vault not in vaults or not slash:
            known = ", ".join(sorted(vaults))
            raise NotInAnyVault(f"{name!r} names no vault of the instance; write VAULT/KEY; vaults: {known}")
    return vault, key.lstrip("/")


def canonical(key: str) -> str:
    """Return the form in which keys and prefixes are compared; for most keys it is the key itself. Idempotent.

    Percent-encoding is removed, slashes are single and no key begins with one, characters are composed (NFC). Several
    objects may share a form, so a comparison may take an unknown object for a known one, but never the reverse.
    """
    if "%" not in key and "//" not in key and key[:1] != "/" and key.isascii():
        return key
    for _ in range(DECODED):
        decoded = unquote(key)
        if decoded == key:
            break
        key = decoded
    return unicodedata.normalize("NFC", _SLASHES.sub("/", key).removeprefix("/"))


def url_roots(vault: VaultSpec) -> tuple[str, ...]:
    """Return the URLs of a vault's root: the URL of an object is one of them, followed by its key."""
    if vault.kind == "local":
        root = f"{vault.location.rstrip('/')}/{vault.prefix}"
        return f"file://{root}", f"file://localhost{root}"
    return tuple(f"{scheme}://{vault.location}/{vault.prefix}" for scheme in S3_SCHEMES)


def _resolve_url(url: str, vaults: Mapping[str, VaultSpec]) -> tuple[str, str]:
    """Return vault and key of a URL; the innermost vault where one contains another."""
    # A URL is not parsed: '#', '?' and '%' are parts of a key.
    containing = [(root, v.name) for v in vaults.values() for root in url_roots(v) if url.startswith(root)]
    if containing:
        root, vault = max(containing, key=lambda found: len(found[0]))
        return vault, url.removeprefix(root)
    scheme = url.partition("://")[0]
    if scheme not in (*S3_SCHEMES, "file"):
        raise NotInAnyVault(f"{url!r}: write VAULT/KEY, s3://BUCKET/KEY or file:///PATH")
    if scheme == "file" and not url.startswith(("file:///", "file://localhost/")):
        raise NotInAnyVault(f"{url!r}: write file:///PATH, with a path of this machine")
    raise NotInAnyVault(f"{url!r} is in no vault of the instance; see: sexton vault list")
