"""One page of a listing, read by a C parser: boto3's own reading costs twenty times what sending the request does.

What comes out has the form of boto3's reply, so that whoever lists need not know. A page is whole or no page.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from lxml import etree

ROOT = "ListBucketResult"
COLUMNS = ("Key", "Size", "ETag", "LastModified")


class UnreadableReply(Exception):
    """A 200 whose body is not the document that was asked for."""


class Entries(Sequence[dict[str, Any]]):
    """The objects of a page: columns for whoever reads them all, and boto3's form for whoever looks at one."""

    def __init__(self, keys: Sequence[str], sizes: Sequence[int], etags: Sequence[str], written: Sequence[str]) -> None:
        """All four go together, object by object."""
        self.columns = (keys, sizes, etags, written)

    @classmethod
    def of(cls, found: Sequence[Any]) -> "Entries":
        """Return what boto3 has read itself."""
        names = {"Key": "", "Size": 0, "ETag": "", "LastModified": ""}
        columns = ([entry.get(name, default) for entry in found] for name, default in names.items())
        keys, sizes, etags, written = columns
        return cls(keys, sizes, etags, [str(at).replace(" ", "T") for at in written])

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        return dict(zip(COLUMNS, (column[at] for column in self.columns), strict=True))


def read(body: bytes) -> dict[str, Any]:
    """Return what a reply to ListObjectsV2 says, under the names of boto3's reply.

    That is ``IsTruncated``, ``NextContinuationToken``, ``CommonPrefixes``, and ``Contents`` (``Key``, ``Size``,
    ``ETag``, and ``LastModified``, which stays text: reading it would cost as much as all the rest). Keys are decoded
    where the store says that it encoded them, as it was asked to: XML cannot hold them all.

    Raises:
        UnreadableReply: it is no such document, or an object in it lacks its key or size.
    """
    root = _document(body)
    ask = _questions(etree.QName(root).namespace or "")
    if ask["foreign"](root):  # nobody heeds the namespace, so stores write what they like; none may hide an object
        for element in root.iter("*"):
            element.tag = etree.QName(element).localname
        ask = _questions("")
    keys, sizes, etags, folders = (ask[name](root) for name in ("Key", "Size", "ETag", "folders"))
    objects, prefixes = int(ask["objects"](root)), int(ask["prefixes"](root))
    # One of each in each object, in one piece, so that what goes together stands at the same place of the lists.
    if ask["parted"](root):
        raise UnreadableReply("a key, size or ETag of a page is not one piece of text")
    complete = objects == int(ask["complete"](root))  # one question for the usual page
    if not objects == len(keys) == len(sizes) or not (complete or objects == int(ask["whole"](root))):
        raise UnreadableReply(f"an object without key or size among the {objects} of a page")
    if not prefixes == int(ask["named"](root)) == len(folders):
        raise UnreadableReply(f"a folder without a name among the {prefixes} of a page")
    if objects != len(etags) or not (complete or objects == int(ask["tagged"](root))):
        etags = [ask["etag"](element) for element in ask["each"](root)] if etags else [""] * objects
    reply: dict[str, Any] = {}
    written = ask["LastModified"](root)
    if objects != len(written) or not (complete or objects == int(ask["dated"](root))):
        written = [""] * objects  # nobody deletes for the lack of it: what has no date is young
    if ask["EncodingType"](root) == "url":
        reply["EncodedFolders"] = any("%" in name or "+" in name for name in folders)
        keys, folders = [_decoded(key) for key in keys], [_decoded(name) for name in folders]
    if folders:
        reply["CommonPrefixes"] = [{"Prefix": name} for name in folders]
    if objects:
        reply["Contents"] = Entries(keys, [_number(size) for size in sizes], etags, written)
    if (truncated := ask["IsTruncated"](root)) in ("true", "false"):
        reply["IsTruncated"] = truncated == "true"
    if token := ask["NextContinuationToken"](root):
        reply["NextContinuationToken"] = token
    return reply


def _document(body: bytes) -> Any:
    try:
        root = etree.fromstring(body, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise UnreadableReply(f"not XML ({error}): {body[:80]!r}") from error
    # What a document declares of its own would be left out of its texts.
    if etree.QName(root).localname != ROOT or root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableReply(f"expected a {ROOT}, got {body[:80]!r}")
    return root


@cache  # a store has one namespace, or none
def _questions(namespace: str) -> dict[str, etree.XPath]:
    """Return what is asked of a page, each compiled."""
    n = "n:" if namespace else ""
    of, folder = f"{n}Contents", f"{n}CommonPrefixes"
    texts = [f"{of}/{n}{tag}" for tag in ("Key", "Size", "ETag")] + [f"{folder}/{n}Prefix"]
    # Every element of the page, and in what it lists: a test of names is cheap, a function for each of them is not.
    ours = f"{n}*" if namespace else "*[namespace-uri()='']"
    asked = {
        "foreign": f"count(*)!=count({ours}) or count(*/*)!=count(*/{ours})",
        "objects": f"count({of})",
        "whole": f"count({of}[count({n}Key)=1 and count({n}Size)=1])",
        "complete": f"count({of}[{' and '.join(f'count({n}{tag})=1' for tag in COLUMNS)}])",
        "tagged": f"count({of}[count({n}ETag)=1])",
        "dated": f"count({of}[count({n}LastModified)=1])",
        "parted": f"boolean({' | '.join(f'{path}/node()[2]' for path in texts)})",
        "each": of,
        "etag": f"string({n}ETag)",
        "prefixes": f"count({folder})",
        "named": f"count({folder}[count({n}Prefix)=1])",
        "folders": f"{folder}/{n}Prefix/text()",
        **{tag: f"{of}/{n}{tag}/text()" for tag in COLUMNS},
        **{tag: f"string({n}{tag})" for tag in ("EncodingType", "IsTruncated", "NextContinuationToken")},
    }
    spaces = {"n": namespace} if namespace else None
    return {name: etree.XPath(path, namespaces=spaces, smart_strings=False) for name, path in asked.items()}


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise UnreadableReply(f"an object has the size {text!r}")
    return int(text)


def _decoded(key: str) -> str:
    """Return the key: most hold nothing that is encoded."""
    if "%" not in key and "+" not in key:
        return key
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError as error:
        raise UnreadableReply(f"the key {key!r} is not UTF-8: rename or remove that object") from error
