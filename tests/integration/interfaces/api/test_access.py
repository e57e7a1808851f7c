"""An administrator manages tokens through the API; nobody else does."""

import httpx
import pytest

from sexton.client import Sexton
from sexton.client.api_call import RequestRefused
from sexton.operators.call_log import CallStore
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.shared import api, rig, root
from tests.servers.api import Api
from tests.support.rig import Rig

__all__ = ["api", "rig", "root"]
SECRET = "correct horse battery"


def test_a_created_token_works_until_it_is_revoked(api: Api, rig: Rig) -> None:
    admin = Sexton(api.url, api.token("admin"), patience_seconds=0)
    created = admin.create_token(scope="read@shop", days=3, note="the dashboard")
    program = Sexton(api.url, created.secret, patience_seconds=0)
    assert [i.instance for i in program.status("shop").instances] == ["shop"]

    listed = next(t for t in admin.tokens().items if t.token == created.token.token)
    assert (listed.scope, listed.note, listed.revoked_at) == ("read@shop", "the dashboard", None)
    renewed = admin.renew_token(listed.token, days=30)
    assert renewed.expires_at - listed.expires_at > 26 * 86_400_000
    revoked = admin.revoke_token(listed.token)
    assert "(admin)" in revoked.revoked_by
    with pytest.raises(RequestRefused, match="revoked"):
        program.status("shop")
    stored = str([tuple(row) for row in rig.rows("token")]) + str(CallStore(rig.db).last(100))
    assert created.secret.split("_", 2)[2] not in stored  # the secret itself may contain _


def test_wrong_input_is_refused_with_a_code(ask: Ask, subtests: pytest.Subtests) -> None:
    for method, path, body, status, code in [
        ("POST", "/v1/tokens", {"scope": "operate"}, 422, "BAD_INPUT"),
        ("POST", "/v1/tokens", {"scope": "root@shop"}, 422, "INVALID_REQUEST"),
        ("POST", "/v1/tokens", {"scope": "read", "days": 900}, 422, "INVALID_REQUEST"),
        ("DELETE", "/v1/tokens/0123456789ab", None, 404, "UNKNOWN_TOKEN"),
        ("POST", "/v1/tokens/0123456789ab/renew", {}, 404, "UNKNOWN_TOKEN"),
        ("DELETE", "/v1/tokens/nonsense", None, 422, "BAD_INPUT"),
    ]:
        with subtests.test(path=path, code=code):
            answer = ask(method, path, body)

            assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_whole_token_is_accepted_as_its_id_and_not_logged(api: Api, rig: Rig) -> None:
    secret = api.token("admin")
    path, headers = f"{api.url}/v1/tokens/{secret}", {"Authorization": f"Bearer {secret}"}

    answers = [httpx.post(f"{path}/renew", json={}, headers=headers), httpx.delete(path, headers=headers)]

    assert [(answer.status_code, answer.json()["token"]) for answer in answers] == [(200, secret.split("_")[1])] * 2
    assert answers[1].json()["revoked_at"] is not None
    logged = str(CallStore(rig.db).last(100))
    assert not [text for text in (answers[0].text, answers[1].text, logged) if secret.split("_", 2)[2] in text]


def test_a_secret_in_the_wrong_place_is_not_logged(ask: Ask, rig: Rig, subtests: pytest.Subtests) -> None:
    for method, path, body in [
        ("DELETE", f"/v1/tokens/{SECRET}", None),
        ("PUT", "/v1/settings/recycle.retention_seconds", {"value": SECRET}),
    ]:
        with subtests.test(path=path):
            assert ask(method, path, body).status_code in (400, 422)
            assert SECRET not in str(CallStore(rig.db).last(100))
