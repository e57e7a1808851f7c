"""Settings are shown only if they are listed as no secrets, and URLs without their passwords."""

from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from config.explain import SHOWN
from config.explain import rows as explained_rows
from config.settings import explain, masked


class Unlisted(BaseModel):
    """Fields that a later version could have."""

    anything: str = "hush-hush"
    names: tuple[str, ...] = ("hush-hush",)
    headers: dict[str, str] = Field(default_factory=lambda: {"x": "hush-hush"})
    seconds: int = 7
    enabled: bool = True
    empty: str = ""


def test_a_text_of_a_new_setting_is_masked_until_it_is_listed() -> None:
    values = {row.key: row.value for row in explained_rows(Unlisted())}

    assert values == {
        "anything": "***",
        "names": "***",
        "headers.x": "***",
        "seconds": "7",
        "enabled": "True",
        "empty": "",
    }


def test_every_listed_setting_exists() -> None:
    assert SHOWN - {row.key for row in explain()} == set()


@pytest.mark.parametrize(
    ("conf", "shown"),
    [
        ("spark.executor.memory", True),
        ("spark.sql.shuffle.partitions", True),
        ("spark.hadoop.fs.s3a.access.key", False),
        ("spark.sql.catalog.c.s3.access-key-id", False),
        ("spark.authenticate.secret", False),
        ("spark.executorEnv.PGPASS", False),
        ("spark.kubernetes.authenticate.oauthToken", False),
        ("spark.executor.extraJavaOptions", False),
    ],
)
def test_spark_settings_are_masked_unless_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str, shown: bool
) -> None:
    file = tmp_path / "sexton.toml"
    file.write_text(f'[spark.conf]\n"{conf}" = "hush-hush"\n')
    monkeypatch.setenv("SEXTON_CONFIG", str(file))

    values = {row.key: row.value for row in explain()}

    assert values[f"spark.conf.{conf}"] == ("hush-hush" if shown else "***")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sc://h:15002/;use_ssl=true;token=hush", "sc://h:15002/;use_ssl=true;token=***"),
        ("sc://h:15002/;user_id=ada;x-api-key=hush", "sc://h:15002/;user_id=ada;x-api-key=***"),
        ("postgresql://u:hush@h/d?sslmode=require", "postgresql://u:***@h/d?sslmode=require"),
        ("postgresql://h/d?user=u&PassWord=hush", "postgresql://h/d?user=u&PassWord=***"),
        ("https://ada:hush@s3.example", "https://ada:***@s3.example"),
        ("s3://bucket/audit", "s3://bucket/audit"),
    ],
)
def test_urls_lose_their_secrets(url: str, shown: str) -> None:
    assert masked(url) == shown
