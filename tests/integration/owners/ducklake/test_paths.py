"""What the path of a file of a DuckLake tells: whether it is clear, and the file's UUID."""

import psycopg
import pytest

from sexton.owners.ducklake.lake_sql import LakeSql, uuid
from sexton.owners.ducklake.model import Lake
from tests.servers.postgres import Cluster


def value(postgres: Cluster, expression: str, path: str) -> object:
    """Return the value of an expression of the path ``p``."""
    with psycopg.connect(postgres.url().replace("+psycopg", "")) as c:
        row = c.execute(f"SELECT {expression} FROM (SELECT %s::text) AS t (p)".encode(), (path,)).fetchone()
    assert row is not None
    return row[0]


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
def test_paths_that_may_name_a_file_twice_are_unclear(
    postgres: Cluster, data_path: str, path: str, unclear: bool
) -> None:
    sql = LakeSql(Lake("lake", "lake", "lake", data_path))

    assert value(postgres, sql.is_unclear("p"), path) is unclear


@pytest.mark.parametrize("name", ["ducklake-{}.parquet", "ducklake-{}-delete.parquet", "ducklake-{}-delete.puffin"])
def test_the_uuid_of_a_name_is_found(postgres: Cluster, name: str) -> None:
    number = "01a21dda-828e-74f0-934a-f4262593c5c6"
    paths = (
        f"/srv/data/t/{name.format(number)}",
        f"/{name.format(number.upper())}",
        f"/x{name.format(number)}",
        "/a",
    )

    assert [value(postgres, uuid("p"), path) for path in paths] == [number, None, None, None]
