"""Decide which keys and prefixes may reach a vault, and whether two vaults overlap.

Pure: no clock, no I/O. Doubtful keys are refused here, before there is a request that could delete them.

Resolve names of objects to one identity: the name of a vault and a key. Pure.

A listing shows keys exactly, as bytes. Names come from people and from owners' records, as ``VAULT/KEY`` or as a URL,
which can spell the same object in several ways.
"""

import datetime as dt
import re
import string
import unicodedata
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from sexton.kernel.errors import BadInput, SextonError
from sexton.kernel.trust import is_loopback
from sexton.storage.model import MARKER_KEY, PAGE_SECONDS, RESERVED_PREFIX, KeyOutcome, KeyResult, Probe, VaultSpec

ID_CHARACTERS = frozenset(string.ascii_letters + string.digits + ".-")
"""Characters of ids; every other character is a separator. A CHECK in the schema has the same rule.

Ids of some instances may contain ``_``, too; a trigger of the schema lets no prefix of theirs end with it.
"""
MAX_KEY_BYTES = 1_024
"""The longest key of S3, and of a mark: a CHECK in the schema has the same rule."""
ROUNDING = dt.timedelta(seconds=1)
"""Differences up to this between two instants that a store shows of one write."""
_RESERVED = RESERVED_PREFIX.rstrip("/")
DRAFT = ".draft-"
"""Prefix of the name of Sexton's own local file until it is complete."""
_MARKER = MARKER_KEY.removeprefix(RESERVED_PREFIX)
_AWS_HOST = re.compile(r"s3[a-z0-9.-]*\.amazonaws\.com")


def check_key(key: str) -> None:
    """Refuse a key that could mean another object than its text.

    Empty, ``.`` and ``..`` segments are refused because stores disagree on them: SeaweedFS treats ``a//b`` as ``a/b``,
    a file system treats ``a/./b`` as ``a/b``. One trailing ``/`` is a key of its own (a folder placeholder in S3).

    Raises:
        BadInput: the key is empty, absolute, ambiguous, has a NUL, is not UTF-8 or is in a ``_sexton/`` folder.
    """
    _check_path(key, "key", key.removesuffix("/").split("/"))


def check_listing(prefix: str) -> None:
    """Refuse a prefix that cannot be listed: the root, an ambiguous one, or one that would show ``_sexton/``.

    It need not end with a separator, so a listing can be cut into parts; a *delete* needs ``check_prefix``.

    Raises:
        BadInput: the prefix is such a one.
    """
    _check_path(prefix, "prefix", prefix.removesuffix("/").split("/"))
    if RESERVED_PREFIX.startswith(prefix):
        raise BadInput(f"prefix {prefix!r} would include Sexton's own {RESERVED_PREFIX}; use a longer prefix")


def check_prefix(prefix: str) -> None:
    """Refuse a prefix under which nothing may be deleted: as ``check_listing``, and also one that ends inside an id.

    After a letter, digit, ``.`` or ``-`` the next character may belong to the same id.

    Raises:
        BadInput: the prefix is such a one.
    """
    check_listing(prefix)
    if prefix[-1] in ID_CHARACTERS or not prefix[-1].isascii():
        raise BadInput(f"prefix {prefix!r} also matches {prefix}2; end it with a separator such as '/'")


def check_root(prefix: str) -> None:
    """Refuse a vault's own prefix unless it is empty (the whole bucket or directory) or a folder's path.

    Raises:
        BadInput: the prefix does not end with ``/``, or ``check_listing`` refuses it.
    """
    if prefix:
        check_listing(prefix)
        if not prefix.endswith("/"):
            raise BadInput(f"the prefix {prefix!r} of a vault must end with '/'")


def check_own(name: str) -> None:
    """Refuse a name below ``_sexton/`` that is the marker's (or of a draft of it), a folder's or ambiguous.

    Raises:
        BadInput: the name is such a one.
    """
    _check_path(name, "name", name.split("/"))
    if not is_own(name):
        raise BadInput(f"{RESERVED_PREFIX}{name} is the vault's marker, or could be taken for it; use another name")


def check_own_prefix(prefix: str) -> None:
    """Refuse a prefix of names below ``_sexton/`` that is empty or ambiguous.

    Raises:
        BadInput: the prefix is such a one.
    """
    _check_path(prefix, "prefix", prefix.removesuffix("/").split("/"))


def is_own(name: str) -> bool:
    """Tell whether a name below ``_sexton/`` is neither the marker's nor that of a local file's draft."""
    return not (name.startswith((_MARKER, f".{_MARKER}")) or name.rpartition("/")[2].startswith(DRAFT))


def unsupported_options(spec: VaultSpec, probe: Probe) -> str:
    """Return why a probed store does not support a vault's options, and what to do; empty where it supports them."""
    if spec.conditional and spec.versions == "purge":
        return (
            "conditional deletes compare only the ETag of the current version, but purging also removes older ones: "
            "choose --conditional or --versions purge"
        )
    if spec.conditional and not (probe.etag_single or probe.etag_multi):
        return (
            "this store does not honour If-Match on deletes: it would delete an object that was rewritten meanwhile; "
            "omit --conditional, or use another store"
        )
    if spec.versions == "purge" and probe.versions is False:
        return "this store does not list versions, or does not delete them by version id; omit --versions purge"
    return ""


def inside_other_vault(key: str) -> bool:
    """Tell whether a key relative to a vault is in the ``_sexton/`` folder of another vault inside it."""
    return f"/{RESERVED_PREFIX}" in key


def is_other_marker(key: str) -> bool:
    """Tell whether a key relative to a vault is the marker of another vault inside it."""
    return key.endswith(f"/{MARKER_KEY}")


def overlaps(a: VaultSpec, b: VaultSpec, endpoint_url: str) -> bool:
    """Tell whether an object could be in both vaults.

    Args:
        a: one vault; a ``local`` one with its canonical absolute path (symbolic links resolved by the caller).
        b: the other one.
        endpoint_url: the endpoint of a vault that names none; empty for AWS.
    """
    if a.kind != b.kind:
        return False
    if a.kind == "local":
        first, second = (f"{spec.location.rstrip('/')}/{spec.prefix}" for spec in (a, b))
        return nested(first, second)
    if canonical_endpoint(a.endpoint or endpoint_url) != canonical_endpoint(b.endpoint or endpoint_url):
        return False
    return a.location == b.location and nested(a.prefix, b.prefix)


def canonical_endpoint(url: str) -> str:
    """Return one spelling per store: host, port unless it is the scheme's default, path; empty for AWS.

    The scheme is dropped: a host counts as the same store over http and https, because refusing two separate vaults
    costs less than accepting two that are the same.

    Raises:
        BadInput: the port is not a number.
    """
    if not url:
        return ""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        number, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError as error:
        raise BadInput(f"the port of endpoint {url!r} is not valid; use a number up to 65535") from error
    if _AWS_HOST.fullmatch(host):
        return ""
    if is_loopback(host):
        host = "127.0.0.1"
    default_port = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if number in (None, default_port) else f":{number}"
    return f"{host}{port}{parts.path.rstrip('/')}"


def _check_path(path: str, noun: str, segments: list[str]) -> None:
    if not path:
        raise BadInput(f"an empty {noun} would match the whole vault; give a {noun}")
    if path.startswith("/"):
        raise BadInput(f"{noun} {path!r} must be relative to its vault; remove the leading '/'")
    if "\0" in path:
        raise BadInput(f"{noun} {path!r} has a NUL character, which no store accepts; correct it")
    if not {"", ".", ".."}.isdisjoint(segments):
        raise BadInput(
            f"{noun} {path!r} has an empty, '.' or '..' segment, which stores resolve differently; remove it"
        )
    if _RESERVED in segments:
        raise BadInput(
            f"{noun} {path!r} is in a {RESERVED_PREFIX} folder, which is reserved for Sexton; use another one"
        )
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{noun} {path!r} is not valid Unicode text, which no store accepts; correct it") from error


def nested(a: str, b: str) -> bool:
    """Tell whether a key may begin with both prefixes."""
    return a.startswith(b) or b.startswith(a)


def is_rewritten(written: str, seen: str) -> bool:
    """Return whether an object was written again since it was seen, by its last writes (``ListedObject.written``).

    Content shows it neither in a directory nor where the same content was written. A second's difference does not
    count: a listing and a look-up may round differently, and what a check judges is older than an hour.

    Args:
        written: as it is now; empty: unknown, which counts as rewritten.
        seen: as it was seen; empty: not known, so nothing is compared.
    """
    if not seen or written == seen:
        return False
    if not written:
        return True
    return abs(dt.datetime.fromisoformat(written) - dt.datetime.fromisoformat(seen)) > ROUNDING


def rewritten_text(written: str, seen: str) -> str:
    """Return in words that an object was written again; the arguments are those of ``is_rewritten``."""
    return f"was last written at {seen} UTC when a check saw it, and at {written or 'an unknown time'} UTC now"


def out_of_time(key: str) -> KeyResult:
    """Return the result of a key for which its page had no time left."""
    reason = f"its page took over {PAGE_SECONDS:.0f} s; tried again"
    return KeyResult(key=key, outcome=KeyOutcome.THROTTLED, reason=reason)


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
