"""Settings through the API: what another value would do, before it is set; and who may set it."""

import pytest

from sexton.client import Sexton
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.shared import api, rig, root
from tests.servers.api import Api

__all__ = ["api", "rig", "root"]
KEY = "recycle.dropped_partition_retention_seconds"


@pytest.fixture
def operator(api: Api) -> Sexton:
    return Sexton(api.url, api.token("operate@*"), patience_seconds=0)


def value_of(client: Sexton, key: str = KEY, instance: str = "") -> tuple[str, str]:
    [row] = [row for row in client.settings(instance=instance or None).items if row.key == key]
    return row.value, row.source


def test_a_preview_says_what_setting_does(operator: Sexton) -> None:
    before = value_of(operator)
    longer = operator.preview(KEY, "864000")
    assert value_of(operator) == before

    assert [(s.instance, s.kind, s.more, s.marks) for s in longer.shifts if s.marks] == [("shop", "dropped", False, 4)]
    assert not longer.deletes_more
    assert operator.set_setting(KEY, "864000", reason="the audit").shifts == longer.shifts
    value, source = value_of(operator)
    assert value == "864000"
    assert "operate@*" in source
    assert "the audit" in source
    shorter = operator.unset_setting(KEY)
    assert shorter.deletes_more
    assert value_of(operator) == before


def test_a_loosened_safeguard_is_named(operator: Sexton) -> None:
    looser = operator.preview("recycle.max_delete_objects", "900000000")
    assert "without approval" in looser.loosens
    assert looser.deletes_more


def test_a_wrong_change_is_refused(ask: Ask, operator: Sexton, subtests: pytest.Subtests) -> None:
    before = operator.settings()
    for key, value, scope, status in [
        (KEY, "1", "admin", 422),
        ("database_url", "postgresql://ada:s3cret@h/d", "admin", 422),
        ("recycle.retention_second", "864000", "admin", 422),
        (KEY, "864000", "read", 403),
        (KEY, "864000", "owner@*", 403),
    ]:
        with subtests.test(key=key, scope=scope):
            answer = ask("PUT", f"/v1/settings/{key}", {"value": value}, scope=scope)

            assert answer.status_code == status
            assert "s3cret" not in answer.text
            assert operator.settings() == before


def test_settings_of_an_instance_are_those_that_may_differ(api: Api) -> None:
    client = Sexton(api.url, api.token("operate@shop"), patience_seconds=0)
    client.set_setting(KEY, "864000", instance="shop")
    assert value_of(client, instance="shop")[0] == "864000"
    assert "database_url" not in {row.key for row in client.settings(instance="shop").items}
    client.unset_setting(KEY, instance="shop")
