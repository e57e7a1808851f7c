"""Sexton's wheel in an empty environment outside the repository, with the packages that it needs and no others."""

import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path
from sysconfig import get_path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.eventually import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


def build_wheel(directory: Path) -> Path:
    """Build the wheel of this repository and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    [wheel] = directory.glob("*.whl")
    return wheel


class Installation:
    """An environment with the wheel, and links to the tests' copies of what these extras need."""

    def __init__(self, directory: Path, wheel: Path, extras: set[str]) -> None:
        self.programs = directory / "bin"
        python = str(self.programs / "python")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", str(wheel)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
        [self.packages] = directory.glob("lib/python*/site-packages")
        self.own = {path.name for path in self.packages.iterdir()}
        for name in all_needed(extras):
            self._link(name)

    def _link(self, name: str) -> None:
        installed = Path(get_path("purelib"))
        for file in distribution(name).files or ():
            if file.parts[0] != "..":
                link, target = self.packages / file.parts[0], installed / file.parts[0]
            elif file.parent.name == "bin":
                link, target = self.programs / file.name, (installed / file).resolve()
            else:
                continue
            if not link.exists():
                link.symlink_to(target)


def needed(name: str, extras: set[str]) -> set[tuple[str, frozenset[str]]]:
    """Return what a package needs here, each with the extras that are asked of it."""
    wanted = [Requirement(text) for text in requires(name) or ()]
    return {
        (canonicalize_name(r.name), frozenset(r.extras))
        for r in wanted
        if r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in {"", *extras})
    }


def all_needed(extras: set[str]) -> set[str]:
    """Return the packages that Sexton needs with these extras, and what they need in turn."""
    seen: set[tuple[str, frozenset[str]]] = set()
    left = needed("sexton", extras)
    while left:
        package = left.pop()
        seen.add(package)
        left |= needed(package[0], set(package[1])) - seen
    return {name for name, _ in seen} - {"sexton"}  # an extra may include another one
