"""The list of PostgreSQL variants that only `make soak` runs names tests that exist."""

import subprocess
import sys
from pathlib import Path

from tests.statements import left_to_soak

ROOT = Path(__file__).parents[3]


def test_every_listed_variant_exists() -> None:
    listed = left_to_soak()
    files = sorted({test.partition("::")[0] for test in listed})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()

    assert listed - set(collected) == set()
