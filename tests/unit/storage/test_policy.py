"""Doubtful keys, prefixes and overlapping vaults are refused; two last writes of one object are compared by seconds."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.kernel.errors import BadInput
from sexton.storage.kinds import overlaps
from sexton.storage.model import VaultSpec
from sexton.storage.policy import check_key, check_keys, check_listing, check_prefix, check_root, is_rewritten


def s3(location: str = "b", prefix: str = "", endpoint: str = "") -> VaultSpec:
    return VaultSpec(instance="i", name="v", kind="s3", location=location, prefix=prefix, endpoint=endpoint)


def local(location: str, prefix: str = "") -> VaultSpec:
    return VaultSpec(instance="i", name="v", kind="local", location=location, prefix=prefix)


ACCEPTED = ("data/1/", "data/1/12_", "stage/u1/", "d=1/", "a b/", "data.x/", "..x/", "_sex/")
REFUSED = ["", "/", "/data/", "data/1", "data/1.", "data/1-", "data/Z", "data/é", "a/../b/", "../", "./", "a/./", "a//"]
REFUSED += ["a//b/", "a\0/", "_", "_sexton", "_sexton/", "_sexton/audit/", "a/_sexton/", "\ud800/"]


def test_a_prefix_that_could_match_more_is_refused() -> None:
    for prefix in ACCEPTED:
        check_prefix(prefix)
    for prefix in REFUSED:
        with pytest.raises(BadInput):
            check_prefix(prefix)
    check_listing("data/1")  # a listing may stop inside an id, but not at the root
    with pytest.raises(BadInput):
        check_listing("")


@given(st.text(min_size=1), st.text(alphabet=st.characters(codec="ascii", categories=["L", "N"]), min_size=1))
def test_no_accepted_prefix_is_the_beginning_of_a_longer_id(prefix: str, rest: str) -> None:
    """`data/1` would also mean `data/12`: what is accepted never ends in the middle of letters and digits."""
    try:
        check_prefix(prefix)
    except BadInput:
        return

    joined = prefix + rest
    assert not (joined[len(prefix) - 1].isalnum() and joined[len(prefix)].isalnum())


def test_a_key_that_could_mean_another_object_is_refused() -> None:
    for key in ("a", "data/1/12_0.dat", "a b", "é", "..a", "a..", "folder/", "_sexton2/x", "x/vault.json"):
        check_key(key)
    for key in ("", "/", "/a", "a//", "a//b", ".", "..", "a/../b", "a/.", "a\0", "_sexton/x", "a/_sexton/b"):
        with pytest.raises(BadInput):
            check_key(key)


def refuses(check: Callable[[], None]) -> bool:
    try:
        check()
    except BadInput:
        return True
    return False


@given(st.lists(st.lists(st.sampled_from(["a", "/", ".", "_sexton", "é", "\0", "\ud800", "\n"])).map("".join)))
def test_page_of_keys_is_refused_as_each_of_them(keys: list[str]) -> None:
    assert refuses(lambda: check_keys(keys)) == any(refuses(lambda key=key: check_key(key)) for key in keys)


def test_vault_is_a_whole_bucket_or_a_folder() -> None:
    check_root("")
    check_root("wh/")
    for prefix in ("wh", "/wh/", "a//", "../"):
        with pytest.raises(BadInput):
            check_root(prefix)


OVERLAPS = [
    (s3(), s3(), True),
    (s3(prefix="a/"), s3(prefix="a/b/"), True),
    (s3(prefix="a/"), s3(), True),
    (s3(prefix="a/"), s3(prefix="ab/"), False),
    (s3("b1"), s3("b2"), False),
    (s3(endpoint="http://localhost:9000"), s3(endpoint="HTTP://127.0.0.1:9000/"), True),
    (s3(endpoint="http://LOCALHOST:9000"), s3(), True),
    (s3(endpoint="http://minio"), s3(endpoint="http://MinIO:80/"), True),
    (s3(endpoint="http://minio"), s3(endpoint="https://minio:443"), True),
    (s3(endpoint="http://minio:9000"), s3(endpoint="http://minio:9001"), False),
    (s3(endpoint="https://s3.amazonaws.com"), s3(endpoint="https://s3.eu-west-1.amazonaws.com"), True),
    (s3(endpoint="http://[::1]:9000"), s3(), True),
    (s3(endpoint="minio:9000"), s3(endpoint="http://minio:9000"), True),
    (local("/data"), local("/data/wh"), True),
    (local("/data", "wh/"), local("/data/wh"), True),
    (local("/data", "wh/"), local("/data/wh2"), False),
    (local("/data/"), local("/data"), True),
    (local("/"), local("/data"), True),
    (local("/b"), s3("b"), False),
]


def test_overlap_is_symmetric() -> None:
    for a, b, expected in OVERLAPS:
        assert overlaps(a, b, "http://127.0.0.1:9000") is overlaps(b, a, "http://127.0.0.1:9000") is expected, (a, b)
    assert overlaps(s3(), s3(endpoint="https://s3.us-east-1.amazonaws.com/"), "")
    with pytest.raises(BadInput, match="port"):
        overlaps(s3(endpoint="http://minio:x"), s3(), "")


SEEN = "2024-02-29T23:59:59"


WRITES = {
    SEEN: False,
    "2024-03-01T00:00:00": False,  # rounded up
    "2024-02-29T23:59:58": False,  # rounded down
    "2024-03-01T00:00:01": True,
    "2024-02-29T22:00:00": True,
    "": True,  # unknown
}


def test_a_write_of_another_second_is_another_write() -> None:
    assert {written: is_rewritten(written, SEEN) for written in WRITES} == WRITES
    assert not is_rewritten(SEEN, "")  # nothing is compared with an unknown write
