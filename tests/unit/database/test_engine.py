"""Only a URL of PostgreSQL opens a database."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_url_of_postgresql_is_opened_with_psycopg(scheme: str) -> None:
    db = Database.open(f"{scheme}://nobody@127.0.0.1:1/shop")

    assert db.engine.url.drivername == "postgresql+psycopg"
    db.close()


@pytest.mark.parametrize(
    "url", ["sqlite:///shop.db", "mysql://a:secret@b/c", "postgresql+asyncpg://a:secret@b/c", "secret"]
)
@pytest.mark.parametrize("setting", ["database_url", "live_database_url"])
def test_another_url_is_refused_without_its_password(setting: str, url: str) -> None:
    own, live = (url, "") if setting == "database_url" else ("postgresql://a@b/c", url)

    with pytest.raises(BadInput, match=f"^{setting} .*; use postgresql://USER@HOST/DATABASE$") as refused:
        Database.open(own, live_url=live)

    assert "secret" not in str(refused.value)
