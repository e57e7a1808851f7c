"""Derive the least IAM policy for the requests that Sexton sends about one vault. Pure."""

from typing import Any

from sexton.storage.model import MARKER_KEY, RESERVED_PREFIX, VaultSpec

Policy = dict[str, Any]
"""A policy document of IAM, ready for JSON."""


def vault_policy(spec: VaultSpec) -> Policy:
    """Return the policy of a vault in S3: adding, probing, listing, deleting, checking and undeleting.

    A bucket without versions needs fewer actions. The condition admits requests that name no prefix: S3 asks for
    ``s3:ListBucket`` also where it tells a missing key from a forbidden one. So all names of the bucket can be listed.
    """
    versioned = spec.versions == "purge" or spec.probe is None or spec.probe.versioning != ""
    bucket, objects = _arn(spec.location), _arn(spec.location, spec.prefix, "*")
    list_actions = ["s3:ListBucket", *(["s3:ListBucketVersions"] if versioned else [])]
    bucket_actions = ["s3:GetBucketVersioning", "s3:ListBucketMultipartUploads"]
    bucket_actions += ["s3:GetBucketObjectLockConfiguration", "s3:GetLifecycleConfiguration"] if versioned else []
    object_actions = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject"]
    object_actions += ["s3:DeleteObjectVersion", "s3:GetObjectVersion"] if versioned else []
    folders = spec.prefix.split("/")[:-1]
    markers = [_arn(spec.location, "/".join([*folders[:depth], MARKER_KEY])) for depth in range(len(folders))]
    statements = [
        _allow("List", list_actions, bucket, prefix=spec.prefix),
        _allow("Bucket", bucket_actions, bucket),
        _allow("Objects", sorted(object_actions), objects),
        _allow("OwnFiles", ["s3:PutObject"], _arn(spec.location, spec.prefix + RESERVED_PREFIX, "*")),
    ]
    if spec.inventory:
        name, _, prefix = spec.inventory.removeprefix("s3://").partition("/")
        statements.append(_allow("ListInventory", ["s3:ListBucket"], _arn(name), prefix=prefix))
        statements.append(_allow("Inventory", ["s3:GetObject"], _arn(name, prefix, "*")))
    if markers:
        statements.append(_allow("MarkersAbove", ["s3:GetObject"], markers))
    return {"Version": "2012-10-17", "Statement": statements}


def log_policy(spec: VaultSpec) -> Policy:
    """Return the policy of a separate place of the log of deletions (``audit_url``)."""
    own_files = _arn(spec.location, spec.prefix + RESERVED_PREFIX, "*")
    actions = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
    list_own = _allow("List", ["s3:ListBucket"], _arn(spec.location), prefix=spec.prefix + RESERVED_PREFIX)
    return {"Version": "2012-10-17", "Statement": [list_own, _allow("OwnFiles", actions, own_files)]}


def _allow(sid: str, actions: list[str], resource: str | list[str], prefix: str = "") -> Policy:
    statement: Policy = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}
    if prefix:
        statement["Condition"] = {"StringLikeIfExists": {"s3:prefix": f"{_literal(prefix)}*"}}
    return statement


def _arn(bucket: str, key: str | None = None, wildcard: str = "") -> str:
    path = "" if key is None else f"/{_literal(key)}{wildcard}"
    return f"arn:aws:s3:::{bucket}{path}"


def _literal(text: str) -> str:
    """Return a text in which IAM finds neither wildcards nor variables."""
    return "".join(f"${{{c}}}" if c in "*?$" else c for c in text)
