"""A SeaweedFS with a bucket of small objects, filled once: every measurement begins with the same copy of its files.

Keys are those of rowsets in one folder, 100 to a mark. What is there before and after is told by a plain listing.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from sexton.runtime.embedded.child import find_binary
from sexton.runtime.embedded.ports import Ports
from sexton.runtime.embedded.s3 import S3Server

BUCKET = "bench"
KEYS_A_MARK = 100
OBJECT_BYTES = 1_024
OWN = "_sexton/"
"""What a vault keeps for itself; no object of its owner."""
LOGIN = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_DEFAULT_REGION": "us-east-1"}
FILLERS = 16


def mark_keys(mark: int, keys: int = KEYS_A_MARK) -> list[str]:
    """Return the keys of one mark."""
    return [f"data/tablet-{mark:08}/0200000000001a2b3c4d5e6f_{n:03}.dat" for n in range(keys)]


def log_in() -> None:
    """Give our own processes the keys of our own store."""
    os.environ.update(LOGIN)
    os.environ.pop("AWS_SESSION_TOKEN", None)


def client(endpoint: str, connections: int = 10, **more: Any) -> Any:
    """Return a plain boto3 client."""
    config = Config(max_pool_connections=connections, s3={"addressing_style": "path"}, **more)
    return boto3.client("s3", endpoint_url=endpoint, config=config)


def remote(endpoint: str) -> str:
    """Return the bucket as rclone names it on its command line."""
    return f":s3,provider=SeaweedFS,env_auth=true,force_path_style=true,endpoint='{endpoint}':{BUCKET}"


def count(endpoint: str) -> tuple[int, int]:
    """List the whole bucket; return how many objects there are, and how many that vaults keep for themselves."""
    objects = own = 0
    for page in client(endpoint).get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        keys = [entry["Key"] for entry in page.get("Contents", ())]
        ours = sum(key.startswith(OWN) for key in keys)
        objects, own = objects + len(keys) - ours, own + ours
    return objects, own


def cores() -> tuple[set[int], set[int]]:
    """Return the cores of the store and those of whoever deletes, as if they were two machines."""
    all_ = sorted(os.sched_getaffinity(0))
    half = len(all_) // 2
    return (set(all_[:half]), set(all_[half:])) if half else (set(all_), set(all_))


@contextmanager
def _on(some: set[int]) -> Iterator[None]:
    """Start processes on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, some)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class FilledStore:
    """So many objects, as often as they are wanted."""

    def __init__(self, root: Path, objects: int, *, apart: bool = True) -> None:
        """Nothing is started yet; ``objects``: a multiple of ``KEYS_A_MARK``; ``apart``: on cores of its own."""
        self.objects, self.marks = objects, objects // KEYS_A_MARK
        self._home, self._kept, self._files = root / "home", root / "kept", root / "files"
        self._pid = 0
        self._cores = cores() if apart else (os.sched_getaffinity(0),) * 2
        log_in()

    def fill(self, also: Callable[[str], None] = lambda _endpoint: None) -> None:
        """Put every object, do what else must be in the store, and keep a copy of its files."""
        self._home.mkdir(parents=True)
        with self._running() as endpoint:
            client(endpoint).create_bucket(Bucket=BUCKET)
            for mark in range(self.marks):
                for key in mark_keys(mark):
                    file = self._files / key
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(b"x" * OBJECT_BYTES)
            # About twice as quick as boto3, which fills one core with itself.
            command = [find_binary("rclone"), "copy", str(self._files), remote(endpoint), "--config=", "--no-traverse"]
            subprocess.run([*command, f"--transfers={FILLERS}", "--s3-no-head", "--s3-no-check-bucket"], check=True)
            shutil.rmtree(self._files)
            also(endpoint)
            self._expect(endpoint, self.objects)
        shutil.move(self._home, self._kept)

    @contextmanager
    def full(self) -> Iterator[str]:
        """Serve a fresh copy that holds every object; yield its endpoint. At the end it must hold none."""
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(self._kept, self._home)
        with self._running() as endpoint:
            self._expect(endpoint, self.objects)
            yield endpoint
            self._expect(endpoint, 0)

    @contextmanager
    def _running(self) -> Iterator[str]:
        server = S3Server(self._home, Ports(self._home), LOGIN["AWS_ACCESS_KEY_ID"], LOGIN["AWS_SECRET_ACCESS_KEY"])
        try:
            with _on(self._cores[0]):
                server.start()
            self._pid = server.child.pid or 0
            with _on(self._cores[1]):
                yield server.endpoint_url
        finally:
            server.child.stop()

    def cpu(self) -> float:
        """Return the CPU seconds the running server used so far."""
        used = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")

    def _expect(self, endpoint: str, objects: int) -> None:
        found, _ = count(endpoint)
        if found != objects:
            raise AssertionError(f"the listing shows {found:,} objects, there should be {objects:,}")
