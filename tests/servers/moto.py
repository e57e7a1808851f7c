"""moto's S3 server as a second implementation of S3, on a free port of loopback."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.s3 import RunningS3
from tests.support.eventually import eventually


class MotoS3(RunningS3):
    """A running server; it accepts every key."""


@contextmanager
def serving(directory: Path) -> Iterator[MotoS3]:
    """Run the server as a process of its own: moto changes every S3 client of the process that imports it."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    log = directory / "moto.log"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            address = eventually("moto listens", lambda: _address(process, log))
            yield MotoS3(address, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        finally:
            process.kill()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    assert process.poll() is None, log.read_text()
    address = re.search(r"Running on (http://\S+)", log.read_text())
    return address[1] if address else ""
