"""The parts of a vault hold together each object exactly once."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.storage.model import Probe, VaultPart
from sexton.storage.port import Vault, VaultFault
from sexton.storage.s3 import listing
from sexton.storage.s3.vault import S3Vault
from sexton.storage.vault_parts import cut, in_bytes, spread
from tests.integration.storage.test_vault import ODD
from tests.servers.s3 import RunningS3
from tests.support.places import MARKER, Bucket, Directory, Place, keys, put_all

KEYS = ["a.dat", "b", "t/1/x", "t/1/y", "t/2/x", "t-1/x", "t.x", "u/v/w/deep/1", "u/v/w/deep/2", "z/0"]


@pytest.fixture
def place(either: Place) -> Place:
    if isinstance(either, Directory):
        (either.path / "wh").mkdir()  # a directory that is not there is a fault, a prefix is nothing
    return either


def page_of(keys: Sequence[str] = (), folders: Sequence[str] = (), token: str = "") -> listing.ListingPage:
    """A page of objects and folders, with the token of the next."""
    unknown = [""] * len(keys)
    return listing.ListingPage(keys, ([1] * len(keys), unknown, unknown), folders, False, token, token != "")


def listed(vault: Vault, parts: Sequence[VaultPart]) -> list[str]:
    return [one.key for part in parts for page in vault.list_part(part) for one in page]


def test_parts_hold_each_object_once_without_own_files(place: Place, subtests: pytest.Subtests) -> None:
    odd = [f"odd/{n}/{name}" for n, name in enumerate(ODD)] + [f"odd/{name}/1" for name in ODD]
    put_all(place, [f"wh/{key}" for key in [*KEYS, *odd]])
    put_all(place, ["wh2/a", "w"])
    vault = place.vault()
    vault.write_marker(MARKER)
    for count in [1, 2, 5, 100]:
        with subtests.test(count=count):
            parts = vault.parts(count)

            assert sorted(listed(vault, parts)) == sorted([*KEYS, *odd])
            assert len(parts) == len(set(parts)) >= min(count, 5)


def test_vaults_without_a_prefix_or_objects_are_cut_too(place: Place) -> None:
    empty = place.vault("wh/") if isinstance(place, Directory) else place.vault("none/")
    before = empty.parts(10)
    put_all(place, ["wh/a", "wh/b/c", "top"])
    whole = place.vault("")

    assert (before, listed(empty, [VaultPart()])) == ([VaultPart()], [] if isinstance(place, Bucket) else ["a", "b/c"])
    assert sorted(listed(whole, whole.parts(10))) == ["top", "wh/a", "wh/b/c"]


def test_a_nested_vault_is_a_fault_of_its_part(place: Place) -> None:
    put_all(place, ["wh/a/1", "wh/b/1", "wh/b/_sexton/vault.json"])
    vault = place.vault()
    parts = {part.prefix: part for part in vault.parts(3)}

    assert listed(vault, [parts["a/"]]) == ["a/1"]
    with pytest.raises(VaultFault, match="another vault"):
        listed(vault, [parts["b/"]])


@pytest.mark.slow
def test_more_folders_than_a_page_holds_are_all_found(s3_server: RunningS3, bucket: str) -> None:
    place = Bucket(s3_server.client(), s3_server.endpoint_url, bucket)
    paths = [f"wh/{n:04}/x" for n in range(1_005)]
    put_all(place, paths)
    vault = place.vault()

    parts = vault.parts(1_000)

    assert sorted(s.prefix for s in parts if s.prefix) == [f"{n:04}/" for n in range(1_005)]
    assert len(keys(vault, "0")) == 1_000


def test_a_part_of_a_lost_bucket_is_a_fault_and_no_end(s3_server: RunningS3) -> None:
    gone = Bucket(s3_server.client(), s3_server.endpoint_url, "b-never-made").vault()

    with pytest.raises(VaultFault):
        gone.parts(10)
    with pytest.raises(VaultFault):
        listed(gone, [VaultPart("a/")])


def test_an_impossible_folder_name_is_a_fault(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for name in ["x/", "wh/a", "wh/", "wh/a/b/"]:
        with subtests.test(name=name):
            monkeypatch.setattr(listing, "_page", lambda *_, name=name, **__: page_of(folders=[name]))
            with pytest.raises(VaultFault, match="BAD_REPLY"):
                Bucket(None, "http://127.0.0.1:1", "bucket").vault().parts(10)  # type: ignore[arg-type]


def test_a_store_that_forgets_the_delimiter_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_page", lambda *_, **__: page_of(["wh/a/1"]))
    with pytest.raises(VaultFault, match="BAD_REPLY"):
        listed(Bucket(None, "http://127.0.0.1:1", "bucket").vault(), [VaultPart(loose=True)])  # type: ignore[arg-type]


class TestRanges:
    """Cut by keys, where a store was seen to list in byte order; the stub here does."""

    def test_ranges_need_a_store_proven_to_list_in_byte_order(self, place: Place) -> None:
        place.put("wh/a")
        with pytest.raises(ValueError, match=r"byte order|directory"):
            listed(place.vault(), [VaultPart(after="a")])

    def test_ranges_of_a_store_in_byte_order_hold_each_object_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        every = sorted(f"{n:03}{tail}" for n in range(300) for tail in ("", "/x", "-y"))
        vault = in_byte_order(monkeypatch, every)

        parts = cut(VaultPart(), [every[100], "150~", every[100], every[700]])

        assert [p.after for p in parts] == ["", every[100], "150~", every[700]]
        assert [key for part in parts for key in listed(vault, [part])] == every
        assert listed(vault, [VaultPart("1", after="199", until="199/x")]) == ["199-y", "199/x"]

    @pytest.mark.parametrize("flat", [True, False], ids=["flat", "folders"])
    def test_such_a_vault_is_cut_at_keys(self, monkeypatch: pytest.MonkeyPatch, flat: bool) -> None:
        every = [f"part-{n:05}" if flat else f"{n:05}/x" for n in range(900)]
        vault = in_byte_order(monkeypatch, every)

        parts = vault.parts(8)

        assert [key for part in parts for key in listed(vault, [part])] == every
        assert max(len(listed(vault, [part])) for part in parts) <= 300
        assert len(parts) <= 9

    def test_a_store_that_forgets_where_to_begin_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        vault = in_byte_order(monkeypatch, ["a", "b", "c"], heeds_after=False)
        with pytest.raises(VaultFault, match="BAD_REPLY"):
            listed(vault, [VaultPart(after="b")])


def in_byte_order(monkeypatch: pytest.MonkeyPatch, every: list[str], *, heeds_after: bool = True) -> S3Vault:
    """A vault whose store's pages are made here, of 100 keys; SeaweedFS lists by paths."""

    def page(
        bucket: Any, prefix: str, token: str, *, after: str = "", loose: bool = False, most: int = 100
    ) -> listing.ListingPage:
        beyond = token or (after if heeds_after else "")
        found = [f"wh/{key}" for key in every if f"wh/{key}".startswith(prefix) and f"wh/{key}" > beyond]
        return page_of(found[:100], token=found[99] if len(found) > 100 else "")

    monkeypatch.setattr(listing, "_page", page)
    vault = Bucket(None, "http://127.0.0.1:1", "bucket").vault()  # type: ignore[arg-type]
    probed = vault.spec.model_copy(update={"probe": Probe(order="byte", start_after=True)})
    return S3Vault(probed)


@pytest.mark.slow
@given(st.lists(st.text("ab/", min_size=1, max_size=6), max_size=30, unique=True), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_any_folders_are_cut_into_parts_that_hold_each_key_once(every: list[str], count: int) -> None:
    def folders(at: str) -> list[str]:
        inner = {key[: key.index("/", len(at)) + 1] for key in every if key.startswith(at) and "/" in key[len(at) :]}
        return sorted(inner)

    parts = spread(folders, count)

    for key in every:
        holds = [p for p in parts if key.startswith(p.prefix) and not (p.loose and "/" in key[len(p.prefix) :])]
        assert len(holds) == 1


def test_byte_order_is_assumed_only_after_a_probe(subtests: pytest.Subtests) -> None:
    for probe, whether in [
        (None, False),
        (Probe(order="byte", start_after=True), True),
        (Probe(order="byte"), False),
        (Probe(order="path", start_after=True), False),
    ]:
        with subtests.test(probe=probe, whether=whether):
            assert in_bytes(probe) is whether
