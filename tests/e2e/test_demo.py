"""`make demo` tells its story to the end, and every number agrees with a listing that is not Sexton's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_every_number_of_the_demo_agrees(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SEXTON_", "AWS_"))}
    command = [sys.executable, "-m", "examples.demo", "--exit", "--files", "8000"]
    done = subprocess.run(
        command, cwd=ROOT, env=env | {"SEXTON_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=500
    )

    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-2_000:]
    assert "every number agrees" in done.stdout
    assert "held by protection copy:demo-1" in done.stdout
    assert "region audit was asked to flush" in done.stdout
    assert "all copies are the same" in done.stdout
