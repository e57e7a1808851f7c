"""What the paths of a DuckLake tell: whether they are clear, and the UUID of a file."""

import sqlite3

import pytest

from sexton.kernel.errors import BadInput
from sexton.owners.ducklake.model import Lake, vault_of
from sexton.owners.ducklake.sqlite import SqliteLake


@pytest.mark.parametrize(
    "data_path",
    ["/srv//data/", "/srv/./data/", "/srv/../data/", "s3://b//p/", "s3://b/p/?x/", "data/", "/", "gs://b/p/"],
)
def test_a_data_path_of_two_spellings_is_refused(data_path: str) -> None:
    with pytest.raises(BadInput, match="data path"):
        vault_of("lake", "lake", data_path)


@pytest.mark.parametrize(
    ("data_path", "path", "unclear"),
    [
        ("/srv/data/", "/srv/data/main/t/a.parquet", False),
        ("/srv/data/", "/other/a.parquet", False),
        ("/srv/data/", "s3://bucket/a.parquet", False),
        ("/srv/data/", "file:///srv/data/a.parquet", True),
        ("/srv/data/", "data/a.parquet", True),
        ("/srv/data/", "/srv/data//a.parquet", True),
        ("s3://b/p/", "s3://b/p/main/t/a.parquet", False),
        ("s3://b/p/", "s3://other/a.parquet", False),
        ("s3://b/p/", "/srv/a.parquet", False),
        ("s3://b/p/", "s3://b/p/a.parquet?s3_region=x", True),
        ("s3://b/p/", "s3://b//p/a.parquet", True),
        ("s3://b/p/", "s3a://b/p/a.parquet", True),
        ("s3://b/p/", "https://b.s3.amazonaws.com/p/a.parquet", True),
    ],
)
def test_paths_that_may_name_a_file_twice_are_unclear(data_path: str, path: str, unclear: bool) -> None:
    sql = SqliteLake(Lake("lake", "lake", "", data_path))

    [[found]] = sqlite3.connect(":memory:").execute(f"SELECT {sql.is_unclear('p')} FROM (SELECT ? AS p)", (path,))

    assert bool(found) is unclear


@pytest.mark.parametrize("name", ["ducklake-{}.parquet", "ducklake-{}-delete.parquet", "ducklake-{}-delete.puffin"])
def test_the_uuid_of_a_name_is_found(name: str) -> None:
    uuid = "01a21dda-828e-74f0-934a-f4262593c5c6"
    sql = SqliteLake(Lake("lake", "lake", "", "/srv/data/"))
    query = f"SELECT {sql.uuid('p')} FROM (SELECT ? AS p)"
    found = [
        sqlite3.connect(":memory:").execute(query, (path,)).fetchone()[0]
        for path in (
            f"/srv/data/t/{name.format(uuid)}",
            f"/{name.format(uuid.upper())}",
            f"/x{name.format(uuid)}",
            "/a",
        )
    ]

    assert found == [uuid, None, None, None]
