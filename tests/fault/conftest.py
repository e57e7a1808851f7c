"""A rig over a real S3 server behind the fault proxy."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.storage.port import Vault
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import new_database
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig


@dataclass
class Faulty:
    """An instance with one S3 vault ``cold`` that fails on request."""

    rig: Rig
    proxy: FaultProxy
    server: RunningS3
    bucket: str
    vault: Vault

    def put(self, *keys: str, size: int = 10) -> None:
        client = self.server.client()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: client.put_object(Bucket=self.bucket, Key=key, Body=b"x" * size), keys))

    def drop(self, id_: str, *keys: str, prefix: str | None = None) -> None:
        """Write objects of one mark, by their keys or by a prefix, and let it fall due."""
        self.put(*keys)
        self.rig.mark("dropped", NewMark(id=id_, vault="cold", keys=None if prefix else keys, prefix=prefix))
        self.rig.later(10_801)

    def listing(self) -> dict[str, int]:
        """List the bucket without the proxy and without Sexton."""
        pages = self.server.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        sizes = {o["Key"]: o["Size"] for page in pages for o in page.get("Contents", ())}
        return {key: size for key, size in sizes.items() if not key.startswith("_sexton/")}

    def deletes(self) -> list[tuple[str, ...]]:
        return [e.keys for e in self.proxy.log if e.operation == "DeleteObjects"]


@contextmanager
def faulty_rig(server: RunningS3, bucket: str, **options: Any) -> Iterator[Faulty]:
    """Yield an enabled instance ``shop`` with the vault ``cold``, a bucket behind the fault proxy."""
    with FaultProxy(server.endpoint_url, server.access_key, server.secret_key) as proxy:
        rig = Rig(new_database(), endpoint_url=proxy.url, **options).instance()
        yield Faulty(rig, proxy, server, bucket, rig.s3(bucket))
        rig.db.close()


@pytest.fixture
def faulty(s3_server: RunningS3, bucket: str) -> Iterator[Faulty]:
    with faulty_rig(s3_server, bucket) as made:
        yield made
