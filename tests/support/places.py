"""Places for vaults, written as a database's writers do; proofs of vaults for tests; a list for audit rows."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mypy_boto3_s3 import S3Client

from sexton.recycle.audit.model import AuditRow
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import ListedObject, Marker, VaultSpec
from sexton.storage.port import Vault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import delete
from sexton.storage.s3.listing import pages
from sexton.storage.s3.vault import S3Vault
from sexton.storage.vaults import ProvenVaults

MARKER = Marker(vault_uuid="9f0c", deployment="test-d", instance="i1", name="hot")


class Place(Protocol):
    """Where vaults are: one bucket or one directory."""

    def vault(self, prefix: str = "wh/", location: str = "") -> Vault:
        """Return the vault of a prefix here, or in another bucket or a folder."""
        ...

    def put(self, path: str, body: bytes = b"x") -> None:
        """Write an object by its path in the bucket or directory."""
        ...

    def has(self, path: str) -> bool:
        """Return whether an object of that path exists."""
        ...


@dataclass
class Bucket:
    """A bucket; its vaults use ``endpoint_url``, its puts ``client``."""

    client: S3Client
    endpoint_url: str
    name: str

    def vault(self, prefix: str = "wh/", location: str = "", **options: Any) -> S3Vault:
        spec = VaultSpec(instance="i1", name="hot", kind="s3", location=location or self.name, prefix=prefix)
        return S3Vault(spec.model_copy(update=options), self.endpoint_url)

    def put(self, path: str, body: bytes = b"x") -> None:
        self.client.put_object(Bucket=self.name, Key=path, Body=body)

    def has(self, path: str) -> bool:
        listed = self.client.list_objects_v2(Bucket=self.name, Prefix=path, MaxKeys=1)
        return [entry["Key"] for entry in listed.get("Contents", ())] == [path]


@dataclass
class Directory:
    """A directory on the local disk."""

    path: Path

    def vault(self, prefix: str = "wh/", location: str = "") -> Vault:
        place = self.path / location if location else self.path
        return LocalVault(VaultSpec(instance="i1", name="hot", kind="local", location=str(place), prefix=prefix))

    def put(self, path: str, body: bytes = b"x") -> None:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)

    def has(self, path: str) -> bool:
        return (self.path / path).exists()


def show_how_to_send(place: Bucket) -> None:
    """Let boto3 send the first requests of a bucket, about a name below a probe's: later ones are not its own."""
    bucket, name = S3Bucket(place.vault().spec, place.endpoint_url), "_sexton/probe/first"
    delete(bucket, [name])
    list(pages(bucket, name))


def put_all(place: Place, paths: Sequence[str]) -> None:
    """Put many objects, several at once."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(place.put, paths))


def listing(vault: Vault, prefix: str) -> list[ListedObject]:
    """Return every object under a prefix, of all pages."""
    return [listed for page in vault.list(prefix) for listed in page]


def keys(vault: Vault, prefix: str) -> list[str]:
    """Return the keys of every object under a prefix."""
    return [listed.key for listed in listing(vault, prefix)]


class SerializedVaults(ProvenVaults):
    """Vaults that are proven one at a time, so that ``SteppingClock`` steps for each proof alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._serial = threading.RLock()

    def _proved(self, instance: str, name: str) -> Any:
        with self._serial:
            return super()._proved(instance, name)


class SteppingClock:
    """A clock for vault proofs that steps forward at every reading, so that few proofs are used twice."""

    def __init__(self, seconds: float) -> None:
        self._now, self._seconds = 0.0, seconds

    def __call__(self) -> float:
        self._now += self._seconds
        return self._now


class AuditList:
    """A deletion log that keeps its rows in a list."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []

    def write(self, rows: Sequence[AuditRow]) -> None:
        self.rows += rows

    def forget(self, instance: str, now: int, heartbeat: Callable[[], None] = lambda: None) -> int:
        return 0
