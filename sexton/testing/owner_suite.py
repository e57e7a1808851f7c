"""The tests that every owner must pass, for its own repository: subclass ``OwnerSuite`` and let pytest find it.

Each test drives the owner as its users would (``OwnerDriver``), runs rounds and checks of Sexton, and looks at the
files that are left.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import ClassVar, Protocol

import pytest

from sexton.kernel.crash_points import installed
from sexton.kernel.errors import SextonError
from sexton.marks.kept import KeepReason
from sexton.recycle.model import RoundReport
from sexton.testing.workbench import Workbench

ROUNDS = 3
"""Rounds in which everything that is due must be deleted."""
WITHIN = (
    "keepers.asked",
    "fence.written",
    "commits.read",
    "owner.fenced",
    "claim.asked",
    "claim.committed",
)
"""Points of a round, none of them inside of a transaction that decides, at which owners and jobs act."""


class OwnerDriver(Protocol):
    """What the suite does to an owner's store. Files are written with ``Workbench.put``."""

    def create(self, name: str) -> set[str]:
        """Create an object with at least two files, and return their keys."""
        ...

    def drop(self, name: str) -> None:
        """Drop it, so that its files become garbage."""
        ...

    def undrop(self, name: str) -> bool:
        """Bring a dropped object back; return False where the owner refuses."""
        ...

    def silence(self) -> AbstractContextManager[None]:
        """Make the owner's records unreadable while the context lasts."""
        ...


class Crash(BaseException):
    """The process ends here; no handler of ``Exception`` sees it."""


class OwnerSuite(ABC):
    """The suite. A subclass names the owner, its options, and how to drive it."""

    owner: ClassVar[str]
    """The name of the owner's entry point."""

    @abstractmethod
    def drive(self, bench: Workbench, directory: Path) -> OwnerDriver:
        """Return a driver of an empty store; ``directory``: where its files may be, as in ``options``."""

    def options(self, directory: Path) -> Mapping[str, str]:
        """Return the options with which the instance is added."""
        del directory
        return {}

    @pytest.fixture
    def database_url(self) -> str:
        """The URL of an empty database; empty: one of a PostgreSQL that the suite starts."""
        return ""

    @pytest.fixture
    def bench(self, tmp_path: Path, database_url: str) -> Iterator[Workbench]:
        bench = Workbench(tmp_path, self.owner, self.options(tmp_path), database_url)
        yield bench
        bench.close()

    @pytest.fixture
    def driver(self, bench: Workbench, tmp_path: Path) -> OwnerDriver:
        return self.drive(bench, tmp_path)

    def test_dropped_files_go_after_the_retention_and_no_others(self, bench: Workbench, driver: OwnerDriver) -> None:
        kept, _ = driver.create("kept"), driver.create("gone")
        driver.drop("gone")
        early = bench.round()
        all_keys = bench.keys()
        bench.later()
        finish(bench)

        assert early.deleted == 0
        assert len(all_keys) > len(kept)
        assert bench.keys() == kept
        assert bench.marks() == set()

    def test_an_undropped_object_stays_and_its_next_drop_waits(self, bench: Workbench, driver: OwnerDriver) -> None:
        keys = driver.create("t")
        drop_until_due(bench, driver, "t")
        assert driver.undrop("t")
        bench.round()
        stayed = bench.keys()
        driver.drop("t")
        bench.round()
        waits = bench.keys()
        bench.later()
        finish(bench)

        assert stayed == waits == keys
        assert bench.keys() == set()

    def test_what_a_dead_round_had_claimed_never_comes_back(self, bench: Workbench, driver: OwnerDriver) -> None:
        driver.create("t")
        drop_until_due(bench, driver, "t")
        crash(bench, "claim.committed")
        bench.restart()

        assert not driver.undrop("t")
        bench.later(120)
        finish(bench)
        assert bench.keys() == set()

    @pytest.mark.parametrize("point", ["owner.fenced", "files.deleted", "owner.forgot", "marks.removed"])
    def test_a_round_that_dies_anywhere_is_finished(self, bench: Workbench, driver: OwnerDriver, point: str) -> None:
        kept, _ = driver.create("kept"), driver.create("gone")
        drop_until_due(bench, driver, "gone")
        crash(bench, point)
        bench.restart()
        bench.later(120)
        finish(bench)

        assert bench.keys() == kept
        assert bench.marks() == set()

    def test_an_owner_that_does_not_answer_keeps_everything(self, bench: Workbench, driver: OwnerDriver) -> None:
        keys = driver.create("t")
        drop_until_due(bench, driver, "t")
        with driver.silence():
            report = bench.round()
            checked = bench.check()
        silent = {kept.reason for kept in report.kept}

        assert bench.keys() == keys
        assert KeepReason.OWNER_SILENT in silent
        assert report.faults > 0
        assert not checked.whole
        finish(bench)
        assert bench.keys() == set()

    def test_a_mark_on_a_live_file_deletes_nothing(self, bench: Workbench, driver: OwnerDriver) -> None:
        keys = driver.create("t")
        for key in keys:
            bench.mark_by_mistake(key)
        bench.later()
        report = finish(bench)

        assert bench.keys() == keys
        assert report.deleted == 0

    def test_a_check_finds_a_lost_file(self, bench: Workbench, driver: OwnerDriver) -> None:
        keys = driver.create("t")
        driver.create("u")
        bench.later(2 * 86_400)
        clean = bench.check()
        lost = sorted(keys)[0]
        (bench.root / lost).unlink()
        bench.check()

        assert (clean.whole, clean.found) == (True, {})
        assert ("LOST", lost) in bench.findings()

    def test_an_owner_is_not_asked_before_it_has_a_vault(self, bench: Workbench, driver: OwnerDriver) -> None:
        keys = driver.create("t")
        bench.later(2 * 86_400)
        checked = bench.check()

        assert not bench.asked_early
        assert (checked.whole, checked.found, bench.keys()) == (True, {}, keys)

    @pytest.mark.parametrize("point", WITHIN)
    def test_an_undrop_within_a_round_keeps_or_is_refused(
        self, bench: Workbench, driver: OwnerDriver, point: str
    ) -> None:
        """What is live again between two steps of a round stays, or its owner refuses to bring it back."""
        back, gone = driver.create("back"), driver.create("gone")
        drop_until_due(bench, driver, "back", "gone")
        answers: list[bool] = []
        with installed(once(point, lambda: answers.append(driver.undrop("back")))):
            bench.round()
        answers = answers or [driver.undrop("back")]  # a round over this owner's marks does not come to the point
        finish(bench)

        assert bench.keys() & (back | gone) == (back if answers[0] else set()), (
            f"at {point} the undrop was {'accepted' if answers[0] else 'refused'}, and left are {sorted(bench.keys())}"
        )

    @pytest.mark.parametrize("point", WITHIN)
    def test_a_copy_registered_within_a_round_is_whole_or_refused(
        self, bench: Workbench, driver: OwnerDriver, point: str
    ) -> None:
        copied, gone = driver.create("copied"), driver.create("gone")
        drop_until_due(bench, driver, "copied", "gone")
        protected: list[bool] = []

        def register() -> None:
            try:
                bench.protect("copy", copied)
            except SextonError:  # some of it is being deleted
                protected.append(False)
            else:
                protected.append(True)

        with installed(once(point, register)):
            bench.round()
        if not protected:
            register()
        for _ in range(ROUNDS):
            bench.round()

        assert gone.isdisjoint(bench.keys())
        assert (copied <= bench.keys()) == protected[0], f"at {point}; left are {sorted(bench.keys())}"


def drop_until_due(bench: Workbench, driver: OwnerDriver, *names: str) -> None:
    """Drop objects, let a round read that, and wait until they are due."""
    for name in names:
        driver.drop(name)
    bench.round()
    bench.later()


def finish(bench: Workbench) -> RoundReport:
    """Run rounds, at most 5, until one had nothing to do: parents and second passes need later ones."""
    report, marks = bench.round(), bench.marks()
    for _ in range(4):
        before = marks
        bench.later(2 * 86_400)
        report, marks = bench.round(), bench.marks()
        if not (before or marks):
            break
    return report


def crash(bench: Workbench, point: str) -> None:
    """Run a round that dies at a point, if it comes there."""

    def die(reached: str) -> None:
        if reached == point:
            raise Crash

    with suppress(Crash), installed(die):
        bench.round()


def once(point: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Return a hook for ``crash_points.installed`` that acts when a point is reached for the first time."""
    waiting = [point]

    def hook(name: str) -> None:
        if name in waiting:
            waiting.clear()
            act()

    return hook
