"""Which keys and prefixes may reach a vault, and when two vaults are the same place.

Pure: no clock, no I/O. What is doubtful is refused here, before a request exists that could delete it.
"""

import ipaddress
import re
import string
from urllib.parse import urlsplit

from sexton.kernel.errors import BadInput
from sexton.storage.model import MARKER_KEY, RESERVED_PREFIX, Probe, VaultSpec

ID_CHARACTERS = frozenset(string.ascii_letters + string.digits + ".-")
"""What ids are made of; every other character separates. The schema's CHECK says the same."""
_RESERVED = RESERVED_PREFIX.rstrip("/")
DRAFT = ".draft-"
"""What a local file of Sexton's own is called until it is complete."""
_MARKER = MARKER_KEY.removeprefix(RESERVED_PREFIX)
_AWS_HOST = re.compile(r"s3[a-z0-9.-]*\.amazonaws\.com")


def check_key(key: str) -> None:
    """Refuse a key that could mean another object than it says.

    Empty, ``.`` and ``..`` segments are refused because stores disagree on them: SeaweedFS takes ``a//b`` for ``a/b``,
    a file system takes ``a/./b`` for it. One trailing ``/`` is a key of its own (a folder placeholder in S3).

    Raises:
        BadInput: the key is empty, absolute, ambiguous, holds NUL, is not UTF-8 or lies in a ``_sexton/`` folder.
    """
    _check_path(key, "key", key.removesuffix("/").split("/"))


def check_listing(prefix: str) -> None:
    """Refuse a prefix that cannot be listed: the root, an ambiguous one, or one that would show ``_sexton/``.

    It need not end with a separator, so a listing can be cut into shards; what is *deleted* takes ``check_prefix``.

    Raises:
        BadInput: see above.
    """
    _check_path(prefix, "prefix", prefix.removesuffix("/").split("/"))
    if RESERVED_PREFIX.startswith(prefix):
        raise BadInput(f"prefix {prefix!r} would take in Sexton's own {RESERVED_PREFIX}; name a longer prefix")


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that may not be deleted under: all of ``check_listing``, and one that stops inside an id.

    Ids are made of letters, digits, ``.`` and ``-``; after one of these the next character may belong to the same id.

    Raises:
        BadInput: see above.
    """
    check_listing(prefix)
    if prefix[-1] in ID_CHARACTERS or not prefix[-1].isascii():
        raise BadInput(f"prefix {prefix!r} must end with a separator such as '/' or '_': it would also mean {prefix}2")


def check_root(prefix: str) -> None:
    """Refuse a vault's own prefix unless it is empty (the whole bucket or directory) or a folder's path.

    Raises:
        BadInput: it does not end with ``/``, or ``check_listing`` refuses it.
    """
    if prefix:
        check_listing(prefix)
        if not prefix.endswith("/"):
            raise BadInput(f"the prefix {prefix!r} of a vault must end with '/'")


def check_own(name: str) -> None:
    """Refuse a name below ``_sexton/`` that is the marker's (or of a draft of it), a folder's or ambiguous.

    Raises:
        BadInput: see above.
    """
    _check_path(name, "name", name.split("/"))
    if not is_own(name):
        raise BadInput(f"{RESERVED_PREFIX}{name} is the vault's marker, or too like it; choose another name")


def check_own_prefix(prefix: str) -> None:
    """Refuse what cannot be the beginning of names below ``_sexton/``: nothing, or an ambiguous path.

    Raises:
        BadInput: see above.
    """
    _check_path(prefix, "prefix", prefix.removesuffix("/").split("/"))


def is_own(name: str) -> bool:
    """Tell whether a name below ``_sexton/`` is neither the marker's nor that of a local file's draft."""
    return not (name.startswith((_MARKER, f".{_MARKER}")) or name.rpartition("/")[2].startswith(DRAFT))


def lacks(spec: VaultSpec, probe: Probe) -> str:
    """Return why a vault's options cannot be kept on a store that was probed; empty where they can."""
    if spec.conditional and spec.versions == "purge":
        return (
            "conditional deletes compare the ETag of the current version alone, and purging removes older ones, which "
            "nobody compared: choose --conditional or --versions purge"
        )
    if spec.conditional and not (probe.etag_single or probe.etag_multi):
        return (
            "this store does not honour If-Match on deletes: an object that was rewritten meanwhile would be deleted; "
            "leave --conditional out, or use another store"
        )
    if spec.versions == "purge" and probe.versions is False:
        return "this store does not list versions, or keeps them when they are deleted: leave --versions purge out"
    return ""


def inside_other_vault(key: str) -> bool:
    """Tell whether a key relative to our vault lies in the ``_sexton/`` folder of a vault further down."""
    return f"/{RESERVED_PREFIX}" in key


def is_other_marker(key: str) -> bool:
    """Tell whether a key relative to our vault is the marker of a vault further down (ours is not)."""
    return key.endswith(f"/{MARKER_KEY}")


def overlaps(a: VaultSpec, b: VaultSpec, endpoint_url: str) -> bool:
    """Tell whether an object could be in both vaults.

    Args:
        a: one vault; a ``local`` one with its canonical absolute path (symbolic links resolved by the caller).
        b: the other one.
        endpoint_url: the endpoint meant where a vault names none; empty for AWS.
    """
    if a.kind != b.kind:
        return False
    if a.kind == "local":
        return _nested(_directory(a), _directory(b))
    if canonical_endpoint(a.endpoint or endpoint_url) != canonical_endpoint(b.endpoint or endpoint_url):
        return False
    return a.location == b.location and _nested(a.prefix, b.prefix)


def canonical_endpoint(url: str) -> str:
    """Return one spelling per store: host, port unless it is the scheme's own, path; empty for AWS.

    The scheme is dropped: the same host is taken for the same store over http and https, because refusing two vaults
    that are apart is cheaper than accepting two that are one.

    Raises:
        BadInput: the port is no number.
    """
    if not url:
        return ""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        number, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError as error:
        raise BadInput(f"endpoint {url!r} has no valid port") from error
    if _AWS_HOST.fullmatch(host):
        return ""
    port = "" if number in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f":{number}"
    return f"{'127.0.0.1' if _is_loopback(host) else host}{port}{parts.path.rstrip('/')}"


def _check_path(path: str, what: str, segments: list[str]) -> None:
    if not path:
        raise BadInput(f"an empty {what} would mean the whole vault; name what is meant")
    if path.startswith("/"):
        raise BadInput(f"{what} {path!r} must be relative to its vault; remove the leading '/'")
    if "\0" in path:
        raise BadInput(f"{what} {path!r} holds a NUL character; no store can hold such an object")
    if not {"", ".", ".."}.isdisjoint(segments):
        raise BadInput(f"{what} {path!r} has an empty, '.' or '..' segment: stores take it for another object")
    if _RESERVED in segments:
        raise BadInput(f"{what} {path!r} is in a {RESERVED_PREFIX} folder, which belongs to Sexton itself")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{what} {path!r} is not valid Unicode text; no store can be asked for it") from error


def _nested(a: str, b: str) -> bool:
    return a.startswith(b) or b.startswith(a)


def _directory(spec: VaultSpec) -> str:
    return f"{spec.location.rstrip('/')}/{spec.prefix}"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
