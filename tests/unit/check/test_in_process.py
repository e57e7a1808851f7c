"""What one process finds is what a plain definition finds, whatever its memory; it reads no file but its own."""

import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import duckdb
import pytest

from sexton.check import in_process
from sexton.check.in_process import InProcessComparison
from sexton.check.model import CheckOrder, Discrepancy, Evidence, Moment, Run, RunState
from sexton.check.policy import judge
from sexton.kernel.errors import SextonError
from sexton.marks.live import LiveEntry, Part
from sexton.storage.model import ListedObject, VaultPart, VaultSpec
from sexton.storage.policy import canonical
from sexton.storage.port import VaultFault

OLD, YOUNG = "2026-01-01T00:00:00", "2026-01-02T00:00:00"
CUTOFF, GRACE = 1_767_312_000_999, 3_600  # 2026-01-02T00:00:00 UTC, and a bit
LETTERS = (
    "a",
    "b",
    "K",
    "é",
    unicodedata.normalize("NFD", "é"),
    "%61",
    "/",
    "//",
    "_",
    "-",
    "'",
    '"',
    "\n",
    "\0",
    "雪",
)
VAULTS = ("hot", "cold")


class Sides(NamedTuple):
    """Stands for the vaults, the live side and the store of a check: objects by vault, and entries."""

    objects: dict[str, list[ListedObject]]
    entries: list[LiveEntry]
    stored: list[Discrepancy]
    faulty: str = ""
    """A vault whose listing ends with a fault."""

    def get(self, _: str, name: str) -> Any:
        def list_part(_: object) -> Iterator[Sequence[ListedObject]]:
            yield self.objects[name]
            if name == self.faulty:
                raise VaultFault(name, "UNREACHABLE", "silent")

        return SimpleNamespace(reports=lambda: (), parts=lambda _: [VaultPart()], list_part=list_part)

    def confirm(self, *_: object) -> None: ...

    def now(self) -> int:
        return CUTOFF

    def count(self, *_: object) -> None: ...

    def store_findings(self, _: Run, found: Sequence[Discrepancy]) -> None:
        self.stored.extend(found)

    def pattern(self, _: str) -> str:
        return ""

    def wait_for_refresh(self, *_: object) -> None: ...

    @contextmanager
    def snapshot(self, _: str, *, divided: bool) -> Iterator[Moment]:
        assert not divided
        yield Moment("", CUTOFF, (Part("view"),))

    def read(self, *_: object) -> Iterator[Any]:
        return (self.entries[n : n + 50] for n in range(0, len(self.entries), 50))

    def compared(
        self, *, inverted: bool = True, grace: int = GRACE, heartbeat: Callable[[], None] = lambda: None
    ) -> Evidence:
        """Compare both sides as a check does, and return the evidence."""
        run = Run(id=1, instance="shop", run="r", state=RunState.RUNNING, cutoff=CUTOFF)
        order = CheckOrder(instance="shop", run=run, grace_seconds=grace, inverted=inverted)
        specs = [VaultSpec.model_construct(instance="shop", name=name) for name in self.objects]
        port: Any = self
        return InProcessComparison(port, port, port).compare(order, specs, heartbeat)

    def found(self) -> set[tuple[str, str, str]]:
        return {(f.type, f.vault, canonical(f.key)) for f in self.stored}


def expected(sides: Sides, *, inverted: bool) -> set[tuple[str, str, str]]:
    """Return the same by the definition: each object against each entry."""
    found = set()
    listed = [(vault, canonical(o.key), o) for vault, objects in sides.objects.items() for o in objects]
    for e in sides.entries:
        is_listed = any(v == e.vault and (n.startswith(e.name) if e.prefix else n == e.name) for v, n, _ in listed)
        if e.live and e.vault in sides.objects and e.vault != sides.faulty:
            if not is_listed:
                found.add(("LOST", e.vault, e.name))
            same = [o.bytes for v, _, o in listed if v == e.vault and o.key == e.key]
            if not e.prefix and e.bytes is not None and any(size != e.bytes for size in same):
                found.add(("SIZE_MISMATCH", e.vault, e.name))
    for vault, name, o in listed if inverted else ():
        known = (e for e in sides.entries if e.vault == vault)
        is_known = any(name.startswith(e.name) if e.prefix else name == e.name for e in known)
        if o.written == OLD and not is_known:
            found.add(("UNKNOWN_KIND", vault, name))
    return found


def sides_of(seed: int) -> Sides:
    """Return small sides that agree in part, whose keys are similar and written in several ways."""
    r = random.Random(seed)
    keys = ["d/" + "".join(r.choices(LETTERS, k=r.randint(1, 4))) for _ in range(25)]
    objects = {
        vault: [
            ListedObject(k, r.choice((10, 11)), "e", r.choice((OLD, OLD, YOUNG, "")))
            for k in set(r.choices(keys, k=15))
        ]
        for vault in VAULTS
    }
    entries = []
    for n, key in enumerate(r.choices(keys, k=r.choice((0, 10, 30)))):
        vault, is_prefix, is_live = r.choice((*VAULTS, "elsewhere")), r.random() < 0.2, r.random() < 0.7
        entries.append(LiveEntry(vault, key, is_prefix, is_live, r.choice((None, 10, 11)), f"f/{n}"))
    return Sides(objects, entries, [], r.choice(("", "", "cold")))


def test_findings_are_those_of_the_definition() -> None:
    for seed in range(60):
        sides, inverted = sides_of(seed), seed % 5 != 0
        evidence = sides.compared(inverted=inverted)

        assert sides.found() == expected(sides, inverted=inverted), seed
        assert sum(evidence.found.values()) == len(sides.stored)
        live = [e for e in sides.entries if e.live]
        assert evidence.live == len({(e.vault, e.name) for e in live if not e.prefix})
        assert evidence.prefixes == sum(e.prefix for e in live)
        for listing in evidence.listings:
            written = [o.written for o in sides.objects[listing.vault]]
            assert (listing.objects, listing.young) == (written.count(OLD), len(written) - written.count(OLD))
            assert listing.whole is (listing.vault != sides.faulty)


def many(count: int) -> Sides:
    """Return sides of which nothing agrees, with long names of many prefixes, each in the others."""
    objects = [ListedObject(f"data/{n:06}/" + "_" * 500, 10, "e" * 32, OLD) for n in range(count)]
    prefixes = [LiveEntry("hot", f"tmp/{n % 100:02}/{n:06}/", prefix=True, live=False) for n in range(count)]
    entries = [LiveEntry("hot", f"data/{n:06}/x.dat", False, live=True, record=f"f/{n}") for n in range(count)]
    return Sides({"hot": objects}, [*prefixes, *entries, LiveEntry("hot", "data/000001/", True, live=False)], [])


@pytest.mark.parametrize("memory", ["48MB", "192MB"])
def test_more_than_its_memory_gives_the_same_findings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory: str
) -> None:
    monkeypatch.setitem(in_process.LIMITS, "memory_limit", memory)
    monkeypatch.setattr(in_process.tempfile, "tempdir", str(tmp_path))
    sides = many(20_000)

    evidence = sides.compared()

    assert evidence.found == {"LOST": 20_000, "UNKNOWN_KIND": 19_999}
    assert len(sides.found()) == 39_999
    assert list(tmp_path.iterdir()) == []


def test_scratch_may_lie_in_a_folder_with_any_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("it's", "a[b]", "a*", "a?b", "vault=x", "é {a,b}", "a%20b"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(in_process.tempfile, "tempdir", str(tmp_path / name))
        sides = sides_of(1)
        sides.compared()

        assert sides.found() == expected(sides, inverted=True)


STATEMENTS = (
    "FROM read_text('/etc/hostname')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 8",
    "FROM read_csv('https://x/y')",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_other_file_extension_or_server_is_reached(monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    monkeypatch.setattr(in_process, "_COUNTS", statement)

    with pytest.raises(duckdb.Error, match=r"disabled|locked|Missing Extension|Permission"):
        sides_of(1).compared()


def test_a_cancelled_comparison_ends_within_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(1000000000) a, range(100000) b"
    monkeypatch.setattr(in_process, "_COUNTS", endless)
    beats = []

    def heartbeat() -> None:
        beats.append(None)
        if len(beats) > 5:
            raise SextonError("cancelled")

    with pytest.raises(SextonError, match="cancelled"):
        sides_of(1).compared(heartbeat=heartbeat)


def test_k04_objects_younger_than_the_grace_are_not_judged() -> None:
    for grace, old, young in (
        (86_400, "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
        (0, "2026-01-01T23:00:00", "2026-01-01T23:00:01"),
    ):
        listed = [ListedObject(f"{n}", 10, "", at) for n, at in enumerate((old, young, "", "Thu, 01 Jan 2026"))]
        sides = Sides({"hot": listed}, [], [])
        [listing] = sides.compared(grace=grace).listings

        assert (listing.objects, listing.young) == (1, 3)
        assert sides.found() == {("UNKNOWN_KIND", "hot", "0")}


def test_a_check_without_a_vault_compares_nothing() -> None:
    evidence = Sides({}, [], []).compared()

    assert judge(evidence, None) == ("no vault was listed", "the live side was not read to its end")
