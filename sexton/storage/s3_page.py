"""One page of a listing, read by a C parser: boto3's own reading costs twenty times what sending the request does.

What comes out has the form of boto3's reply, so that whoever lists need not know. A page is whole or no page.
"""

from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from lxml import etree

ROOT = "ListBucketResult"


class UnreadableReply(Exception):
    """A 200 whose body is not the document that was asked for."""


def read(body: bytes) -> dict[str, Any]:
    """Return what a reply to ListObjectsV2 says, under the names of boto3's reply.

    That is ``IsTruncated``, ``NextContinuationToken``, ``Contents`` (``Key``, ``Size``, ``ETag``), ``CommonPrefixes``.
    Keys are decoded where the store says that it encoded them, as it was asked to: XML cannot hold them all.

    Raises:
        UnreadableReply: it is no such document, or an object in it lacks its key or size.
    """
    try:
        root = etree.fromstring(body, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise UnreadableReply(f"not XML ({error}): {body[:80]!r}") from error
    name = etree.QName(root)
    if name.localname != ROOT:
        raise UnreadableReply(f"expected a {ROOT}, got {body[:80]!r}")
    ask = _questions(name.namespace or "")
    keys, sizes, etags = ask["Key"](root), ask["Size"](root), ask["ETag"](root)
    objects = int(ask["objects"](root))
    # One of each in each object, so that what goes together stands at the same place of the lists.
    if not objects == int(ask["whole"](root)) == len(keys) == len(sizes) or not all(map(str.isdecimal, sizes)):
        raise UnreadableReply(f"an object without key or size among the {objects} of a page")
    if len(etags) != objects or int(ask["etags"](root)) != objects:
        etags = [""] * objects if not etags else _each(root, ask)
    folders = ask["folders"](root)
    if ask["EncodingType"](root) == "url":
        keys, folders = [_decoded(key) for key in keys], [_decoded(name) for name in folders]
    reply: dict[str, Any] = {"CommonPrefixes": [{"Prefix": name} for name in folders]} if folders else {}
    if objects:
        found = zip(keys, map(int, sizes), etags, strict=True)
        reply["Contents"] = [{"Key": key, "Size": size, "ETag": etag} for key, size, etag in found]
    if (truncated := ask["IsTruncated"](root)) in ("true", "false"):
        reply["IsTruncated"] = truncated == "true"
    if token := ask["NextContinuationToken"](root):
        reply["NextContinuationToken"] = token
    return reply


@cache  # a store has one namespace, or none
def _questions(namespace: str) -> dict[str, etree.XPath]:
    """Return what is asked of a page, each compiled."""
    n = "n:" if namespace else ""
    of = f"{n}Contents"
    asked = {
        "objects": f"count({of})",
        "whole": f"count({of}[count({n}Key)=1 and count({n}Size)=1])",
        "etags": f"count({of}[count({n}ETag)=1])",
        "each": of,
        "folders": f"{n}CommonPrefixes/{n}Prefix/text()",
        "etag": f"string({n}ETag)",
        **{tag: f"{of}/{n}{tag}/text()" for tag in ("Key", "Size", "ETag")},
        **{tag: f"string({n}{tag})" for tag in ("EncodingType", "IsTruncated", "NextContinuationToken")},
    }
    spaces = {"n": namespace} if namespace else None
    return {name: etree.XPath(path, namespaces=spaces, smart_strings=False) for name, path in asked.items()}


def _each(root: Any, ask: dict[str, etree.XPath]) -> list[str]:
    """Return the ETags of a page in which some objects have none."""
    return [ask["etag"](element) for element in ask["each"](root)]


def _decoded(key: str) -> str:
    """Return the key: most hold nothing that is encoded."""
    return unquote_plus(key, errors="strict") if "%" in key or "+" in key else key
