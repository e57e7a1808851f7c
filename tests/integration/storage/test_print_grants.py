"""`sexton doctor --print-grants` prints a policy for each vault in S3 and an ACL for each enabled topic."""

import json
from pathlib import Path

import pytest

from sexton.operators.registry.add_remove import add_vault
from sexton.storage.model import VaultSpec
from sexton.storage.s3.permissions import vault_policy
from tests.servers.s3 import RunningS3
from tests.support.command import run
from tests.support.rig import DEPLOYMENT, Rig


@pytest.fixture(autouse=True)
def kafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sexton.toml").write_text(
        '[audit]\naudit_url = "s3://logs/gc"\n[wal.kafka]\n"bootstrap.servers" = "k1:9092"\n"sasl.username" = "gc"\n'
    )
    monkeypatch.setenv("SEXTON_CONFIG", str(tmp_path / "sexton.toml"))


def test_each_vault_and_topic_has_its_grants(
    rig: Rig, s3_server: RunningS3, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = s3_server.create_bucket()
    spec = VaultSpec(instance="shop", name="cold", kind="s3", location=bucket, prefix="shop/")
    add_vault(rig.registry, spec, DEPLOYMENT, s3_server.endpoint_url)
    rig.local(tmp_path)
    rig.insert("wal_topic", name="orders", instance="shop", enabled=True)
    rig.insert("wal_topic", name="other", instance="shop", enabled=False)

    grants = json.loads(run(rig, capsys, "doctor", "--print-grants", "--json").out)
    printed = run(rig, capsys, "doctor", "--print-grants")

    cold, log = grants["s3"]
    assert cold == {"place": f"vault cold of shop, s3://{bucket}/shop/", "policy": cold["policy"]}
    assert cold["policy"] == vault_policy(rig.registry.vault("shop", "cold"))
    assert log["policy"]["Statement"][1]["Resource"].startswith("arn:aws:s3:::logs/gc/")
    assert [sid["Sid"] for sid in log["policy"]["Statement"]] == ["List", "OwnFiles"]
    assert len(grants["kafka"]) == 1
    assert grants["kafka"][0].startswith("kafka-acls --bootstrap-server k1:9092 --add --allow-principal User:gc ")
    assert grants["kafka"][0].endswith(" --topic orders")
    assert printed.code == 0
    assert f"# IAM policy: vault cold of shop, s3://{bucket}/shop/" in printed.out
