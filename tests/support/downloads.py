"""What tests need from Maven and npm: fetched by ``make test`` before the first test, once for each environment."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests import machine

FETCH_SECONDS = 600.0
_HERE = Path(__file__).parent
KAFKA = _HERE.parent / "servers" / "kafka-pom.xml"
GENERATOR = _HERE.parent / "servers" / "openapi-generator-pom.xml"
_TYPESCRIPT = ("typescript@5.9.3", "@types/node@20.19.43")


def jars(pom: Path) -> Path:
    """Return the folder of the jars that a project file names; skip the test where they were not fetched."""
    machine.need("mvn")
    return _fetched(_place(pom))


def typescript() -> Path:
    """Return the folder with the compiler and the types of Node; skip the test where they were not fetched."""
    machine.need("npm")
    return _fetched(_place("\n".join(_TYPESCRIPT))) / "node_modules"


def fetch() -> None:
    """Fetch what is not there yet; print what cannot be had now."""
    for pom, options in ((KAFKA, []), (GENERATOR, ["-DexcludeTransitive=true"])):
        if shutil.which("mvn"):
            _into(_place(pom), lambda into, p=pom, o=options: _maven(p, into, o))  # type: ignore[misc]
    if shutil.which("npm"):
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", *_TYPESCRIPT]
        _into(_place("\n".join(_TYPESCRIPT)), lambda into: (npm, into))


def _fetched(place: Path) -> Path:
    if not place.is_dir():
        reason = f"{machine.REASON}{place.parent.name}, which `make test` fetches"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return place


def _place(of: Path | str) -> Path:
    text, name = (of.read_text(), of.stem.removesuffix("-pom")) if isinstance(of, Path) else (of, "typescript")
    return Path(sys.prefix) / f".{name}" / hashlib.sha256(text.encode()).hexdigest()[:16]


def _maven(pom: Path, into: Path, options: Sequence[str]) -> tuple[list[str], Path]:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={into}", *options]
    return ["mvn", "-q", "-B", "-f", str(pom), *goal], into


def _into(place: Path, command: Callable[[Path], tuple[list[str], Path]]) -> None:
    """Run the command that fills a directory, unless it is there; it appears whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:  # several runs may do this at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.is_dir():
            return
        print(f"fetching {place.parent.name[1:]} …", flush=True)
        fresh = Path(tempfile.mkdtemp(dir=place.parent))
        line, directory = command(fresh)
        with suppress(subprocess.TimeoutExpired):
            ran = subprocess.run(
                line, cwd=directory, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
            if ran.returncode == 0:
                fresh.replace(place)
                return
            print(f"{line[0]} cannot fetch it: {(ran.stdout + ran.stderr).strip()[-400:]}", flush=True)
        shutil.rmtree(fresh)
