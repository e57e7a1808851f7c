"""Read one page of a listing with a C parser: reading it with boto3 costs twenty times as much as sending the request.

The result has the form of boto3's reply, so callers need not know. A page is read completely or refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from lxml import etree

ROOT = "ListBucketResult"
COLUMNS = ("Key", "Size", "ETag", "LastModified")
"""What a page has of each object, in the order of ``Columns``."""


class UnreadableReply(Exception):
    """A 200 whose body is not the document that was requested."""


class Columns(NamedTuple):
    """The objects of a page, column by column; the same position in each column is the same object."""

    keys: Sequence[str]
    sizes: Sequence[int]
    etags: Sequence[str]
    written: Sequence[str]

    def between(self, start: int, end: int) -> "Columns":
        """Return the objects from one position up to, but not including, another."""
        return Columns(self.keys[start:end], self.sizes[start:end], self.etags[start:end], self.written[start:end])


class Entries(Sequence[dict[str, Any]]):
    """The objects of a page: columns for callers that read them all, and boto3's form for callers that read one."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    @classmethod
    def of(cls, contents: Sequence[Any]) -> "Entries":
        """Return the objects of a reply that boto3 has read itself."""
        return cls(
            Columns(
                keys=[entry.get("Key", "") for entry in contents],
                sizes=[entry.get("Size", 0) for entry in contents],
                etags=[entry.get("ETag", "") for entry in contents],
                written=[str(entry.get("LastModified", "")).replace(" ", "T") for entry in contents],
            )
        )

    def __len__(self) -> int:
        return len(self.columns.keys)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        return dict(zip(COLUMNS, (column[at] for column in self.columns), strict=True))


class PagePaths:
    """The compiled XPaths of a page whose elements are in one namespace, or in none."""

    def __init__(self, namespace: str) -> None:
        n = "n:" if namespace else ""
        objects, folders = f"{n}Contents", f"{n}CommonPrefixes"
        texts = [f"{objects}/{n}{tag}" for tag in ("Key", "Size", "ETag")] + [f"{folders}/{n}Prefix"]
        expected = f"{n}*" if namespace else "*[namespace-uri()='']"

        def compiled(path: str) -> etree.XPath:
            return etree.XPath(path, namespaces={"n": namespace} if namespace else None, smart_strings=False)

        # Tests by name run in C; a Python function called for each element would be slow.
        self.has_foreign_elements = compiled(f"count(*)!=count({expected}) or count(*/*)!=count(*/{expected})")
        self.has_split_text = compiled(f"boolean({' | '.join(f'{path}/node()[2]' for path in texts)})")

        self.count_objects = compiled(f"count({objects})")
        one_each = " and ".join(f"count({n}{tag})=1" for tag in COLUMNS)
        self.count_complete = compiled(f"count({objects}[{one_each}])")
        self.count_sized_keys = compiled(f"count({objects}[count({n}Key)=1 and count({n}Size)=1])")
        self.count_etags = compiled(f"count({objects}[count({n}ETag)=1])")
        self.count_dates = compiled(f"count({objects}[count({n}LastModified)=1])")
        self.count_folders = compiled(f"count({folders})")
        self.count_named_folders = compiled(f"count({folders}[count({n}Prefix)=1])")

        self.objects = compiled(objects)
        self.etag_of_object = compiled(f"string({n}ETag)")
        self.keys = compiled(f"{objects}/{n}Key/text()")
        self.sizes = compiled(f"{objects}/{n}Size/text()")
        self.etags = compiled(f"{objects}/{n}ETag/text()")
        self.dates = compiled(f"{objects}/{n}LastModified/text()")
        self.folders = compiled(f"{folders}/{n}Prefix/text()")

        self.encoding = compiled(f"string({n}EncodingType)")
        self.is_truncated = compiled(f"string({n}IsTruncated)")
        self.next_token = compiled(f"string({n}NextContinuationToken)")


@dataclass(frozen=True)
class PageTexts:
    """The texts of all objects and folders of a page, in the order of the document."""

    keys: list[str]
    sizes: list[str]
    etags: list[str]
    dates: list[str]
    folders: list[str]


@dataclass(frozen=True)
class PageCounts:
    """Numbers of elements that show which texts of a page belong to the same object."""

    objects: int
    sized_keys: int
    """Objects with exactly one key and one size."""
    etags: int
    """Objects with exactly one ETag."""
    dates: int
    """Objects with exactly one date."""
    folders: int
    named_folders: int
    """Folders with exactly one name."""
    has_split_text: bool
    """A key, size, ETag or folder name consists of several pieces (a comment or an entity between them)."""

    @classmethod
    def of(cls, root: Any, paths: PagePaths) -> "PageCounts":
        """Count the elements of a page. The usual page has one of each in every object, which is counted at once."""
        objects = int(paths.count_objects(root))
        complete = objects == int(paths.count_complete(root))
        return cls(
            objects=objects,
            sized_keys=objects if complete else int(paths.count_sized_keys(root)),
            etags=objects if complete else int(paths.count_etags(root)),
            dates=objects if complete else int(paths.count_dates(root)),
            folders=int(paths.count_folders(root)),
            named_folders=int(paths.count_named_folders(root)),
            has_split_text=bool(paths.has_split_text(root)),
        )

    def validate(self, texts: PageTexts) -> None:
        """Refuse a page whose keys, sizes and folder names are not one for each object and folder.

        Raises:
            UnreadableReply: one is missing, empty, doubled or split.
        """
        if self.has_split_text:
            raise UnreadableReply("a key, size or ETag of a page is not one piece of text")
        if not self.objects == self.sized_keys == len(texts.keys) == len(texts.sizes):
            raise UnreadableReply(f"an object without key or size among the {self.objects} of a page")
        if not self.folders == self.named_folders == len(texts.folders):
            raise UnreadableReply(f"a folder without a name among the {self.folders} of a page")


def read(body: bytes) -> dict[str, Any]:
    """Return the content of a reply to ListObjectsV2, under the names of boto3's reply.

    That is ``IsTruncated``, ``NextContinuationToken``, ``CommonPrefixes``, and ``Contents`` (``Key``, ``Size``,
    ``ETag``, and ``LastModified``, which stays text: parsing it would cost as much as everything else). Keys are
    decoded where the store reports that it encoded them, as the request asks: XML cannot express all keys.

    Raises:
        UnreadableReply: the body is no such document, or an object in it lacks its key or size.
    """
    root = _document(body)
    paths = _paths_for(root)
    texts = PageTexts(paths.keys(root), paths.sizes(root), paths.etags(root), paths.dates(root), paths.folders(root))
    counts = PageCounts.of(root, paths)
    counts.validate(texts)

    keys, folders = texts.keys, texts.folders
    reply: dict[str, Any] = {}
    if paths.encoding(root) == "url":
        reply["EncodedFolders"] = any("%" in name or "+" in name for name in folders)
        keys, folders = [_decoded(key) for key in keys], [_decoded(name) for name in folders]
    if folders:
        reply["CommonPrefixes"] = [{"Prefix": name} for name in folders]
    if counts.objects:
        # All dates are empty where one is missing: an object without a date counts as young.
        is_dated = counts.objects == counts.dates == len(texts.dates)
        dates = texts.dates if is_dated else [""] * counts.objects
        etags = _etags(root, paths, counts, texts)
        reply["Contents"] = Entries(Columns(keys, _numbers(texts.sizes), etags, dates))
    truncated, token = paths.is_truncated(root), paths.next_token(root)
    if truncated in ("true", "false"):
        reply["IsTruncated"] = truncated == "true"
    if token:
        reply["NextContinuationToken"] = token
    return reply


def _document(body: bytes) -> Any:
    try:
        root = etree.fromstring(body, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise UnreadableReply(f"not XML ({error}): {body[:80]!r}") from error
    # Entities that a document declares itself would be missing from its texts.
    if etree.QName(root).localname != ROOT or root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableReply(f"expected a {ROOT}, got {body[:80]!r}")
    return root


def _paths_for(root: Any) -> PagePaths:
    """Return the paths for a page; where its elements mix namespaces, remove the namespaces first.

    Clients ignore the namespace, so stores write any; an element in another namespace must not hide an object.
    """
    paths = _page_paths(etree.QName(root).namespace or "")
    if not paths.has_foreign_elements(root):
        return paths
    for element in root.iter("*"):
        element.tag = etree.QName(element).localname
    return _page_paths("")


_page_paths = cache(PagePaths)  # a store has one namespace, or none


def _etags(root: Any, paths: PagePaths, counts: PageCounts, texts: PageTexts) -> list[str]:
    """Return the ETag of each object, empty for one that has none."""
    if counts.objects == counts.etags == len(texts.etags):
        return texts.etags
    if not texts.etags:
        return [""] * counts.objects
    return [paths.etag_of_object(element) for element in paths.objects(root)]


def _numbers(texts: Sequence[str]) -> list[int]:
    """Return sizes as numbers; the usual page has digits only, which is checked at once."""
    if not "".join(texts).isdecimal():
        for text in texts:
            if not text.strip().isdecimal():
                raise UnreadableReply(f"an object has the size {text!r}")
    return [*map(int, texts)]


def _decoded(key: str) -> str:
    """Return the decoded key; most keys have no encoded character."""
    if "%" not in key and "+" not in key:
        return key
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError as error:
        raise UnreadableReply(f"the key {key!r} is not UTF-8: rename or remove that object") from error
