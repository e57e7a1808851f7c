"""A rig over a real S3 server behind the fault proxy."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from sexton.contract import NewMark, undrop
from sexton.storage.port import Vault
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import new_database
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig, put


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

    def listing(self) -> dict[str, int]:
        """List the bucket without the proxy and without Sexton."""
        pages = self.server.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        sizes = {o["Key"]: o["Size"] for page in pages for o in page.get("Contents", ())}
        return {key: size for key, size in sizes.items() if not key.startswith("_sexton/")}

    def deletes(self) -> list[tuple[str, ...]]:
        return [e.keys for e in self.proxy.log if e.operation == "DeleteObjects"]


@pytest.fixture
def faulty(tmp_path: Path, s3_server: RunningS3, bucket: str) -> Iterator[Faulty]:
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        rig = Rig(new_database(), endpoint_url=proxy.url).instance()
        yield Faulty(rig, proxy, s3_server, bucket, rig.s3(bucket))


def rig_and_backup_before_an_undrop(tmp_path: Path) -> tuple[Rig, Rig, Path]:
    """Return a rig, a rig over its backup in which ``a.dat`` is still due, and the directory of vault ``disk``."""
    rig = Rig(new_database()).instance()
    root = rig.local(tmp_path / "v")
    put(root, "a.dat")
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    restored = rig.copy()
    with rig.db.write() as c:
        undrop(c, "shop", "dropped", ["a"])
    return rig, restored, root
