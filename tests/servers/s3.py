"""The embedded stack's S3 server in a directory of its own, for tests."""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from mypy_boto3_s3 import S3Client

from sexton.runtime.embedded.ports import Ports
from sexton.runtime.embedded.s3 import S3Server


@cache
def client(endpoint_url: str, access_key: str, secret_key: str) -> S3Client:
    """Return the client of a server, created once, because its creation costs more than most tests."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(s3={"addressing_style": "path"}),
    )


def client_of(environment: Mapping[str, str]) -> S3Client:
    """Return the client of the server that environment variables name."""
    names = ("SEXTON_S3__ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return client(*(environment[name] for name in names))


@dataclass
class RunningS3:
    """A running server; `client()` signs with its keys."""

    endpoint_url: str
    access_key: str
    secret_key: str
    server: Any = None

    def client(self) -> S3Client:
        """Return an S3 client of this server."""
        return client(self.endpoint_url, self.access_key, self.secret_key)

    def create_bucket(self) -> str:
        """Create a bucket; return its name."""
        name = f"b-{secrets.token_hex(6)}"
        self.client().create_bucket(Bucket=name)
        return name


def start(home: Path) -> RunningS3:
    """Start a server with fresh keys over a directory and put the keys into this process' environment."""
    access_key, secret_key = secrets.token_hex(8), secrets.token_hex(16)
    server = S3Server(home, Ports(home), access_key, secret_key)
    server.start()
    os.environ.pop("AWS_SESSION_TOKEN", None)
    os.environ.update(AWS_ACCESS_KEY_ID=access_key, AWS_SECRET_ACCESS_KEY=secret_key, AWS_DEFAULT_REGION="us-east-1")
    return RunningS3(server.endpoint_url, access_key, secret_key, server)
