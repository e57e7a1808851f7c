"""Executors open the database with the passwords of their own environment, for both logins."""

import pytest

from sexton.runtime.spark.locations import ConnectionTarget, without_password

OWN, LIVE = "postgresql+psycopg://sexton:a@db/shop", "postgresql+psycopg://{instance}_reader:b@db/shop"


def test_both_logins_get_the_passwords_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    where = ConnectionTarget(
        deployment="test-spark", database_url=without_password(OWN), live_database_url=without_password(LIVE)
    )
    monkeypatch.setenv("SEXTON_DATABASE_URL", OWN)
    monkeypatch.setenv("SEXTON_LIVE_DATABASE_URL", LIVE)

    db = ConnectionTarget.model_validate_json(where.model_dump_json()).database()

    logins = [(e.url.username, e.url.password) for e in (db.engine, db.live("shop").engine)]
    assert logins == [("sexton", "a"), ("shop_reader", "b")]
