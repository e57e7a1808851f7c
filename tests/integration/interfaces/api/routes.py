"""Every route with an example request about instance ``a``, and the principals that it admits."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_origin
from urllib.parse import urlencode

from pydantic import BaseModel

from sexton.interfaces import owner_operations
from sexton.owners.plugin import OwnerOperation

PIN = "0123456789abcdef0123456789abcdef"
REASON = {"reason": "the test"}
PLACED = {"tablets": [{"tablet": "t1", "partition": "p1", "copies": [{"backend": "n7", "uid": "u1"}]}]}
REPLAY = {"region": "r1", "epoch": 1, "node": "n7"}
REGIONS = {"generation": 1, "regions": [{"region": "r1", "first": 0}]}
PROTECTION = {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"]}
EXAMPLE = {
    "instance": "a",
    "job": "copy:1",
    "number": "0",
    "plan": "1",
    "check": "1",
    "topic": "orders",
    "node": "n7",
    "replay": PIN,
    "db": "sales",
    "table": "orders",
    "consumer": "copy",
    "backend": "n7",
    "tablet": "t1",
    "hold": "1",
    "finding": "1",
    "round": "1",
    "vault": "disk",
    "signal": "pause",
    "name": "blacklist",
    "key": "recycle.retention_seconds",
    "token": "0123456789ab",
}
"""The values of the parameters in paths."""

PRINCIPALS = (
    *(f"{grant}@{instance}" for instance in "ab" for grant in ("read", "owner", "operate", "sync:copy", "node:n7")),
    "sync:cop@a",
    "node:n1@a",
    "read",
    "owner@*",
    "operate@*",
    "node:n7@*",
    "admin",
)
"""Scopes of tokens; ``sync:cop`` and ``node:n1`` are another job and another node."""

ADMIN = {"admin"}
OPERATE_ALL = ADMIN | {"operate@*"}
OWNER_ALL = OPERATE_ALL | {"owner@*"}
READ_ALL = OWNER_ALL | {"read"}
OPERATE_A = OPERATE_ALL | {"operate@a"}
OWNER_A = OWNER_ALL | {"operate@a", "owner@a"}
READ_A = READ_ALL | {"operate@a", "owner@a", "read@a"}
JOB_A = {"sync:copy@a"}
NODE_ALL = {"node:n7@*"}
NODE_A = NODE_ALL | {"node:n7@a"}
EVERYBODY = {principal for principal in PRINCIPALS if not principal.startswith("node:")}
"""Who may read the description of the API, which says nothing about any instance."""


class Route(NamedTuple):
    """One route, with a query and a body that fit. ``admits``: the scopes that it admits."""

    method: str
    template: str
    admits: set[str]
    body: object = None
    query: str = ""

    @property
    def path(self) -> str:
        return self.template.format(**EXAMPLE) + (f"?{self.query}" if self.query else "")

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def _order(model: type[BaseModel]) -> dict[str, object] | None:
    """Return an order of an owner's operation that has the right form; None: it needs no values."""
    examples: dict[object, object] = {str: "x", int: 1, Mapping: {"x": {}}, Mapping[str, int]: {"x": 1}}
    order: dict[str, object] = {}
    for name, field in model.model_fields.items():
        if field.is_required():
            kind = field.annotation
            origin = get_origin(kind)
            order[name] = examples.get(kind) or ([] if origin is Sequence else examples.get(origin, {}))
    return order or None


def _route(owner: str, operation: OwnerOperation) -> Route:
    """Return the route of an owner's operation."""
    path, order = f"/v1/instances/{{instance}}/{owner}/{operation.name}", _order(operation.order)
    if operation.reads:
        return Route("GET", path, READ_A, query=urlencode(order or {}))
    return Route("POST", path, OWNER_A, order)


I, T, D = "/v1/instances/{instance}", "/v1/topics/{topic}", "/v1/databases/{db}"  # noqa: E741
OF_A = "instance=a"
OPEN = (
    Route("GET", "/healthz", set()),
    Route("GET", "/livez", set()),
    Route("GET", "/readyz", set()),
)
"""Routes that need no token."""
ROUTES = (
    Route("GET", "/v1/openapi.json", EVERYBODY),
    Route("GET", "/metrics", READ_ALL),
    Route("GET", "/v1/status", READ_A, query=OF_A),
    Route("GET", "/v1/blockers", READ_A, query=OF_A),
    Route("GET", "/v1/why", READ_A, query=f"key=data/a.dat&{OF_A}"),
    Route("GET", "/v1/plans/{plan}", READ_A),
    Route("GET", "/v1/checks", READ_A, query=OF_A),
    Route("GET", "/v1/checks/{check}", READ_A),
    Route("GET", f"{I}/findings", READ_A),
    Route("POST", f"{I}/checks", OPERATE_A),
    Route("POST", f"{I}/checks/running/{{signal}}", OPERATE_A),
    Route("POST", f"{I}/findings/{{finding}}/accept", OPERATE_A, REASON),
    Route("POST", f"{I}/repair", OPERATE_A, {"what": "orphans"}),
    Route("POST", f"{I}/inventory", OWNER_A, {"kind": "rowset", "ids": []}),
    Route("GET", f"{I}/protections", READ_A),
    Route("GET", f"{I}/protections/{{job}}", READ_A | JOB_A),
    Route("POST", "/v1/stop", OPERATE_ALL, REASON),
    Route("POST", "/v1/start", OPERATE_ALL),
    Route("POST", f"{I}/stop", OPERATE_A, REASON),
    Route("POST", f"{I}/start", OPERATE_A),
    Route("POST", f"{I}/plans", OPERATE_A),
    Route("POST", "/v1/plans/{plan}/apply", OPERATE_A),
    Route("GET", "/v1/instances", READ_A, query=OF_A),
    Route("POST", f"{I}/enable", OPERATE_A),
    Route("POST", f"{I}/observe", OPERATE_A),
    Route("GET", f"{I}/vaults", READ_A),
    Route("PUT", f"{I}/vaults/{{vault}}/cap", OPERATE_A, {"keys_per_second": 500}),
    Route("DELETE", f"{I}/vaults/{{vault}}/cap", OPERATE_A),
    Route("POST", f"{I}/vaults/{{vault}}/probe", OPERATE_A),
    Route("POST", f"{I}/vaults/{{vault}}/trust", ADMIN, REASON),
    Route("GET", "/v1/pace", READ_ALL),
    Route("GET", f"{I}/plans", READ_A),
    Route("POST", "/v1/plans/{plan}/reject", OPERATE_A, REASON),
    Route("GET", f"{I}/rounds", READ_A),
    Route("GET", f"{I}/rounds/{{round}}", READ_A),
    Route("GET", f"{I}/rounds/{{round}}/deletions", READ_A),
    Route("GET", f"{I}/rounds/{{round}}/events", READ_A),
    Route("POST", f"{I}/rounds", OPERATE_A),
    Route("POST", f"{I}/rounds/running/{{signal}}", OPERATE_A),
    Route("GET", f"{I}/holds", READ_A),
    Route("POST", f"{I}/holds", OPERATE_A, {"scope": "instance", "seconds": 60, "reason": "the test"}),
    Route("POST", f"{I}/holds/{{hold}}/release", OPERATE_A),
    Route("GET", f"{I}/marks", READ_A),
    Route("POST", f"{I}/quarantine/retry", OPERATE_A, {"everything": True}),
    Route("POST", f"{I}/quarantine/discard", OPERATE_A, {"mark": "dropped/t1", "reason": "the test"}),
    Route("GET", "/v1/lists", READ_ALL),
    Route("POST", "/v1/lists/{name}/add", OPERATE_A, {"name": "a"}),
    Route("POST", "/v1/lists/{name}/remove", OPERATE_A, {"name": "a"}),
    Route("GET", "/v1/log", READ_A, query=OF_A),
    Route("GET", "/v1/settings", READ_A, query=OF_A),
    Route("GET", "/v1/settings/{key}/preview", READ_A, query=f"value=90&{OF_A}"),
    Route("PUT", "/v1/settings/{key}", OPERATE_A, {"value": "864000"}, OF_A),
    Route("DELETE", "/v1/settings/{key}", OPERATE_A, query=OF_A),
    Route("GET", "/v1/tokens", ADMIN),
    Route("POST", "/v1/tokens", ADMIN, {"scope": "read@a"}),
    Route("POST", "/v1/tokens/{token}/renew", ADMIN, {}),
    Route("DELETE", "/v1/tokens/{token}", ADMIN),
    Route("PUT", f"{I}/watermark", OWNER_A, {"value": 7}),
    Route("POST", f"{I}/protections", OPERATE_A | JOB_A, PROTECTION),
    Route("PUT", f"{I}/protections/{{job}}/chunks/{{number}}", OPERATE_A | JOB_A, {"objects": ["disk/data/a.dat"]}),
    Route("POST", f"{I}/protections/{{job}}/seal", OPERATE_A | JOB_A, {}),
    Route("PATCH", f"{I}/protections/{{job}}", OPERATE_A | JOB_A, {}),
    Route("POST", f"{I}/protections/{{job}}/finish", OPERATE_A | JOB_A),
    Route("POST", f"{I}/protections/{{job}}/release", ADMIN | JOB_A, REASON),
    Route("GET", "/v1/topics", READ_A, query=OF_A),
    Route("GET", T, READ_A),
    Route("PUT", f"{T}/regions", OWNER_A, REGIONS, OF_A),
    Route("POST", f"{T}/purge", OPERATE_A),
    Route("POST", f"{T}/purge/{{signal}}", OPERATE_A),
    Route("GET", f"{T}/regions", READ_A),
    Route("POST", f"{T}/enable", OPERATE_A, {"logical": True}, OF_A),
    Route("POST", f"{T}/disable", OPERATE_A),
    Route("POST", "/v1/nodes/{node}/heartbeat", OPERATE_A | NODE_A, {"reports": []}, OF_A),
    Route("POST", f"{T}/replays", OPERATE_A | NODE_A, REPLAY),
    Route("PATCH", f"{T}/replays/{{replay}}", OPERATE_A | NODE_A),
    # The first principal ends the replay; an unknown one belongs to no node, and ending it again changes nothing.
    Route("DELETE", f"{T}/replays/{{replay}}", OPERATE_A | NODE_A | {"node:n1@a"}),
    Route("GET", "/v1/databases", READ_A, query=OF_A),
    Route("PUT", f"{D}/binlog", OWNER_A, {"ttl_seconds": 86_400}, OF_A),
    Route("PUT", f"{D}/tables/{{table}}/binlog", OWNER_A, {"ttl_seconds": "forever"}, OF_A),
    Route("POST", f"{D}/binlog/approve", OPERATE_A, {"upto": 1}, OF_A),
    Route("POST", f"{D}/tables/{{table}}/binlog/approve", OPERATE_A, {"upto": 1}, OF_A),
    Route("POST", f"{I}/binlog-gc", OPERATE_A),
    Route("POST", f"{I}/binlog-gc/running/{{signal}}", OPERATE_A),
    Route("POST", f"{D}/binlogs", OWNER_A, {"records": []}, OF_A),
    Route("GET", "/v1/binlogs", READ_A, query=f"db=sales&{OF_A}"),
    Route("GET", "/v1/binlogs", READ_A | JOB_A, query=f"db=sales&consumer=copy&{OF_A}"),
    Route("GET", "/v1/consumers", READ_A, query=OF_A),
    Route("PUT", "/v1/consumers/{consumer}", OPERATE_A | JOB_A, {"db": "sales"}, OF_A),
    Route("POST", "/v1/consumers/{consumer}/acknowledge", OPERATE_A | JOB_A, {"db": "sales", "commit_seq": 0}, OF_A),
    Route("DELETE", "/v1/consumers/{consumer}", OPERATE_A | JOB_A, query=f"db=sales&{OF_A}"),
    Route("PUT", f"{D}/tables/{{table}}/replicas", OWNER_A, PLACED, OF_A),
    Route("POST", "/v1/backends/{backend}/report", OPERATE_A | NODE_A, {"boot": 1, "sequence": 1}, OF_A),
    Route("GET", "/v1/replicas", READ_A, query=OF_A),
    Route("GET", "/v1/replicas/{tablet}", READ_A, query=OF_A),
    Route("POST", "/v1/replicas/{tablet}/{backend}/full-copy", ADMIN, REASON, OF_A),
    Route("GET", "/v1/nodes/{node}/cuts", OPERATE_A | NODE_A, query=OF_A),
    Route("POST", "/v1/nodes/{node}/cuts", OPERATE_A | NODE_A, {"instance": "a", "done": []}),
    Route("POST", f"{T}/reset", ADMIN, REASON),
    Route("POST", f"{T}/assign", ADMIN, REASON | {"instance": "b"}),
    Route("GET", "/v1/journal/followers", READ_A, query=OF_A),
    Route("POST", "/v1/journal/followers/remove", OPERATE_A, {"follower": "n7"}, query=OF_A),
    Route("GET", "/v1/journal", READ_A, query=OF_A),
    Route("GET", "/v1/journal", OPERATE_A | NODE_A, query=f"follower=n7&{OF_A}"),
    Route("GET", "/v1/journal/snapshot", READ_A, query=OF_A),
    Route("GET", "/v1/journal/snapshot", READ_A | NODE_A, query=f"follower=n7&{OF_A}"),
    Route("DELETE", f"{D}/tables/{{table}}", OWNER_A, query=OF_A),
    Route("DELETE", D, OWNER_A, query=OF_A),
    Route("DELETE", "/v1/backends/{backend}", ADMIN, query=OF_A),
    *(_route(owner, o) for owner, offered in owner_operations.operations().items() for o in offered),
)
