"""List an S3 bucket: the result is complete or a fault, whatever the store's order and page sizes are.

A page is read completely or refused: a usual one by one regular expression, any other by an XML parser.
"""

import operator
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from sexton.storage.model import PAGE_KEYS, RESERVED_PREFIX, ListedObject, VaultPart, rows
from sexton.storage.policy import inside_other_vault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.transport import UnreadableReply, document, has_plain_text

FOLDER_PAGES = 10
"""Pages that are searched for the folders of a folder; one that needs more is listed as it is, or cut by keys."""
FIELDS = ("Key", "Size", "ETag", "LastModified")
"""The elements of an object, in the order of ``ListedObject``."""
CUT = "CutOutObjects"
"""The element in the place of objects that were cut out of a page."""
SECONDS = len("YYYY-MM-DDTHH:MM:SS")
_FIELD = re.compile(b'<(Key>|Size>|LastModified>|ETag>(?:&quot;|&#34;|"|))')
_TEXT = "[ -%'-;=?-~]*+"
"""Visible ASCII without ``<``, ``>`` and ``&``."""
_OTHER_FIELDS = (
    f"(?:<(?:StorageClass>{_TEXT}</StorageClass|ChecksumAlgorithm>{_TEXT}</ChecksumAlgorithm|Type>{_TEXT}</Type|"
    f"ChecksumType>{_TEXT}</ChecksumType|Owner>(?:<(?:ID>{_TEXT}</ID|DisplayName>{_TEXT}</DisplayName)>)*+</Owner)>)*+"
)


class OrderProof:
    """Proves that the keys of a listing rise from page to page, in byte order or in path order.

    A key that steps back means that a page was repeated or out of place, so another page may be missing.
    """

    def __init__(self, *, allow_path_order: bool = True) -> None:
        self._last_key = ""
        self.in_byte_order, self._in_path_order = True, allow_path_order

    def extend(self, keys: Sequence[str]) -> bool:
        """Add the keys of the next page; return whether all keys so far are in one of the orders."""
        self.in_byte_order = self.in_byte_order and _rise(self._last_key, keys)
        if self._in_path_order and keys:
            folder = keys[0][: keys[0].rfind("/") + 1]
            slashes = "".join(keys).count("/") if self.in_byte_order and keys[-1].startswith(folder) else -1
            # Where all are directly in one folder, both orders are the same.
            paths = [*map(_path_order, keys[:1] if slashes == len(keys) * folder.count("/") else keys)]
            self._in_path_order = _rise(_path_order(self._last_key), paths)
        if keys:
            self._last_key = keys[-1]
        return self.in_byte_order or self._in_path_order


def pages(
    bucket: S3Bucket, prefix: str, *, own: bool = False, loose: bool = False, after: str = "", until: str = ""
) -> Iterator[list[ListedObject]]:
    """Yield pages of the objects under a prefix relative to the vault's.

    Args:
        bucket: the vault's.
        prefix: empty for the whole vault.
        own: also Sexton's own files, and those of other vaults inside this one; otherwise the latter are a fault.
        loose: only objects in no folder below the prefix.
        after: only keys beyond this one; the listing is refused unless the store lists in byte order.
        until: only keys up to this one; as ``after``.

    Raises:
        VaultFault: the store does not answer, or its pages cannot be complete.
    """
    full_prefix = bucket.full(prefix)
    first_key = bucket.full(after) if after else ""
    last_key = bucket.full(until) if until else ""
    order = OrderProof(allow_path_order=not (after or until))
    vault_prefix = len(bucket.prefix)
    token = ""
    while True:
        page = _page(bucket, full_prefix, token, after=first_key, loose=loose)
        # The vault's own folder placeholder, which would be the first key, is no object in it.
        start = int(page.keys[:1] == [bucket.prefix])
        keys, columns = page.keys[start:], [column[start:] for column in page.others]
        if not order.extend(keys) or (first_key and keys and keys[0] <= first_key):
            raise bucket.fault("BAD_REPLY", f"a page from {keys[0]!r} on is in no order, or was listed before")
        # In byte order, what is between two keys begins as both of them do.
        for key in keys if loose or not order.in_byte_order else (*keys[:1], *keys[-1:]):
            if not key.startswith(full_prefix) or (loose and "/" in key[len(full_prefix) :]):
                raise bucket.fault("BAD_REPLY", f"{key!r} was listed under {full_prefix!r}")
        is_last = not page.is_truncated
        if last_key and keys and keys[-1] > last_key:
            keys, is_last = keys[: bisect_right(keys, last_key)], True
        objects = rows(ListedObject, [key[vault_prefix:] for key in keys] if vault_prefix else keys, *columns)
        if not own and RESERVED_PREFIX in "\n".join(keys):
            objects = _without_own(bucket, objects)
        if own or objects:
            yield objects
        if is_last:
            return
        token = _next_token(bucket, page, prefix, token)


def _without_own(bucket: S3Bucket, objects: Sequence[ListedObject]) -> list[ListedObject]:
    """Return the objects that are no files of Sexton; refuse one of another vault inside this one."""
    if foreign := next((o.key for o in objects if inside_other_vault(o.key)), ""):
        raise bucket.fault("FOREIGN_MARKER", f"{foreign!r} belongs to another vault inside this one")
    return [listed for listed in objects if not listed.key.startswith(RESERVED_PREFIX)]


def first_key(bucket: S3Bucket, part: VaultPart) -> str | None:
    """Return the first key of a part, relative to the vault; None: it has none.

    Raises:
        VaultFault: as ``pages``.
    """
    full_prefix, after = bucket.full(part.prefix), bucket.full(part.after) if part.after else ""
    keys = _page(bucket, full_prefix, "", after=after, loose=part.loose, most=1).keys
    return bucket.relative(keys[0]) if keys else None


def folders(bucket: S3Bucket, prefix: str) -> Sequence[str] | None:
    """Return the folders directly below a prefix, relative to the vault; None where it is better listed as a whole.

    That is where finding them takes over ten pages, or where their names have characters that stores encode: a folder
    whose name was decoded wrongly would be listed as an empty one, without an error.

    Raises:
        VaultFault: as ``pages``.
    """
    names: list[str] = []
    order, token, full_prefix = OrderProof(), "", bucket.full(prefix)
    for _ in range(FOLDER_PAGES):
        page = _page(bucket, full_prefix, token, loose=True)
        if page.has_encoded_folders:
            return None
        for name in page.folders:
            if not (name.startswith(full_prefix) and name.endswith("/") and name.count("/", len(full_prefix)) == 1):
                raise bucket.fault("BAD_REPLY", f"{name!r} was listed as a folder directly below {full_prefix!r}")
        if not order.extend(page.folders):
            raise bucket.fault("BAD_REPLY", f"the folders of {prefix!r} are in no order, or a page was repeated")
        names += [bucket.relative(name) for name in page.folders]
        if not page.is_truncated:
            return names
        token = _next_token(bucket, page, prefix, token)
    return None


def _next_token(bucket: S3Bucket, page: "ListingPage", prefix: str, token: str) -> str:
    """Return the token of the next page; a listing that repeats a token would not end."""
    if page.token in ("", token):
        raise bucket.fault("BAD_REPLY", f"the listing of {prefix!r} is truncated, but has no token for the next page")
    return page.token


def _page(
    bucket: S3Bucket, full_prefix: str, token: str, *, after: str = "", loose: bool = False, most: int = PAGE_KEYS
) -> "ListingPage":
    request: dict[str, str | int] = {"Prefix": full_prefix, "MaxKeys": most}
    if loose:
        request["Delimiter"] = "/"
    if token:
        request["ContinuationToken"] = token
    elif after:
        request["StartAfter"] = after
    page = bucket.call_with_retries(lambda via: read(via.list_objects(bucket.name, request)))
    if page.is_truncated is None or len(page.keys) > PAGE_KEYS:
        raise bucket.fault("BAD_REPLY", f"the listing of {full_prefix!r} is no ListObjectsV2 page")
    return page


def _path_order(key: str) -> str:
    """Return a text that sorts as a key does in path order: a folder's keys before its longer neighbours."""
    return key.replace("/", "\0")


def _rise(last: str, keys: Sequence[str]) -> bool:
    """Tell whether each key is beyond the one before it."""
    return not keys or (last < keys[0] and all(map(operator.lt, keys, islice(keys, 1, None))))


class ListingPage(NamedTuple):
    """A page of a listing.

    ``keys``, ``others``: the columns of its objects, as in ``ListedObject``. ``token``: of the next page, or empty.
    ``is_truncated``: None: the store does not report it.
    """

    keys: Sequence[str]
    others: Sequence[Sequence[Any]]
    folders: Sequence[str]
    has_encoded_folders: bool
    token: str
    is_truncated: bool | None


def read(body: bytes) -> ListingPage:
    """Return the content of a reply to ListObjectsV2.

    Keys are decoded where the store reports that it encoded them, as the request asks: XML cannot express all keys.

    Raises:
        UnreadableReply: the body is no such document, or an object in it lacks its key or size.
    """
    columns, rest = _usual_objects(body)
    root = document(rest, "ListBucketResult")
    if columns and (rest.count(CUT.encode()), len(root.findall(CUT)), len(root.findall("Contents"))) != (1, 1, 0):
        columns, rest, root = (), body, document(body, "ListBucketResult")
    # Entities that a page declares, and comments, could change a text. A byte order mark may come before `<?xml`.
    if b"<!DOCTYPE" in rest or b"<!--" in rest or b"<?" in rest[len("<?xml") :]:
        raise UnreadableReply(f"declarations or comments in a listing: {body[:80]!r}")
    if not columns:
        names, sizes, etags, written = ([_text(entry, name) for entry in root.findall("Contents")] for name in FIELDS)
        if bad := [size for size in sizes if not size.strip().isdecimal()]:
            raise UnreadableReply(f"an object has the size {bad[0]!r}")
        columns = names, [*map(int, sizes)], [etag.strip('"') for etag in etags], [at[:SECONDS] for at in written]
    keys, *others = columns
    is_encoded = root.findtext("EncodingType") == "url"
    folders = [_text(folder, "Prefix") for folder in root.findall("CommonPrefixes")]
    return ListingPage(
        keys=_decoded(keys) if is_encoded else keys,
        others=others,
        folders=_decoded(folders) if is_encoded else folders,
        has_encoded_folders=is_encoded and any("%" in name or "+" in name for name in folders),
        token=root.findtext("NextContinuationToken") or "",
        is_truncated={"true": True, "false": False}.get(root.findtext("IsTruncated") or ""),
    )


def _usual_objects(body: bytes) -> tuple[Sequence[Sequence[Any]], bytes]:
    """Return the columns of objects as stores usually write them, side by side, and the page with one element instead.

    The first object shows the order of the fields. If any object is written otherwise, there is none, and the page is
    as it was: an XML parser must judge it.
    """
    begin, end = body.find(b"<Contents>"), body.rfind(b"</Contents>") + len(b"</Contents>")
    fields = _FIELD.findall(body, begin, max(0, body.find(b"</Contents>", begin)))
    names = [field.partition(b">")[0].decode() for field in fields]
    if sorted(names) != sorted(FIELDS) or not body.isascii():
        return (), body
    pieces = _object_pattern(tuple(fields)).split(body[begin:end].decode())
    step = len(FIELDS) + 1
    keys, sizes, etags, written = (pieces[names.index(name) + 1 :: step] for name in FIELDS)
    texts = "".join(keys), "".join(etags)
    if any(pieces[::step]) or not has_plain_text("".join(texts)) or '"' in texts[1]:
        return (), body
    return (keys, [*map(int, sizes)], etags, written), b"%b<%b/>%b" % (body[:begin], CUT.encode(), body[end:])


@cache  # stores write a few orders
def _object_pattern(fields: tuple[bytes, ...]) -> re.Pattern[str]:
    """Compile the expression of an object; ``fields``: names in their order, with a ``>`` and a quotation mark."""
    elements = {
        "Key": "<Key>([^<]++)</Key>",
        "Size": f"{_OTHER_FIELDS}<Size>([0-9]{{1,18}})</Size>{_OTHER_FIELDS}",
        "LastModified": f"<LastModified>([0-9T:-]{{{SECONDS}}})[.0-9]*+Z</LastModified>",
    }
    pattern = ""
    for field in fields:
        name, _, mark = field.decode().partition(">")
        pattern += elements.get(name, f"<ETag>{mark}([^<]*){mark}</ETag>")
    return re.compile(f"<Contents>{pattern}</Contents>")


def _text(element: Element, name: str) -> str:
    """Return the text of a child. A key, a size and a folder's name must be one text; others may be missing."""
    children = element.findall(name)
    text = children[0].text if len(children) == 1 and not len(children[0]) else ""
    if not text and name not in ("ETag", "LastModified"):
        raise UnreadableReply(f"an object or folder of a page has not one {name}")
    return text or ""


def _decoded(names: Sequence[str]) -> Sequence[str]:
    """Return decoded names; most have no encoded character."""
    text = "\n".join(names)
    if "%" not in text and "+" not in text:
        return names
    try:
        decoded = unquote_plus(text, errors="strict").split("\n")
    except UnicodeDecodeError as error:
        if len(names) > 1:
            return [decoded for name in names for decoded in _decoded([name])]
        raise UnreadableReply(f"the key {text!r} is not UTF-8: rename or remove that object") from error
    return decoded if len(decoded) == len(names) else [unquote_plus(name) for name in names]  # one has a line break
