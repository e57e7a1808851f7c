"""The policy of a vault names its bucket and its prefix, and no more actions than the vault needs."""

import json

from sexton.storage.model import Probe, VaultSpec
from sexton.storage.s3.permissions import log_policy, vault_policy

SPEC = VaultSpec(
    instance="shop", name="cold", kind="s3", location="lake", prefix="shop/data/", probe=Probe(versioning="")
)


def _actions(spec: VaultSpec) -> set[str]:
    return {action for statement in vault_policy(spec)["Statement"] for action in statement["Action"]}


def test_a_bucket_without_versions_needs_few_actions() -> None:
    assert _actions(SPEC) == {
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
        "s3:GetBucketVersioning",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:ListBucketMultipartUploads",
        "s3:PutObject",
    }


def test_versions_need_more() -> None:
    changes: list[dict[str, object]] = [{"probe": Probe(versioning="Enabled")}, {"versions": "purge"}, {"probe": None}]
    for change in changes:
        assert _actions(SPEC.model_copy(update=change)) - _actions(SPEC) == {
            "s3:DeleteObjectVersion",
            "s3:GetBucketObjectLockConfiguration",
            "s3:GetLifecycleConfiguration",
            "s3:GetObjectVersion",
            "s3:ListBucketVersions",
        }


def test_only_names_under_the_prefix_are_granted() -> None:
    by_sid = {statement["Sid"]: statement for statement in vault_policy(SPEC)["Statement"]}

    assert by_sid["List"]["Condition"] == {"StringLikeIfExists": {"s3:prefix": "shop/data/*"}}
    assert {by_sid["List"]["Resource"], by_sid["Bucket"]["Resource"]} == {"arn:aws:s3:::lake"}
    assert by_sid["Objects"]["Resource"] == "arn:aws:s3:::lake/shop/data/*"
    assert by_sid["OwnFiles"]["Resource"] == "arn:aws:s3:::lake/shop/data/_sexton/*"
    assert by_sid["MarkersAbove"]["Resource"] == [
        "arn:aws:s3:::lake/_sexton/vault.json",
        "arn:aws:s3:::lake/shop/_sexton/vault.json",
    ]


def test_a_whole_bucket_is_unconditional_a_prefix_no_pattern() -> None:
    statements = vault_policy(SPEC.model_copy(update={"prefix": ""}))["Statement"]
    odd = json.dumps(vault_policy(SPEC.model_copy(update={"prefix": "a*b?$/"})))

    assert [s["Sid"] for s in statements] == ["List", "Bucket", "Objects", "OwnFiles"]
    assert not any("Condition" in statement for statement in statements)
    assert "lake/a${*}b${?}${$}/*" in odd


def test_the_log_needs_only_its_own_files() -> None:
    listed, own_files = log_policy(SPEC)["Statement"]

    assert (listed["Action"], listed["Condition"]["StringLikeIfExists"]["s3:prefix"]) == (
        ["s3:ListBucket"],
        "shop/data/_sexton/*",
    )
    assert own_files["Resource"] == "arn:aws:s3:::lake/shop/data/_sexton/*"
