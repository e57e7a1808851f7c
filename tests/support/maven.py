"""Jars from Maven, resolved once for all test runs of one Python environment."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FETCH_SECONDS = 300.0


class UnresolvedJars(Exception):
    """Maven could not resolve the artifacts; the text has its output."""


def jars(pom: Path, *options: str) -> Path:
    """Return the folder of the jars that a project file names; raise ``UnresolvedJars`` if they cannot be had now."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    place = Path(sys.prefix) / f".{pom.stem.removesuffix('-pom')}" / digest
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:  # several test runs may do this at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            fresh = Path(tempfile.mkdtemp(dir=place.parent))
            _fetch(pom, fresh, options)
            fresh.replace(place)
    return place


def _fetch(pom: Path, into: Path, options: Sequence[str]) -> None:
    if shutil.which("mvn") is None:
        raise UnresolvedJars("there is no Maven (Debian: maven)")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={into}", *options]
    command = ["mvn", "-q", "-B", "-f", str(pom), *goal]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired as e:
        raise UnresolvedJars(f"Maven did not resolve {pom.name} within {FETCH_SECONDS:.0f} s") from e
    if completed.returncode or not any(into.glob("*.jar")):
        raise UnresolvedJars(f"Maven cannot resolve {pom.name}: {(completed.stdout + completed.stderr).strip()[-400:]}")
