"""Run the `sexton` command in the test's own process, for a ``Rig``'s deployment, with an empty standard input."""

import io
import sys
from dataclasses import dataclass

import pytest

from sexton.interfaces.cli import main as cli
from tests.support.rig import Rig


@dataclass
class Printed:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def run(rig: Rig, capsys: pytest.CaptureFixture[str], *words: str) -> Printed:
    """Run `sexton` with arguments; return its exit code and what it printed."""
    with pytest.MonkeyPatch.context() as m:
        m.setenv("SEXTON_DATABASE_URL", rig.url)
        m.setenv("SEXTON_LIVE_DATABASE_URL", rig.live_url)
        m.setenv("SEXTON_DEPLOYMENT", rig.deployment)
        m.setenv("SEXTON_S3__ENDPOINT_URL", rig.endpoint_url)
        m.setattr(sys, "argv", ["sexton", *words])
        m.setattr(sys, "stdin", io.StringIO())
        capsys.readouterr()
        code = cli.run()
    printed = capsys.readouterr()
    return Printed(code, printed.out, printed.err)
