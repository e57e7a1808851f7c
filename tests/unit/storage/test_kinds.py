"""A row of the table of kinds is all that a new kind of vault needs, and a vault of an unknown kind is never opened."""

import pytest

from sexton.kernel.errors import BadInput, WrongUsage
from sexton.storage import kinds
from sexton.storage.model import VaultSpec

PLACES = {
    "s3://bucket": ("s3", "bucket", ""),
    "s3a://bucket/a%20b/c/": ("s3", "bucket", "a%20b/c/"),
    "file:///srv/v": ("local", "/srv/v", ""),
}
NO_PLACES = ("", "bucket/wh", "gs://bucket", "s3://", "s3:///wh", "s3://bucket/", "file://v", "file://localhost/srv")


def test_a_url_names_kind_location_and_prefix() -> None:
    assert {url: kinds.read_place(url) for url in PLACES} == PLACES
    for url in NO_PLACES:
        with pytest.raises(WrongUsage):
            kinds.read_place(url)


def test_a_row_of_the_table_makes_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = VaultSpec(instance="shop", name="cold", kind="gcs", location="bucket", prefix="wh/")
    for use in (kinds.url_roots, lambda s: kinds.vault_place(s, ""), lambda s: kinds.open_vault(s, endpoint_url="")):
        with pytest.raises(BadInput, match="of kind 'gcs', and this version of Sexton knows only s3, local"):
            use(spec)

    row = kinds.VAULT_KINDS["s3"]._replace(url_starts=("gs://",), store=lambda *_: "gcs/")
    monkeypatch.setattr(kinds, "VAULT_KINDS", {**kinds.VAULT_KINDS, "gcs": row})

    assert kinds.read_place("gs://bucket/wh") == ("gcs", "bucket", "wh/")
    assert kinds.resolve("gs://bucket/wh/a", {"cold": spec}) == ("cold", "a")
    assert kinds.vault_place(spec, "") == "gcs/bucket/wh/"
