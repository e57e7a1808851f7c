"""Read one page of a listing with a C parser: reading it with boto3 costs twenty times as much as sending the request.

A page is read completely or refused.
"""

from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from lxml import etree

ROOT = "ListBucketResult"
FIELDS = ("Key", "Size", "ETag", "LastModified")
"""The elements of an object, in the order of ``ListedObject``."""
SECONDS = len("YYYY-MM-DDTHH:MM:SS")
# Tests by name run in C; a Python function called for each element would be slow.
_FOREIGN = "count(*) != count(n:*) or count(*/*) != count(*/n:*)"
_ONE_EACH = " and ".join(f"count(n:{name}) = 1" for name in FIELDS)
_USUAL = f"count(n:Contents[{_ONE_EACH} and not({' | '.join(f'n:{name}/node()[2]' for name in FIELDS)})])"
"""The number of objects that have each element once, and in it one text. Others, such as an owner, do not matter."""


class UnreadableReply(Exception):
    """A 200 whose body is not the document that was requested."""


def read(body: bytes) -> dict[str, Any]:
    """Return the content of a reply to ListObjectsV2, under the names of boto3's reply.

    That is ``IsTruncated``, ``NextContinuationToken``, ``CommonPrefixes`` (names of folders), and ``Contents`` (key,
    bytes, ETag and last write of each object, the last two as in ``ListedObject``). Keys are decoded where the store
    reports that it encoded them, as the request asks: XML cannot express all keys. ``EncodedFolders``: a folder's name
    was encoded.

    Raises:
        UnreadableReply: the body is no such document, or an object in it lacks its key or size.
    """
    root, space = _document(body)

    def find(path: str) -> Any:
        return _path(path, space)(root)

    columns = [find(f"n:Contents/n:{name}/text()") for name in FIELDS]
    if {find("count(n:Contents)"), find(_USUAL)} != {len(columns[0])} or len(set(map(len, columns))) > 1:
        elements = find("n:Contents")
        columns = [[_text(element, name, space) for element in elements] for name in FIELDS]
    keys, sizes, etags, written = columns
    if not "".join(sizes).isdecimal() and (bad := [size for size in sizes if not size.strip().isdecimal()]):
        raise UnreadableReply(f"an object has the size {bad[0]!r}")
    folders = [_text(folder, "Prefix", space) for folder in find("n:CommonPrefixes")]
    is_encoded = find("string(n:EncodingType)") == "url"
    reply = {
        "Contents": [
            *zip(
                map(_decoded, keys) if is_encoded else keys,
                map(int, sizes),
                [etag.strip('"') for etag in etags],
                [at[:SECONDS] for at in written],
                strict=True,
            )
        ],
        "CommonPrefixes": [*map(_decoded, folders)] if is_encoded else folders,
        "EncodedFolders": is_encoded and any("%" in name or "+" in name for name in folders),
        "NextContinuationToken": find("string(n:NextContinuationToken)"),
    }
    if (truncated := find("string(n:IsTruncated)")) in ("true", "false"):
        reply["IsTruncated"] = truncated == "true"
    return reply


def _document(body: bytes) -> tuple[Any, str]:
    """Return the root of a page, and the namespace of its elements.

    Clients ignore the namespace, so stores write any; an element in another one must not hide an object. So where the
    elements of a page mix namespaces, all are removed.
    """
    try:
        root = etree.fromstring(body, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise UnreadableReply(f"not XML ({error}): {body[:80]!r}") from error
    name = etree.QName(root)
    # Entities that a document declares itself would be missing from its texts.
    if name.localname != ROOT or root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableReply(f"expected a {ROOT}, got {body[:80]!r}")
    space = name.namespace or ""
    if not _path(_FOREIGN, space)(root):
        return root, space
    for element in root.iter("*"):
        element.tag = etree.QName(element).localname
    return root, ""


@cache  # a store has one namespace, or none
def _path(path: str, space: str) -> etree.XPath:
    """Compile a path, in which ``n:`` stands for the namespace."""
    if not space:
        return etree.XPath(path.replace("n:*", "*[namespace-uri()='']").replace("n:", ""), smart_strings=False)
    return etree.XPath(path, namespaces={"n": space}, smart_strings=False)


def _text(element: Any, name: str, space: str) -> str:
    """Return the text of a child. A key, a size and a folder's name must be one text; others may be missing."""
    children = element.findall(f"{{{space}}}{name}" if space else name)
    text = children[0].text if len(children) == 1 and not len(children[0]) else ""
    if not text and name not in ("ETag", "LastModified"):
        raise UnreadableReply(f"an object or folder of a page has not one {name}")
    return text or ""


def _decoded(key: str) -> str:
    """Return the decoded key; most keys have no encoded character."""
    if "%" not in key and "+" not in key:
        return key
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError as error:
        raise UnreadableReply(f"the key {key!r} is not UTF-8: rename or remove that object") from error
