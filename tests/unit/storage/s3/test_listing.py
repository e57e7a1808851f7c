"""A listing is accepted only in order, a page only with complete columns, and read as boto3 would, or refused."""

import re
from functools import cache
from itertools import product
from typing import Any
from urllib.parse import quote_plus

import pytest
from botocore.parsers import create_parser
from botocore.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.storage.s3 import listing
from sexton.storage.s3.listing import CUT, ListingPage, OrderProof, _usual_objects, read
from sexton.storage.s3.transport import UnreadableReply


def accepts(*pages: list[str], allow_path_order: bool = True) -> bool:
    """Return whether every page of a listing continues the order."""
    proof = OrderProof(allow_path_order=allow_path_order)
    return all(proof.extend(page) for page in pages)


IN_ORDER: dict[str, list[list[str]]] = {
    "byte order": [["a-x", "a/x"], [], ["a0"]],
    "path order": [["a/x", "a-x"], ["a0"]],
    "path order across pages": [["a/x"], ["a-x", "a0"]],
    "empty pages": [[], []],
}
OUT_OF_ORDER: dict[str, list[list[str]]] = {
    "steps back": [["b", "a"]],
    "a key twice": [["a", "a"]],
    "overlapping pages": [["a", "b"], ["b", "c"]],
    "a repeated page": [["a", "b"], ["a", "b"]],
    "first one order, then the other": [["a-x", "a/x"], ["b/x", "b-x"]],
    "the same in two folders": [["a-b/1", "a/1"], ["b/x", "b-x"]],
}


def test_byte_order_and_path_order_are_accepted() -> None:
    verdicts = {name: accepts(*pages) for name, pages in (IN_ORDER | OUT_OF_ORDER).items()}

    assert verdicts == dict.fromkeys(IN_ORDER, True) | dict.fromkeys(OUT_OF_ORDER, False)
    assert not accepts(["a/x", "a-x"], allow_path_order=False)  # as of a range of keys


SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
ODD = ["/a", "a//b", "a+b", "a b", "a%20b", "é", "e\u0301", "\U0001f600", "x\x01y", "n\nn", "<&>", "q'\"", "~"]
ODD += ["uml/ü+%"]


def page(*entries: str, told: str = "<IsTruncated>false</IsTruncated>", space: str = SPACE) -> bytes:
    namespace = f' xmlns="{space}"' if space else ""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{head}<ListBucketResult{namespace}>{told}{''.join(entries)}</ListBucketResult>".encode()


def entry(key: str, size: object = 7, etag: str | None = "&quot;e1&quot;") -> str:
    more = "" if etag is None else f"<ETag>{etag}</ETag>"
    when = "<LastModified>2026-01-02T03:04:05Z</LastModified>"
    return f"<Contents><Key>{key}</Key>{when}{more}<Size>{size}</Size></Contents>"


@cache
def parser() -> tuple[Any, Any]:
    """Return boto3's own parser, and the shape of a page."""
    model = Session().get_service_model("s3").operation_model("ListObjectsV2")
    return create_parser("rest-xml"), model.output_shape


def by_boto3(body: bytes) -> ListingPage:
    """The same page as boto3 reads it, of what we take from it."""
    boto3, shape = parser()
    reply = boto3.parse({"status_code": 200, "headers": {}, "body": body}, shape)
    objects = [
        (o["Key"], o["Size"], o.get("ETag", "").strip('"'), f"{o['LastModified']:%Y-%m-%dT%H:%M:%S}")
        for o in reply.get("Contents", ())
    ]
    folders = [folder["Prefix"] for folder in reply.get("CommonPrefixes", ())]
    keys, *others = [[*column] for column in zip(*objects, strict=True)] or [[], [], [], []]
    return ListingPage(keys, others, folders, False, reply.get("NextContinuationToken", ""), reply["IsTruncated"])


def content(body: bytes) -> ListingPage | None:
    """The content of a page; None: it is refused."""
    try:
        return read(body)
    except UnreadableReply:
        return None


def by_xml_parser(body: bytes) -> ListingPage | None:
    """The same as it is where no object is usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "_usual_objects", lambda body: ((), body))
        return content(body)


def test_page_is_read_as_boto3_reads_it() -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t0</NextContinuationToken>"
    a, b, without_etag = entry("a"), entry("b", 0), entry("a", etag=None)

    for entries, space in product(((), (a,), (a, b), (without_etag, b), (without_etag,)), (SPACE, "")):
        body = page(*entries, told=more, space=space)
        assert read(body) == by_boto3(body)


NAMESPACES = [
    ("<Contents>", '<Contents xmlns="">'),
    ("<Contents>", '<Contents xmlns="other">'),
    ("<Key>", '<Key xmlns="">'),
    ("<ETag>", '<ETag xmlns="">'),
    ("<IsTruncated>", '<IsTruncated xmlns="">'),
    ("<Size>", '<o:Size xmlns:o="other">'),
    ("<Prefix>", '<Prefix xmlns="">'),
]


def test_no_namespace_hides_anything() -> None:
    folder = "<CommonPrefixes><Prefix>f/</Prefix></CommonPrefixes>"
    for (of, to), space, times in product(NAMESPACES, (SPACE, ""), (1, -1)):
        plain = page(entry("a"), entry("b"), folder, space=space)
        text = plain.decode().replace(of, to, times)
        if ":" in to.split()[0]:
            text = text.replace("</Size>", "</o:Size>", times)

        assert read(text.encode()) == read(plain) == by_boto3(plain), text
        assert read(plain).folders == ["f/"]


def test_byte_order_mark_is_no_instruction() -> None:
    assert read(b"\xef\xbb\xbf" + page(entry("a"))) == read(page(entry("a")))


def test_keys_are_decoded_only_if_the_store_encoded_them() -> None:
    encoded = page(*(entry(quote_plus(key)) for key in ODD), told="<EncodingType>url</EncodingType>")
    plain = page(entry("a+b"), entry("a%20b"))

    assert read(encoded).keys == ODD
    assert read(plain).keys == ["a+b", "a%20b"]


def with_entity(body: bytes) -> bytes:
    return body.replace(b"?>", b'?><!DOCTYPE ListBucketResult [<!ENTITY k "XX">]>', 1)


MALFORMED = {
    "empty": b"",
    "no XML": b"no XML",
    "cut off": page(entry("a"))[:-5],
    "a key that XML cannot hold": page(entry("a\x01b")),
    "another document": b"<ListVersionsResult/>",
    "no key": page("<Contents><Size>1</Size></Contents>"),
    "no size": page("<Contents><Key>a</Key></Contents>"),
    "an empty key": page("<Contents><Key></Key><Size>1</Size></Contents>"),
    "two keys and none": page(
        "<Contents><Key>a</Key><Key>b</Key><Size>1</Size></Contents>", "<Contents><Size>2</Size></Contents>"
    ),
    "a negative size": page(entry("a", "-1")),
    "a signed size": page(entry("a", "+5")),
    "no decimal": page(entry("a", "1e3")),
    "an entity": with_entity(page("<Contents><Key>&k;</Key><Size>1</Size></Contents>")),
    "no UTF-8": page(entry("%ff"), told="<EncodingType>url</EncodingType>"),
    "a key with an element": page(entry("a<b/>c")),
    "a key in two pieces": page(entry("a<!-- -->b")),
    "a key with an instruction": page(entry("a<?b?>c")),
    "one in two pieces and one in none": page(entry("a<!-- -->b"), "<Contents><Key></Key><Size>1</Size></Contents>"),
    "a key with an entity": with_entity(page(entry("a&k;"))),
    "an entity that is not declared": page(entry("a&k;")),
    "a folder without a name": page(entry("a"), "<CommonPrefixes><Prefix/></CommonPrefixes>"),
    "no folder": page(entry("a"), "<CommonPrefixes/>"),
}


def test_malformed_page_is_refused_as_a_whole(subtests: pytest.Subtests) -> None:
    for name, body in MALFORMED.items():
        with subtests.test(name), pytest.raises((UnreadableReply, ValueError)):
            read(body)
    for truncated in ("", "<IsTruncated>maybe</IsTruncated>"):
        assert read(page(entry("a"), told=truncated)).is_truncated is None


def test_folders_are_returned_beside_objects_and_decoded() -> None:
    elements = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
    folders = (
        "<CommonPrefixes><Prefix>a%2Bb/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>"
    )

    reply = read(page(entry("d"), folders, told=elements))

    assert reply.folders == ["a+b/", "c/"]
    assert reply.has_encoded_folders
    assert not read(page(folders.replace("a%2Bb", "ab"), told=elements)).has_encoded_folders
    assert reply.keys == ["d"]


AWS = "<Key>{}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;e-1&quot;</ETag>{}<Size>7</Size>{}"
CHECKSUM = "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
OWNER = "<Owner><ID>o</ID><DisplayName>o</DisplayName></Owner><StorageClass>STANDARD</StorageClass>"
WEED = "<Key>{}</Key><ETag>&#34;e-1&#34;</ETag><Size>7</Size>{}{}<LastModified>2026-01-02T03:04:05Z</LastModified>"
MOTO = AWS.replace("&quot;", '"')
USUAL = [
    page(*(f"<Contents>{form.format(key, *more)}</Contents>" for key, more in objects), told=told)
    for form in (AWS, WEED, MOTO)
    for objects in ([], [("a", ("", ""))], [("a%2Bb", (CHECKSUM, OWNER)), ("c+d", ("", "")), ("e%3D1%0A", ("", OWNER))])
    for told in (
        "<Name>b</Name><Prefix/><IsTruncated>false</IsTruncated>",
        "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>t/=</NextContinuationToken>",
    )
]
"""Pages as AWS, SeaweedFS and moto write them."""


def test_usual_page_needs_no_xml_parser() -> None:
    for body in USUAL:
        assert _usual_objects(body) != ((), body) or b"<Contents>" not in body
        assert content(body) == by_xml_parser(body) is not None


@settings(max_examples=300)
@given(st.data())
def test_changed_page_is_read_as_xml_or_refused(data: st.DataObject) -> None:
    pieces = re.findall("<[^>]*>|[^<]+", data.draw(st.sampled_from(USUAL)).decode())
    others = ["<", ">", "&", "&amp;", "\x01", "é", "]]>", " ", "<Key>", "<Key/>", "<Contents>", *pieces]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        pieces[at] = data.draw(st.sampled_from(["", pieces[at] * 2, pieces[at] + data.draw(st.sampled_from(others))]))
    body = "".join(pieces).encode()

    assert content(body) == by_xml_parser(body)


def test_unusual_texts_are_those_of_an_xml_parser() -> None:
    objects = [f"<Contents>{form.format(key, '', '')}</Contents>" for key, form in (("a", AWS), ("b", MOTO))]
    quoted = page(*objects).replace(b"&quot;", b"")
    latin = page(*objects).decode().replace("UTF-8", "latin1").replace("<Key>b", "<Key>é")

    assert read(quoted) == by_xml_parser(quoted)
    assert list(read(quoted).others[1]) == ["e-1", "e-1"]
    assert read(latin.encode("latin1")).keys == ["a", "é"]


def test_object_that_is_no_element_of_its_page_is_none() -> None:
    entry = f"<Contents>{AWS.format('a', '', '')}</Contents>"
    for form in ("<!-- {} -->", "<![CDATA[{}]]>", "<Other>{}</Other>", f"<Other>{{}}</Other><{CUT}/>"):
        read_page = content(page(form.format(entry)))

        assert read_page is None or read_page.keys == []
        assert read_page == by_xml_parser(page(form.format(entry)))
