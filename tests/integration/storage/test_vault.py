"""Every vault lists its own keys completely and deletes exactly the named ones, in a directory and in S3."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.storage.model import MARKER_KEY, KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from tests.support.places import MARKER, Place, keys, listing, put_all

ODD = ["a b", "a+b", "a%20b", "a%2Fb", "é", "e\u0301", "\U0001f600", "\uffee", "'q'", '"q"', "<x>", "&amp;", "t\tt"]
ODD += ["n\nn", "r\rr", "c\x01c", "f\uffff", " lead", "trail ", "back..slash", "~", "=", "?", "#", ";", "*"]


@pytest.fixture
def place(either: Place) -> Place:
    return either


def outcomes(results: list[KeyResult]) -> list[tuple[str, KeyOutcome]]:
    return [(result.key, result.outcome) for result in results]


def test_exactly_the_named_keys_are_deleted(place: Place) -> None:
    for path in ["wh/d/1", "wh/d/2", "wh/d/10", "d/1"]:
        place.put(path)

    results = list(place.vault().delete(["d/1"]))

    assert outcomes(results) == [("d/1", KeyOutcome.DELETED)]
    assert [place.has(path) for path in ["wh/d/1", "wh/d/2", "wh/d/10", "d/1"]] == [False, True, True, True]


def test_results_follow_the_order_of_the_keys(place: Place) -> None:
    for path in ["wh/z/1", "wh/a/1", "wh/z/2"]:
        place.put(path)

    results = place.vault().delete(["z/2", "a/1", "z/1", "a/1"])

    assert [result.key for result in results] == ["z/2", "a/1", "z/1", "a/1"]


def test_a_missing_key_does_not_block_the_rest(place: Place) -> None:
    place.put("wh/d/1")

    results = place.vault().delete(["d/0", "gone/x/y", "d/1"])

    assert results[2].outcome is KeyOutcome.DELETED
    assert {result.outcome for result in results[:2]} <= {KeyOutcome.ABSENT, KeyOutcome.DELETED}  # S3 does not tell
    assert not place.has("wh/d/1")


def test_an_empty_page_deletes_nothing(place: Place) -> None:
    place.put("wh/d/1")

    assert list(place.vault().delete([])) == []
    assert place.has("wh/d/1")


def test_a_page_over_a_thousand_keys_is_refused(place: Place) -> None:
    with pytest.raises(ValueError, match="1001 keys"):
        place.vault().delete([f"d/{n}" for n in range(1_001)])


def test_odd_keys_are_listed_and_deleted_exactly(place: Place) -> None:
    for name in ODD:
        place.put(f"wh/odd/{name}")
        place.put(f"wh/other/{name}")
    vault, names = place.vault(), [f"odd/{name}" for name in ODD]

    assert sorted(keys(vault, "odd/")) == sorted(names)
    assert {result.outcome for result in vault.delete(names)} == {KeyOutcome.DELETED}
    assert keys(vault, "odd/") == []
    assert len(keys(vault, "other/")) == len(ODD)


def test_each_odd_key_is_deleted_alone(place: Place) -> None:
    for name in ODD:
        place.put(f"wh/odd/{name}")
    vault, left = place.vault(), {f"odd/{name}" for name in ODD}

    for key in sorted(left):
        vault.delete([key])
        left.remove(key)
        assert set(keys(vault, "odd/")) == left


def test_a_listing_is_in_byte_order(place: Place) -> None:
    names = ["A", "a", "b/1", "b/c/2", "b0", "e", "z/y/x", "é", "\uffee", "\U0001f600"]
    for name in names:
        place.put(f"wh/d/{name}", name.encode())

    listed = listing(place.vault(), "d/")

    assert [entry.key for entry in listed] == [f"d/{name}" for name in sorted(names, key=str.encode)]
    assert [entry.bytes for entry in listed] == [len(name.encode()) for name in sorted(names, key=str.encode)]


def test_a_name_between_a_folder_and_its_files_is_listed(place: Place) -> None:
    names = ["d/a-b", "d/a.b", "d/a/1", "d/a/2", "d/a0", "d/a b"]
    for name in names:
        place.put(f"wh/{name}")

    listed = keys(place.vault(), "d/")

    assert sorted(listed) == sorted(names)
    assert listed in (sorted(names), sorted(names, key=lambda key: key.split("/")))  # SeaweedFS keeps a tree


@pytest.mark.slow
def test_a_listing_over_several_pages_is_complete(place: Place) -> None:
    put_all(place, [f"wh/d/{n:04}" for n in range(1_005)])

    pages = [len(page) for page in place.vault().list("d/")]

    assert pages == [1_000, 5]


def test_a_prefix_lists_only_its_own_keys(place: Place) -> None:
    for path in ["wh/stage/u1/a", "wh/stage/u1/b/c", "wh/stage/u10/a", "wh/stage/u1.txt", "stage/u1/a"]:
        place.put(path)
    vault = place.vault()

    assert keys(vault, "stage/u1/") == ["stage/u1/a", "stage/u1/b/c"]
    assert sorted(keys(vault, "stage/u1")) == ["stage/u1.txt", "stage/u1/a", "stage/u1/b/c", "stage/u10/a"]
    assert keys(vault, "stage/u2/") == []
    assert keys(vault, "nowhere/") == []


def test_an_ambiguous_key_refuses_its_page_before_any_delete(place: Place, subtests: pytest.Subtests) -> None:
    place.put("wh/d/1")
    for key in ["", "/d/1", "d/../../x", "..", "d//1", "d/./1", "d\0", "_sexton/vault.json", "d/_sexton/x", "\ud800"]:
        with subtests.test(key=key):
            with pytest.raises(BadInput):
                place.vault().delete(["d/1", key])
            assert place.has("wh/d/1")


def test_a_root_or_ambiguous_prefix_is_not_listed(place: Place, subtests: pytest.Subtests) -> None:
    for prefix in ["", "/", "d/../", "_", "_sexton/", "d//", "../"]:
        with subtests.test(prefix=prefix), pytest.raises(BadInput):
            place.vault().list(prefix)


def test_the_marker_is_never_overwritten(place: Place) -> None:
    vault = place.vault()
    assert vault.read_marker() is None

    vault.write_marker(MARKER)

    assert vault.read_marker() == MARKER
    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        vault.write_marker(MARKER.model_copy(update={"vault_uuid": "other"}))
    assert vault.read_marker() == MARKER


def test_a_marker_that_cannot_be_read_is_foreign(place: Place) -> None:
    place.put(f"wh/{MARKER_KEY}", b'{"vault_uuid": 1')

    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        place.vault().read_marker()


def test_a_missing_bucket_is_a_fault_not_an_absence(place: Place) -> None:
    vault = place.vault(location="nowhere-at-all")

    for attempt in (
        vault.read_marker,
        lambda: vault.write_marker(MARKER),
        lambda: keys(vault, "d/"),
        lambda: vault.delete(["d/1"]),
        vault.descendant_marker,
    ):
        with pytest.raises(VaultFault) as caught:
            attempt()
        assert caught.value.reason == "NO_BUCKET"
    with pytest.raises(VaultFault, match="NO_BUCKET"):  # it was not made by the attempt to write
        vault.read_marker()


def test_vaults_above_and_below_are_detected(place: Place) -> None:
    inner, middle, root = place.vault("a/b/c/"), place.vault("a/b/"), place.vault("")
    assert (list(inner.ancestor_markers()), root.descendant_marker()) == ([], None)
    inner.write_marker(MARKER)
    middle.write_marker(MARKER.model_copy(update={"name": "middle"}))

    assert list(inner.ancestor_markers()) == [MARKER.model_copy(update={"name": "middle"})]
    assert list(place.vault("a/bb/").ancestor_markers()) == []
    assert middle.descendant_marker() == MARKER
    assert inner.descendant_marker() is None
    root.write_marker(MARKER.model_copy(update={"name": "root"}))
    assert [marker.name for marker in inner.ancestor_markers()] == ["root", "middle"]


def test_a_listing_that_reaches_another_vault_is_a_fault(place: Place) -> None:
    place.put("wh/d/1")
    place.vault("wh/d/inner/").write_marker(MARKER)

    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        keys(place.vault(), "d/")


def test_a_vault_of_the_whole_place_never_lists_its_marker(place: Place) -> None:
    vault = place.vault("")
    vault.write_marker(MARKER)
    place.put("d/1")

    assert keys(vault, "d/") == ["d/1"]
    assert outcomes(list(vault.delete(["d/1"]))) == [("d/1", KeyOutcome.DELETED)]
    assert vault.read_marker() == MARKER


def test_a_vault_prefix_without_separator_is_refused(place: Place) -> None:
    with pytest.raises(BadInput, match="end with '/'"):
        place.vault("wh")
