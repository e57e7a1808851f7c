"""A vault with a way to put objects into it behind its back, as a database's writers do."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mypy_boto3_s3 import S3Client

from sexton.storage.local.vault import LocalVault
from sexton.storage.model import ListedObject, Marker, VaultSpec
from sexton.storage.port import Vault
from sexton.storage.s3.vault import S3Vault

MARKER = Marker(vault_uuid="9f0c", deployment="test-d", instance="i1", name="hot")


class Place(Protocol):
    """Where vaults are: one bucket or one directory."""

    def vault(self, prefix: str = "wh/", location: str = "") -> Vault: ...

    def put(self, path: str, body: bytes = b"x") -> None: ...

    def has(self, path: str) -> bool: ...


@dataclass
class Bucket:
    client: S3Client
    endpoint_url: str
    name: str

    def vault(self, prefix: str = "wh/", location: str = "", profile: str = "") -> Vault:
        spec = VaultSpec(instance="i1", name="hot", kind="s3", location=location or self.name, prefix=prefix)
        return S3Vault(spec.model_copy(update={"profile": profile}), self.endpoint_url)

    def put(self, path: str, body: bytes = b"x") -> None:
        self.client.put_object(Bucket=self.name, Key=path, Body=body)

    def has(self, path: str) -> bool:
        listed = self.client.list_objects_v2(Bucket=self.name, Prefix=path, MaxKeys=1)
        return [entry["Key"] for entry in listed.get("Contents", ())] == [path]


@dataclass
class Directory:
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


def put_all(place: Place, paths: Sequence[str]) -> None:
    """Put many objects, several at once."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(place.put, paths))


def listing(vault: Vault, prefix: str) -> list[ListedObject]:
    """Every object under a prefix, the pages put together."""
    return [listed for page in vault.list(prefix) for listed in page]


def keys(vault: Vault, prefix: str) -> list[str]:
    """Their keys."""
    return [listed.key for listed in listing(vault, prefix)]
