"""The policy that `sexton doctor --print-grants` prints suffices for a vault, and each of its actions is used."""

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sexton.storage.model import KeyOutcome, VaultSpec
from sexton.storage.port import VaultFault
from sexton.storage.s3.permissions import Policy, log_policy, vault_policy
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.versioned_bucket import set_versioning
from tests.servers.policy_gate import PolicyGate
from tests.servers.s3 import RunningS3
from tests.support.places import MARKER, Bucket

PREFIX = "shop/data/"
ODD = "odd\x01key"
"""XML cannot express it, so it is deleted by a request of its own."""


@pytest.fixture
def gate(s3_server: RunningS3) -> Iterator[PolicyGate]:
    with PolicyGate(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as running:
        yield running


@pytest.fixture
def place(gate: PolicyGate, s3_server: RunningS3, bucket: str) -> Bucket:
    return Bucket(s3_server.client(), gate.url, bucket)


def _spec(place: Bucket, versions: str = "keep") -> VaultSpec:
    return VaultSpec(instance="i1", name="hot", kind="s3", location=place.name, prefix=PREFIX, versions=versions)


def _use(place: Bucket, spec: VaultSpec) -> list[KeyOutcome]:
    """Do with a vault all that Sexton does; return the outcomes of its deletes."""
    vault = S3Vault(spec, place.endpoint_url)
    for key in ("a/1", "a/2", "b/1", ODD):
        place.put(PREFIX + key)
    place.client.create_multipart_upload(Bucket=place.name, Key=f"{PREFIX}a/upload")
    assert list(vault.ancestor_markers()) == []
    assert vault.descendant_marker() is None
    vault = S3Vault(spec.model_copy(update={"probe": vault.probe()}), place.endpoint_url)
    vault.write_marker(MARKER)
    vault.replace_marker(MARKER)
    assert vault.read_marker() == MARKER
    _use_own_files(vault)
    assert [listed.key for page in vault.list("a/") for listed in page] == ["a/1", "a/2"]
    assert len([o for part in vault.parts(2) for page in vault.list_part(part) for o in page]) == 4
    assert len(vault.stat(["a/1"])) == 1
    assert len(vault.uploads("9999")) == 1
    assert vault.versions_days() is None
    results = vault.delete(["a/1", "a/2", ODD])
    if vault.spec.versions == "keep" and vault._bucket.versioning():
        assert sum(page.shown for page in vault.undelete(keys=["a/1"])) == 1
        assert sum(page.shown for page in vault.undelete("a/")) == 1
    assert vault.abort_uploads("a/") == 1
    return [result.outcome for result in results]


def _use_own_files(vault: S3Vault) -> None:
    vault.write_own("audit/i1/f.parquet", b"rows")
    assert vault.read_own("audit/i1/f.parquet") == b"rows"
    assert len([file for page in vault.list_own("audit/") for file in page]) == 1
    vault.remove_own(["audit/i1/f.parquet"])


def _actions(policy: Policy) -> set[str]:
    return {action for statement in policy["Statement"] for action in statement["Action"]}


def _without(policy: Policy, action: str) -> Policy:
    statements = [s | {"Action": [a for a in s["Action"] if a != action]} for s in policy["Statement"]]
    return {"Statement": statements}


def test_an_unversioned_vault_uses_each_action_of_its_policy(
    gate: PolicyGate, place: Bucket, s3_server: RunningS3
) -> None:
    unversioned = S3Vault(_spec(place), s3_server.endpoint_url).probe()
    gate.policy = vault_policy(_spec(place).model_copy(update={"probe": unversioned}))

    outcomes = _use(place, _spec(place))

    assert outcomes == [KeyOutcome.DELETED] * 3
    assert gate.refused == set()
    assert gate.used == _actions(gate.policy)


def test_versions_use_the_other_actions(gate: PolicyGate, place: Bucket) -> None:
    set_versioning(place, "Enabled")
    gate.policy = vault_policy(_spec(place))

    assert _use(place, _spec(place)) == [KeyOutcome.HIDDEN] * 3

    assert gate.refused == set()
    assert gate.used == _actions(gate.policy) - {"s3:GetObjectVersion"}  # only to explain an object lock


def test_the_log_uses_each_action_of_its_policy(gate: PolicyGate, place: Bucket) -> None:
    gate.policy = log_policy(_spec(place))

    _use_own_files(S3Vault(_spec(place), place.endpoint_url))

    assert gate.refused == set()
    assert gate.used == _actions(gate.policy)


def test_the_probe_needs_each_of_these_actions(gate: PolicyGate, place: Bucket) -> None:
    actions = ["s3:ListBucket", "s3:PutObject", "s3:GetObject", "s3:DeleteObject"]
    refused = {}
    for action in actions:
        gate.policy = _without(vault_policy(_spec(place)), action)
        with suppress(VaultFault):
            S3Vault(_spec(place), place.endpoint_url).probe()
        refused[action] = {refusal for refusal, _ in gate.refused}
        gate.refused.clear()

    assert refused == {action: {action} for action in actions}


def test_other_prefixes_and_buckets_are_refused(gate: PolicyGate, place: Bucket, s3_server: RunningS3) -> None:
    gate.policy = vault_policy(_spec(place))
    other = S3Vault(_spec(place).model_copy(update={"prefix": "shop/other/"}), place.endpoint_url)
    foreign = S3Vault(_spec(place).model_copy(update={"location": s3_server.create_bucket()}), place.endpoint_url)

    for vault in (other, foreign):
        assert vault.delete(["x"], until=time.monotonic() + 20)[0].outcome is KeyOutcome.FAILED
        for call in (lambda v=vault: v.write_own("f", b""), lambda v=vault: list(v.list("a/")), vault.read_marker):
            with pytest.raises(VaultFault, match="DENIED"):
                call()
