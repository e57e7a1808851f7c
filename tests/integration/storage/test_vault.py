"""Every vault lists its own keys completely and deletes exactly the named ones; Sexton's own files lie apart."""

from functools import partial
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.storage.model import MARKER_KEY, KeyOutcome
from sexton.storage.port import Vault, VaultFault
from tests.support.places import MARKER, Directory, Place, keys, listing, put_all

ODD = ["a b", "a+b", "a%20b", "a%2Fb", "é", "e\u0301", "\U0001f600", "\uffee", "'q'", '"q"', "<x>", "&amp;", "t\tt"]
ODD += ["n\nn", "r\rr", "c\x01c", "f\uffff", " lead", "trail ", "back..slash", "~", "=", "?", "#", ";", "*"]


@pytest.fixture
def place(either: Place) -> Place:
    return either


def test_exactly_the_named_keys_are_deleted_in_their_order(place: Place) -> None:
    for path in ["wh/d/1", "wh/d/2", "wh/d/10", "d/1", "wh/a/1"]:
        place.put(path)
    vault = place.vault()

    assert list(vault.delete([])) == []
    assert place.has("wh/d/1")
    results = list(vault.delete(["d/1", "d/0", "gone/x/y", "a/1", "d/1"]))

    assert [result.key for result in results] == ["d/1", "d/0", "gone/x/y", "a/1", "d/1"]
    assert [results[n].outcome for n in (0, 3)] == [KeyOutcome.DELETED] * 2
    assert {result.outcome for result in results} <= {KeyOutcome.ABSENT, KeyOutcome.DELETED}  # S3 does not tell
    assert [place.has(path) for path in ["wh/d/1", "wh/a/1", "wh/d/2", "wh/d/10", "d/1"]] == [False] * 2 + [True] * 3


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
        lambda: vault.stat(["d/1"]),
    ):
        with pytest.raises(VaultFault, match=": NO_BUCKET:"):
            attempt()
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
    assert [(result.key, result.outcome) for result in vault.delete(["d/1"])] == [("d/1", KeyOutcome.DELETED)]
    assert vault.read_marker() == MARKER


def test_a_vault_prefix_without_separator_is_refused(place: Place) -> None:
    with pytest.raises(BadInput, match="end with '/'"):
        place.vault("wh")


@pytest.fixture
def vault(place: Place) -> Vault:
    made = place.vault()
    made.write_marker(MARKER)
    return made


def own(vault: Vault, prefix: str) -> list[tuple[str, int]]:
    return [(listed.key, listed.bytes) for page in vault.list_own(prefix) for listed in page]


def test_an_own_file_is_stored_replaced_and_read_back(place: Place, vault: Vault) -> None:
    vault.write_own("audit/2026-01-02/7.parquet", b"long, first")
    vault.write_own("audit/2026-01-02/7.parquet", b"rows")
    vault.write_own("audit/2026-01-03/8.parquet", b"more rows")
    vault.write_own("other", b"")

    assert vault.read_own("audit/2026-01-02/7.parquet") == b"rows"
    assert place.has("wh/_sexton/audit/2026-01-02/7.parquet")
    assert own(vault, "audit/") == [("audit/2026-01-02/7.parquet", 4), ("audit/2026-01-03/8.parquet", 9)]
    assert own(vault, "audit/2026-01-03") == [("audit/2026-01-03/8.parquet", 9)]
    assert own(vault, "nothing/") == []


def test_an_own_file_may_be_removed_twice(vault: Vault) -> None:
    for name in ("audit/1", "audit/2", "audit/10"):
        vault.write_own(name, b"x")

    for _ in range(2):
        vault.remove_own(["audit/1", "never/there"])

    assert [vault.read_own(name) for name in ("audit/1", "audit/2", "audit/10")] == [None, b"x", b"x"]
    assert [name for name, _ in own(vault, "a")] == ["audit/10", "audit/2"]


def test_more_own_files_than_a_page_are_removed(vault: Vault, place: Place) -> None:
    for name in ("audit/0000", "audit/1001"):
        vault.write_own(name, b"x")

    vault.remove_own([f"audit/{n:04}" for n in range(1_002)])

    assert own(vault, "audit/") == []


def test_the_marker_is_not_an_own_file(vault: Vault, subtests: pytest.Subtests) -> None:
    for name in ["vault.json", "vault.json.bak", ".vault.json.1", "vault.json/x", ".draft-1", "a/.draft-1"]:
        with subtests.test(name=name):
            for attempt in (
                partial(vault.write_own, name, b"x"),
                partial(vault.read_own, name),
                partial(vault.remove_own, ["audit/1", name]),
            ):
                with pytest.raises(BadInput, match="marker"):
                    attempt()
            assert vault.read_marker() == MARKER


def test_a_name_that_could_lead_elsewhere_is_refused(vault: Vault, subtests: pytest.Subtests) -> None:
    for name in ["", "/x", "a//b", "../vault.json", "a/../../x", "a/", "a\0", "\ud800", "_sexton/x"]:
        with subtests.test(name=name):
            with pytest.raises(BadInput):
                vault.write_own(name, b"x")
            with pytest.raises(BadInput):
                vault.remove_own([name])
            assert own(vault, "a") == []


def test_own_files_are_no_objects_and_not_the_marker(vault: Vault) -> None:
    vault.write_own("v", b"x")

    assert own(vault, "v") == [("v", 1)]
    for refused in (lambda: vault.list_own(""), lambda: vault.delete(["_sexton/v"]), lambda: vault.stat(["_sexton/v"])):
        with pytest.raises(BadInput):
            refused()
    assert vault.read_own("v") == b"x"


def test_stat_returns_what_exists_as_a_listing_shows_it(place: Place, vault: Vault) -> None:
    for n in range(20):
        place.put(f"wh/d/{n}", b"x" * n)

    found = vault.stat(["d/19", "d/nothing", "d/3", "e/f/g"])

    listed = {one.key: one for page in vault.list("d/") for one in page}
    assert list(found) == [listed["d/19"], listed["d/3"]]
    assert vault.stat([]) == []


def test_an_own_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / "wh" / "_sexton").mkdir(parents=True)
    (root / "wh" / "_sexton" / "audit").symlink_to(outside)
    vault = Directory(root).vault()

    for attempt in (
        lambda: vault.write_own("audit/1", b"x"),
        lambda: vault.read_own("audit/1"),
        lambda: own(vault, "audit/"),
    ):
        with pytest.raises(VaultFault):
            attempt()
    assert list(outside.iterdir()) == []


def test_a_stat_of_a_local_link_shows_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "wh" / "d").mkdir(parents=True)
    (root / "wh" / "d" / "1").write_text("one")
    (root / "wh" / "d" / "2").symlink_to(root / "wh" / "d" / "1")

    [found] = Directory(root).vault().stat(["d/1", "d/2", "d", "d/1/x"])

    assert (found.key, found.bytes) == ("d/1", 3)
