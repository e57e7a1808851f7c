"""A listing is accepted only in order, a page only with complete columns, and read as boto3 would, or refused."""

from typing import Any
from urllib.parse import quote_plus

import pytest
from botocore.parsers import create_parser
from botocore.session import Session

from sexton.storage.s3.listing import OrderProof
from sexton.storage.s3.listing_page import UnreadableReply, read


def accepts(*pages: list[str], allow_path_order: bool = True) -> bool:
    """Return whether every page of a listing continues the order."""
    proof = OrderProof(allow_path_order=allow_path_order)
    return all(proof.extend(page) for page in pages)


@pytest.mark.parametrize(
    "pages",
    [
        [["a-x", "a/x"], [], ["a0"]],
        [["a/x", "a-x"], ["a0"]],
        [["a/x"], ["a-x", "a0"]],
        [[], []],
    ],
    ids=["byte order", "path order", "path order across pages", "empty pages"],
)
def test_byte_order_and_path_order_are_accepted(pages: list[list[str]]) -> None:
    assert accepts(*pages)


@pytest.mark.parametrize(
    "pages",
    [
        [["b", "a"]],
        [["a", "a"]],
        [["a", "b"], ["b", "c"]],
        [["a", "b"], ["a", "b"]],
        [["a-x", "a/x"], ["b/x", "b-x"]],
    ],
    ids=["steps back", "a key twice", "overlapping pages", "a repeated page", "first one order, then the other"],
)
def test_a_key_that_steps_back_is_refused(pages: list[list[str]]) -> None:
    assert not accepts(*pages)


def test_path_order_is_refused_for_a_range_of_keys() -> None:
    assert not accepts(["a/x", "a-x"], allow_path_order=False)


SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
ODD = ["a+b", "a b", "a%20b", "é", "e\u0301", "\U0001f600", "x\x01y", "n\nn", "<&>", "q'\"", "~", "uml/ü+%"]


def page(*entries: str, told: str = "<IsTruncated>false</IsTruncated>", space: str = SPACE) -> bytes:
    namespace = f' xmlns="{space}"' if space else ""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{head}<ListBucketResult{namespace}>{told}{''.join(entries)}</ListBucketResult>".encode()


def entry(key: str, size: object = 7, etag: str | None = "&quot;e1&quot;") -> str:
    more = "" if etag is None else f"<ETag>{etag}</ETag>"
    when = "<LastModified>2026-01-02T03:04:05Z</LastModified>"
    return f"<Contents><Key>{key}</Key>{when}{more}<Size>{size}</Size></Contents>"


def by_boto3(body: bytes) -> dict[str, Any]:
    """The same page as boto3 reads it, of what we take from it."""
    model = Session().get_service_model("s3").operation_model("ListObjectsV2")
    reply = create_parser("rest-xml").parse({"status_code": 200, "headers": {}, "body": body}, model.output_shape)
    objects = [
        (o["Key"], o["Size"], o.get("ETag", "").strip('"'), f"{o['LastModified']:%Y-%m-%dT%H:%M:%S}")
        for o in reply.get("Contents", ())
    ]
    folders = [folder["Prefix"] for folder in reply.get("CommonPrefixes", ())]
    fields = {"IsTruncated": reply["IsTruncated"], "NextContinuationToken": reply.get("NextContinuationToken", "")}
    return fields | {"Contents": objects, "CommonPrefixes": folders, "EncodedFolders": False}


@pytest.mark.parametrize("space", [SPACE, ""], ids=["with a namespace", "without"])
@pytest.mark.parametrize(
    "entries",
    [(), (entry("a"),), (entry("a"), entry("b", 0)), (entry("a", etag=None), entry("b")), (entry("a", etag=None),)],
    ids=["nothing", "one", "two", "one without an ETag", "none with an ETag"],
)
def test_page_is_read_as_boto3_reads_it(entries: tuple[str, ...], space: str) -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t0</NextContinuationToken>"
    body = page(*entries, told=more, space=space)

    assert read(body) == by_boto3(body)


@pytest.mark.parametrize(
    ("of", "to"),
    [
        ("<Contents>", '<Contents xmlns="">'),
        ("<Contents>", '<Contents xmlns="other">'),
        ("<Key>", '<Key xmlns="">'),
        ("<ETag>", '<ETag xmlns="">'),
        ("<IsTruncated>", '<IsTruncated xmlns="">'),
        ("<Size>", '<o:Size xmlns:o="other">'),
        ("<Prefix>", '<Prefix xmlns="">'),
    ],
)
@pytest.mark.parametrize("space", [SPACE, ""], ids=["with a namespace", "without"])
@pytest.mark.parametrize("every", [True, False], ids=["all", "one"])
def test_no_namespace_hides_anything(of: str, to: str, space: str, every: bool) -> None:
    folder = "<CommonPrefixes><Prefix>f/</Prefix></CommonPrefixes>"
    plain = page(entry("a"), entry("b"), folder, space=space)
    text = plain.decode().replace(of, to, -1 if every else 1)
    if ":" in to.split()[0]:
        text = text.replace("</Size>", "</o:Size>", -1 if every else 1)

    assert read(text.encode()) == read(plain) == by_boto3(plain)
    assert read(plain)["CommonPrefixes"] == ["f/"]


def test_keys_are_decoded_only_if_the_store_encoded_them() -> None:
    encoded = page(*(entry(quote_plus(key)) for key in ODD), told="<EncodingType>url</EncodingType>")
    plain = page(entry("a+b"), entry("a%20b"))

    assert [o[0] for o in read(encoded)["Contents"]] == ODD
    assert [o[0] for o in read(plain)["Contents"]] == ["a+b", "a%20b"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no XML",
        page(entry("a"))[:-5],
        page(entry("a\x01b")),
        b"<ListVersionsResult/>",
        page("<Contents><Size>1</Size></Contents>"),
        page("<Contents><Key>a</Key></Contents>"),
        page("<Contents><Key></Key><Size>1</Size></Contents>"),
        page("<Contents><Key>a</Key><Key>b</Key><Size>1</Size></Contents>", "<Contents><Size>2</Size></Contents>"),
        page(entry("a", "-1")),
        page(entry("a", "+5")),
        page(entry("a", "1e3")),
        b'<!DOCTYPE l [<!ENTITY k "a">]>' + page("<Contents><Key>&k;</Key><Size>1</Size></Contents>"),
        page(entry("%ff"), told="<EncodingType>url</EncodingType>"),
        page(entry("a<b/>c")),
        page(entry("a<!-- -->b")),
        page(entry("a<!-- -->b"), "<Contents><Key></Key><Size>1</Size></Contents>"),
        b'<!DOCTYPE l [<!ENTITY k "XX">]>' + page(entry("a&k;")),
        page(entry("a"), "<CommonPrefixes><Prefix/></CommonPrefixes>"),
        page(entry("a"), "<CommonPrefixes/>"),
    ],
    ids=[
        *("empty", "no XML", "cut off", "a key that XML cannot hold", "another document", "no key", "no size"),
        *(
            "an empty key",
            "two keys and none",
            "a negative size",
            "a signed size",
            "no decimal",
            "an entity",
            "no UTF-8",
        ),
        *(
            "a key with an element",
            "a key in two pieces",
            "a key in two pieces and one in none",
            "a key with an entity",
            "a folder without a name",
            "no folder",
        ),
    ],
)
def test_malformed_page_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises((UnreadableReply, ValueError)):
        read(body)


def test_unknown_truncation_is_left_out() -> None:
    assert "IsTruncated" not in read(page(entry("a"), told=""))
    assert "IsTruncated" not in read(page(entry("a"), told="<IsTruncated>maybe</IsTruncated>"))


def test_folders_are_returned_beside_objects_and_decoded() -> None:
    elements = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
    folders = (
        "<CommonPrefixes><Prefix>a%2Bb/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>"
    )

    reply = read(page(entry("d"), folders, told=elements))

    assert reply["CommonPrefixes"] == ["a+b/", "c/"]
    assert reply["EncodedFolders"]
    assert not read(page(folders.replace("a%2Bb", "ab"), told=elements))["EncodedFolders"]
    assert [o[0] for o in reply["Contents"]] == ["d"]
