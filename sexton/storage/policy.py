"""Decide which keys and prefixes may reach a vault, and in which form keys are compared.

Pure: no clock, no I/O. Doubtful keys are refused here, before there is a request that could delete them.
"""

import datetime as dt
import re
import string
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

from sexton.kernel.errors import WrongUsage
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
_DOUBTFUL = re.compile(rf"/(?:\.{{0,2}}|{_RESERVED})/")
"""A segment between slashes that is refused, or a slash at the end of a key."""
DRAFT = ".draft-"
"""Prefix of the name of Sexton's own local file until it is complete."""
_MARKER = MARKER_KEY.removeprefix(RESERVED_PREFIX)


def check_key(key: str) -> None:
    """Refuse a key that could mean another object than its text.

    Empty, ``.`` and ``..`` segments are refused because stores disagree on them: SeaweedFS treats ``a//b`` as ``a/b``,
    a file system treats ``a/./b`` as ``a/b``. One trailing ``/`` is a key of its own (a folder placeholder in S3).

    Raises:
        BadInput: the key is empty, absolute, ambiguous, has a NUL, is not UTF-8 or is in a ``_sexton/`` folder.
    """
    _check_path(key, "key", key.removesuffix("/").split("/"))


def check_keys(keys: Sequence[str]) -> None:
    """Refuse keys as ``check_key`` does, but look at all of them at once first: few pages have a doubtful one."""
    text = f"/{'/'.join(keys)}/"
    if not text.isascii() or "\0" in text or _DOUBTFUL.search(text):
        for key in keys:
            check_key(key)


def check_listing(prefix: str) -> None:
    """Refuse a prefix that cannot be listed: the root, an ambiguous one, or one that would show ``_sexton/``.

    It need not end with a separator, so a listing can be cut into parts; a *delete* needs ``check_prefix``.

    Raises:
        BadInput: the prefix is such a one.
    """
    _check_path(prefix, "prefix", prefix.removesuffix("/").split("/"))
    if RESERVED_PREFIX.startswith(prefix):
        raise WrongUsage(f"prefix {prefix!r} would include Sexton's own {RESERVED_PREFIX}; use a longer prefix")


def check_prefix(prefix: str) -> None:
    """Refuse a prefix under which nothing may be deleted: as ``check_listing``, and also one that ends inside an id.

    After a letter, digit, ``.`` or ``-`` the next character may belong to the same id.

    Raises:
        BadInput: the prefix is such a one.
    """
    check_listing(prefix)
    if prefix[-1] in ID_CHARACTERS or not prefix[-1].isascii():
        raise WrongUsage(f"prefix {prefix!r} also matches {prefix}2; end it with a separator such as '/'")


def check_root(prefix: str) -> None:
    """Refuse a vault's own prefix unless it is empty (the whole bucket or directory) or a folder's path.

    Raises:
        BadInput: the prefix does not end with ``/``, or ``check_listing`` refuses it.
    """
    if prefix:
        check_listing(prefix)
        if not prefix.endswith("/"):
            raise WrongUsage(f"the prefix {prefix!r} of a vault must end with '/'")


def check_own(name: str) -> None:
    """Refuse a name below ``_sexton/`` that is the marker's (or of a draft of it), a folder's or ambiguous.

    Raises:
        BadInput: the name is such a one.
    """
    _check_path(name, "name", name.split("/"))
    if not is_own(name):
        raise WrongUsage(f"{RESERVED_PREFIX}{name} is the vault's marker, or could be taken for it; use another name")


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


def _check_path(path: str, noun: str, segments: list[str]) -> None:
    if not path:
        raise WrongUsage(f"an empty {noun} would match the whole vault; give a {noun}")
    if path.startswith("/"):
        raise WrongUsage(f"{noun} {path!r} must be relative to its vault; remove the leading '/'")
    if "\0" in path:
        raise WrongUsage(f"{noun} {path!r} has a NUL character, which no store accepts; correct it")
    if not {"", ".", ".."}.isdisjoint(segments):
        raise WrongUsage(
            f"{noun} {path!r} has an empty, '.' or '..' segment, which stores resolve differently; remove it"
        )
    if _RESERVED in segments:
        raise WrongUsage(
            f"{noun} {path!r} is in a {RESERVED_PREFIX} folder, which is reserved for Sexton; use another one"
        )
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise WrongUsage(f"{noun} {path!r} is not valid Unicode text, which no store accepts; correct it") from error


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


DECODED = 5
"""How many times a name may be percent-encoded."""
_SLASHES = re.compile("/{2,}")


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
