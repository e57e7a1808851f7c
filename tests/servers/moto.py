"""moto's S3 server as a second implementation of S3, on a free port of loopback."""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mypy_boto3_s3 import S3Client

from tests.servers import s3
from tests.support.eventually import eventually


class MotoS3:
    """A running server; it accepts every key."""

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url

    @property
    def access_key(self) -> str:
        return os.environ["AWS_ACCESS_KEY_ID"]

    @property
    def secret_key(self) -> str:
        return os.environ["AWS_SECRET_ACCESS_KEY"]

    def client(self) -> S3Client:
        """Return an S3 client of this server."""
        return s3.client(self.endpoint_url, self.access_key, self.secret_key)

    def create_bucket(self) -> str:
        """Create a bucket; return its name."""
        name = f"m-{secrets.token_hex(6)}"
        self.client().create_bucket(Bucket=name)
        return name


@contextmanager
def serving(directory: Path) -> Iterator[MotoS3]:
    """Run the server as a process of its own: moto changes every S3 client of the process that imports it."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    log = directory / "moto.log"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield MotoS3(_address(process, log))
        finally:
            process.kill()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    def address() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()
        return re.search(r"Running on (http://\S+)", log.read_text())

    found = eventually("moto listens", address)
    assert found is not None
    return found[1]
