"""A flat vault, and one with very many folders, are cut into parts of about the same size."""

import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.storage.model import VaultPart
from sexton.storage.vault_parts import cut_in_bytes, find_points

KEY = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=6)
COUNT = 16


def held(part: VaultPart, keys: Sequence[str]) -> list[str]:
    """Return the keys that a listing of a part yields."""
    return [
        key
        for key in keys
        if key.startswith(part.prefix)
        and key > part.after
        and (not part.until or key <= part.until)
        and not (part.loose and "/" in key[len(part.prefix) :])
    ]


def store(keys: Sequence[str]) -> tuple[Callable[[str], list[str]], Callable[[VaultPart], str | None], list[VaultPart]]:
    """Return the folders and the first keys of a store with these keys, and a list of the requests for first keys."""
    requests: list[VaultPart] = []

    def folders(folder: str) -> list[str]:
        below = [key[len(folder) :] for key in keys if key.startswith(folder)]
        return sorted({f"{folder}{name.split('/')[0]}/" for name in below if "/" in name})

    def first_key(part: VaultPart) -> str | None:
        requests.append(part)
        return next(iter(held(part, keys[bisect_right(keys, part.after) :])), None)

    return folders, first_key, requests


LAYOUTS = {
    "numbers": [f"{n:08}.dat" for n in range(2_000)],
    "one folder": [f"data/part-{n:08}.parquet" for n in range(2_000)],
    "hashes": [uuid.UUID(int=(n * 0x9E3779B97F4A7C15F39CC0605CEDC834) % 2**128).hex for n in range(2_000)],
    "folders": [f"{n:05}/a.dat" for n in range(2_000)],
    "two folders": [f"big/{n:06}" for n in range(1_990)] + [f"small/{n}" for n in range(10)],
}


def test_parts_share_the_keys_evenly(subtests: pytest.Subtests) -> None:
    for name, unsorted in LAYOUTS.items():
        with subtests.test(name):
            keys = sorted(unsorted)
            folders, first_key, requests = store(keys)

            parts = cut_in_bytes(folders, first_key, COUNT)

            assert sorted(key for part in parts for key in held(part, keys)) == keys
            assert max(len(held(part, keys)) for part in parts) <= len(keys) // 3
            assert COUNT // 2 <= len(parts) <= COUNT + 1
            assert len(requests) <= 4 * COUNT + 10


@given(st.lists(KEY, max_size=30, unique=True), st.integers(1, 8))
def test_any_keys_are_each_in_one_part(keys: list[str], count: int) -> None:
    folders, first_key, _ = store(sorted(keys))

    parts = cut_in_bytes(folders, first_key, count)

    assert sorted(key for part in parts for key in held(part, keys)) == sorted(keys)


def test_an_empty_part_is_not_cut() -> None:
    assert find_points(VaultPart("a/"), lambda _: None, 8) == []
