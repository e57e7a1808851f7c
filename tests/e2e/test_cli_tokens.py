"""The command `sexton token` creates, lists, renews and revokes tokens; `status` and `doctor` name those that end."""

import json

from sqlalchemy import update

from config.settings import Settings
from sexton.database.engine import Database
from sexton.interfaces.cli.doctor.surroundings import examine_issuer
from sexton.operators.access import policy
from sexton.operators.access.sql.tokens import TokenStore
from sexton.operators.call_log.store import CallStore
from tests.e2e.conftest import Run
from tests.servers.issuer import Issuer


def test_token_in_use_is_named_before_it_ends(offline: Run, shop: Database) -> None:
    tokens = TokenStore(shop)
    token, _ = tokens.create(policy.scope("sync:copy@shop"), 7, "test")
    before = offline("status").stdout
    tokens.record_use(token)
    status, as_json = offline("status"), json.loads(offline("status", "--json").stdout)
    doctor = {f["about"]: f for f in json.loads(offline("doctor", "--json").stdout)["items"]}
    renewed = offline("token", "renew", token.id, "--days", "60")

    assert token.id not in before
    assert f"token {token.id} (sync:copy@shop) is in use and ends" in status.stdout
    assert [t["token"] for t in as_json["expiring_tokens"]] == [token.id]
    assert (doctor["tokens"]["state"], "sexton token renew" in doctor["tokens"]["todo"]) == ("WARN", True)
    assert (renewed.returncode, f"token {token.id} is valid until" in renewed.stdout) == (0, True)
    assert token.id not in offline("status").stdout
    assert [(c.action, c.subject) for c in CallStore(shop).last(1)] == [("token renew", f"{token.id} for 60 days")]


def test_unreadable_scope_is_listed_and_revoked(offline: Run, shop: Database) -> None:
    spoiled, _ = TokenStore(shop).create(policy.scope("admin"), 7, "test")
    with shop.write() as c:
        c.execute(update(shop.t.token).values(scope="operate"))
    TokenStore(shop).create(policy.scope("read"), 7, "test")

    listed, as_json = offline("token", "list"), json.loads(offline("token", "list", "--json").stdout)["items"]
    revoked = offline("token", "revoke", spoiled.id)

    assert "'operate' cannot be read; revoke it" in listed.stdout
    assert {t["scope"] for t in as_json} == {"read", "'operate' cannot be read; revoke it"}
    assert revoked.returncode == 0


def test_lifetime_above_the_ceiling_is_refused(offline: Run, shop: Database) -> None:
    refused = offline("token", "create", "--scope", "read", "--days", "367")

    assert (refused.returncode, "less than or equal to 366" in refused.stderr) == (64, True)


def test_doctor_reads_the_keys_of_the_issuer() -> None:
    with Issuer() as issuer:
        settings = Settings(deployment="test-tokens", oidc=issuer.settings(ops=["read"]))
        issuer.add_key("k1")
        findings = [*examine_issuer(settings)]
        issuer.answer = b'{"keys": []}'
        findings += examine_issuer(settings)
        issuer.answer = b"<html>"
        findings += examine_issuer(settings)

    assert [(f.about, f.state) for f in findings] == [("oidc", "OK"), ("oidc", "FAIL"), ("oidc", "FAIL")]
    assert list(examine_issuer(Settings(deployment="test-tokens"))) == []
