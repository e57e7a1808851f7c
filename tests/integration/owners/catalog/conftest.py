"""A ``Shop`` of a clean database."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.owners.catalog.tables import create
from tests.integration.owners.catalog.shop import Shop
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import new_database, shared
from tests.servers.s3 import RunningS3


@cache
def template() -> str:
    """Create a database with Sexton's tables and the catalog's; return its URL."""
    url = shared().keep(new_database())
    db = Database.open(url)
    create(db)
    db.close()
    return url


@pytest.fixture
def database_url() -> str:
    """Return the URL of a copy of the template: tables that exist need not be created for each test."""
    return shared().create_database(template())


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    """One instance ``shop`` with the vault ``disk``."""
    shop = Shop(database_url).register()
    shop.local(tmp_path / "disk")
    yield shop
    shop.close()


@pytest.fixture
def cold_shop(database_url: str, s3_server: RunningS3, bucket: str, proxy: FaultProxy) -> Iterator[Shop]:
    """One instance ``shop`` with the vault ``cold`` in S3, behind the proxy."""
    shop = Shop(database_url, endpoint_url=proxy.url).register().prove_by_clock()
    shop.bucket(s3_server.client(), bucket)
    yield shop
    shop.close()


@pytest.fixture
def s3_shop(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Shop]:
    """The same without the proxy, for many objects."""
    shop = Shop(database_url, endpoint_url=s3_server.endpoint_url).register().prove_by_clock()
    shop.bucket(s3_server.client(), bucket)
    yield shop
    shop.close()
