"""A store that admits what an IAM policy admits: a proxy in front of a real S3 server.

It evaluates actions, resources and the condition on ``s3:prefix`` as AWS documents them; other requests get a 403, and
other keys of DeleteObjects an error of their own.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.fault_proxy import FaultProxy, _Fault, _Handler

BUCKET_ACTIONS = {
    "ListObjectsV2": "s3:ListBucket",
    "HeadBucket": "s3:ListBucket",
    "ListObjectVersions": "s3:ListBucketVersions",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "GetBucketVersioning": "s3:GetBucketVersioning",
    "GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
}
"""Operation → the action on its bucket."""
OBJECT_ACTIONS = {
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "DeleteObject": "s3:DeleteObject",
}
"""Operation → the action on its key, for the newest version."""


class PolicyGate(FaultProxy):
    """The proxy. ``policy``: of IAM. ``used``: the actions that were admitted; ``refused``: action and resource."""

    def __init__(self, upstream_url: str, access_key: str, secret_key: str) -> None:
        super().__init__(upstream_url, access_key, secret_key)
        self._server.RequestHandlerClass = type("Gate", (_GateHandler,), {"proxy": self})
        self.policy: Mapping[str, Any] = {"Statement": []}
        self.used: set[str] = set()
        self.refused: set[tuple[str, str]] = set()

    def admits(self, action: str, resource: str, prefix: str | None = None) -> bool:
        """Return whether a statement allows an action, and remember the answer."""
        admitted = any(_allows(statement, action, resource, prefix) for statement in self.policy["Statement"])
        if admitted:
            self.used.add(action)
        else:
            self.refused.add((action, resource))
        return admitted


class _GateHandler(_Handler):
    proxy: PolicyGate

    def _answer(
        self, operation: str, fault: _Fault | None, body: bytes, objects: list[dict[str, Any]], quiet: bool
    ) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).strip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        arn = f"arn:aws:s3:::{bucket}"
        if operation == "DeleteObjects":
            refused = [o["Key"] for o in objects if not self._may_delete(f"{arn}/{o['Key']}", "VersionId" in o)]
            self.proxy.fail_keys(dict.fromkeys(refused, "AccessDenied"), times=1)
        elif not self._may(operation, arn, unquote(parts.path).split("/", 2)[-1] if key else "", query):
            self._reply(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
            return
        super()._answer(operation, fault, body, objects, quiet)

    def _may_delete(self, arn: str, of_version: bool) -> bool:
        return self.proxy.admits("s3:DeleteObjectVersion" if of_version else "s3:DeleteObject", arn)

    def _may(self, operation: str, arn: str, key: str, query: Mapping[str, str]) -> bool:
        if operation in BUCKET_ACTIONS:
            return self.proxy.admits(BUCKET_ACTIONS[operation], arn, query.get("prefix"))
        action = OBJECT_ACTIONS[operation]
        if "uploadId" in query:
            action = "s3:AbortMultipartUpload"
        elif "versionId" in query:
            action += "Version"
        return self.proxy.admits(action, f"{arn}/{key}")


def _allows(statement: Mapping[str, Any], action: str, resource: str, prefix: str | None) -> bool:
    resources = statement["Resource"]
    patterns = [resources] if isinstance(resources, str) else resources
    condition = statement.get("Condition", {})
    assert set(condition) <= {"StringLikeIfExists"}
    prefixes = condition.get("StringLikeIfExists", {}).get("s3:prefix")
    return (
        action in statement["Action"]
        and any(_matches(pattern, resource) for pattern in patterns)
        and (prefixes is None or prefix is None or _matches(prefixes, prefix))
    )


def _matches(pattern: str, text: str) -> bool:
    """Return whether a text has the form of a pattern, in which ``*`` and ``?`` are the only wildcards."""
    for literal in "*?$":
        pattern = pattern.replace(f"${{{literal}}}", {"*": "\0", "?": "\1", "$": "\2"}[literal])
    pattern = pattern.replace("[", "[[]").replace("\0", "[*]").replace("\1", "[?]").replace("\2", "$")
    return fnmatchcase(text, pattern)
