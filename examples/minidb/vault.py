"""Files in object storage: written once, read often, never overwritten, and deleted only by Sexton."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

THREADS = 16
"""Parallel requests. Small objects cost round trips, not bytes; give the client as many pooled connections."""


@dataclass(frozen=True)
class Vault:
    """A place for files, under the name that it has in Sexton. Keys are relative to ``prefix``."""

    name: str
    bucket: str
    prefix: str  # empty, or ends with "/"
    client: "S3Client"

    def write(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Put every (key, content); raises the first error."""
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(self._put, files):
                pass

    def read(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the content of each key, in order; raises an error if one is missing."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from pool.map(self._get, keys)

    def _put(self, file: tuple[str, bytes]) -> None:
        key, content = file
        self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=content)

    def _get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"].read()


def rows(seed: str) -> bytes:
    """Return table rows as one segment's content; size and content follow from the seed."""
    random = Random(seed)
    return random.randbytes(random.randint(100, 3_000))
