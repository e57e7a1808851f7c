"""Every route with an example request about instance ``a``, and the principals that it admits, from the registry."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_origin
from urllib.parse import urlencode

from pydantic import BaseModel

from sexton.operations.registry import INSTANCE, Operation, operations
from sexton.operators.access.model import Grant
from sexton.owners.plugin import OwnerOperation
from sexton.runtime import owner_operations

PIN = "0123456789abcdef0123456789abcdef"
VALUES: Mapping[str, Any] = {
    **dict.fromkeys(("plan", "check", "round", "hold", "finding", "upto"), 1),
    **dict.fromkeys(("number", "commit_seq"), 0),
    **dict.fromkeys(("seconds", "ttl_seconds"), 60),
    **dict.fromkeys(("node", "backend", "follower"), "n7"),
    **dict.fromkeys(("topic", "table"), "orders"),
    **dict.fromkeys(("name", "consumer"), "copy"),
    "instance": "a",
    "job": "copy:1",
    **dict.fromkeys(("replay", "commit"), PIN),
    "db": "sales",
    "tablet": "t1",
    "vault": "disk",
    "which": "blacklist",
    "mark": "dropped/t1",
    "key": "recycle.retention_seconds",
    "token": "0123456789ab",
    "reason": "the test",
    "rate": 500,
    "what": "orphans",
    "scope": "read@a",
    "to": "b",
}
"""The values of parameters, by name."""
OF_OPERATION: Mapping[str, Mapping[str, Any]] = {
    "quarantine retry": {"everything": True},
    "lists add": {"name": "a"},
    "lists remove": {"name": "a"},
    "settings set": {"value": "864000"},
    "settings preview": {"value": "90"},
    "protection watermark": {"value": 7},
    "wal enable": {"logical": True},
    "wal replay open": {"replay": {"region": "r1", "epoch": 1, "node": "n7"}},
    "wal map": {"map_": {"generation": 1, "regions": [{"region": "r1", "first": 0}]}},
    "wal heartbeat": {"beat": {"reports": []}},
    "protection register": {"body": {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"]}},
    "commit admit": {"body": {"objects": ["disk/data/new.dat"]}},
    "protection chunk": {"body": {"objects": ["disk/data/a.dat"]}},
    "check inventory": {"memory": {"kind": "rowset", "ids": []}},
    "binlog add": {"body": {"records": []}},
    "replica place": {
        "placements": {"tablets": [{"tablet": "t1", "partition": "p1", "copies": [{"backend": "n7", "uid": "u1"}]}]}
    },
    "replica report": {"body": {"boot": 1, "sequence": 1}},
    "binlog cuts-done": {"body": {"done": []}},
}
"""The values of some operations, where the name alone does not say what fits."""
LAST = (
    "wal replay release",
    "binlog remove-consumer",
    "binlog drop",
    "replica decommission",
    "wal reset",
    "wal assign",
)
"""Operations after which others would not find what they are about."""

PRINCIPALS = (
    *(
        f"{grant}@{instance}"
        for instance in "ab"
        for grant in ("read", "owner", "commit", "operate", "sync:copy", "node:n7")
    ),
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
COMMIT_A = OWNER_A | {"commit@a"}
OF_A = {Grant.READ: READ_A, Grant.OWNER: OWNER_A, Grant.COMMIT: COMMIT_A, Grant.OPERATE: OPERATE_A, Grant.ADMIN: ADMIN}
OF_ALL = {Grant.READ: READ_ALL, Grant.OWNER: OWNER_ALL, Grant.OPERATE: OPERATE_ALL, Grant.ADMIN: ADMIN}
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
    operation: Operation | None = None
    is_own: bool = False
    """Whether it is about the instance of the token, whichever that is."""

    @property
    def path(self) -> str:
        values = dict(VALUES) | (OF_OPERATION.get(self.operation.name, {}) if self.operation else {})
        return self.template.format(**values) + (f"?{self.query}" if self.query else "")

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def _of_operation(operation: Operation, path: str) -> Route:
    """Return the route of an operation at one of its paths."""
    values = dict(VALUES) | OF_OPERATION.get(operation.name, {})
    in_path, in_query = operation.path_names(path), operation.query_names(path)
    known = values.keys() | {operation.model, INSTANCE}
    if unknown := {n for n, p in operation.parameters.items() if p.default is p.empty} - known:
        raise KeyError(f"{operation.name}: add a value of {', '.join(unknown)} to VALUES or OF_OPERATION of this file")
    needed = [
        n for n, p in operation.parameters.items() if p.default is p.empty or n in OF_OPERATION.get(operation.name, {})
    ]
    query = {n: values[n] for n in (*needed, INSTANCE, "consumer") if n in in_query and n not in in_path}
    body = values[operation.model] if operation.model else None
    if body is None and operation.body is not None:
        body = {name: values[name] for name in needed if name in operation.body.model_fields} or None
    return Route(
        operation.method, path, _admits(operation, path), body, urlencode(query), operation, _is_own(operation, path)
    )


def _is_own(operation: Operation, path: str) -> bool:
    return bool(operation.covers) and INSTANCE not in operation.path_names(path) | operation.query_names(path)


def _admits(operation: Operation, path: str) -> set[str]:
    about_a = operation.covers or operation.record.of
    admits = set((OF_A if about_a else OF_ALL)[operation.grant])
    if operation.record.job:
        admits |= JOB_A
    if operation.record.node:
        admits |= NODE_A
    if operation.name == "wal replay release":
        # The first principal ends the replay; an unknown one belongs to no node, and ending it again changes nothing.
        admits |= {"node:n1@a"}
    return admits | {p.replace("@a", "@b") for p in admits} if _is_own(operation, path) else admits


def _of_operations() -> Iterator[Route]:
    rows = [_of_operation(operation, path) for operation in operations().values() for path in operation.paths]
    yield from sorted(rows, key=lambda row: LAST.index(row.operation.name) if row.operation.name in LAST else -1)  # type: ignore[union-attr]


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


ABOUT_A = "instance=a"
OPEN = (Route("GET", "/healthz", set()), Route("GET", "/livez", set()), Route("GET", "/readyz", set()))
"""Routes that need no token."""
ROUTES = (
    Route("GET", "/v1/openapi.json", EVERYBODY),
    Route("GET", "/metrics", READ_ALL),
    Route("GET", "/v1/rounds/{round}/deletions", READ_A),
    Route("GET", "/v1/rounds/{round}/events", READ_A),
    Route("GET", "/v1/journal", READ_A, query=ABOUT_A),
    Route("GET", "/v1/journal", OPERATE_A | NODE_A, query=f"follower=n7&{ABOUT_A}"),
    Route("GET", "/v1/journal/snapshot", READ_A, query=ABOUT_A),
    Route("GET", "/v1/journal/snapshot", READ_A | NODE_A, query=f"follower=n7&{ABOUT_A}"),
    *(_route(owner, o) for owner, offered in owner_operations.operations().items() for o in offered),
    *_of_operations(),
)
