"""Every route with an example request, and the scopes that admit it."""

from typing import NamedTuple


class Route(NamedTuple):
    """One route, with a body that fits. ``needs``: the least scope of read, operate and admin."""

    method: str
    path: str
    needs: str
    body: object = None
    of_job: bool = False
    of_node: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


I = "/v1/instances/shop"  # noqa: E741
PIN = "0123456789abcdef0123456789abcdef"
REASON = {"reason": "the test"}
PLACED = {"tablets": [{"tablet": "t1", "partition": "p1", "copies": [{"backend": "n7", "uid": "u1"}]}]}
OPEN = (Route("GET", "/healthz", ""), Route("POST", "/v1/token", "", {"user": "ada", "password": "none of hers"}))
"""Routes that need no token."""
ROUTES = (
    Route("GET", "/metrics", "read"),
    Route("GET", "/v1/status", "read"),
    Route("GET", "/v1/why?key=data/a.dat", "read"),
    Route("GET", "/v1/plans/1", "read"),
    Route("GET", "/v1/checks", "read"),
    Route("GET", "/v1/checks/1", "read"),
    Route("GET", f"{I}/findings", "read"),
    Route("POST", f"{I}/inventory", "operate", {"kind": "rowset", "ids": []}),
    Route("GET", f"{I}/protections", "read"),
    Route("GET", f"{I}/protections/copy:1", "read", of_job=True),
    Route("POST", "/v1/stop", "operate", REASON),
    Route("POST", "/v1/start", "operate"),
    Route("POST", f"{I}/stop", "operate", REASON),
    Route("POST", f"{I}/start", "operate"),
    Route("POST", f"{I}/plans", "operate"),
    Route("POST", "/v1/plans/1/apply", "operate"),
    Route("PUT", f"{I}/watermark", "operate", {"value": 7}),
    Route(
        "POST", f"{I}/protections", "operate", {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"]}, True
    ),
    Route("PUT", f"{I}/protections/copy:1/chunks/0", "operate", {"objects": ["disk/data/a.dat"]}, True),
    Route("POST", f"{I}/protections/copy:1/seal", "operate", {}, True),
    Route("PATCH", f"{I}/protections/copy:1", "operate", {}, True),
    Route("POST", f"{I}/protections/copy:1/finish", "operate", None, True),
    Route("POST", f"{I}/protections/copy:1/release", "admin", REASON, True),
    Route("GET", "/v1/topics", "read"),
    Route("GET", "/v1/topics/orders", "read"),
    Route("PUT", "/v1/topics/orders/regions", "operate", {"generation": 1, "regions": [{"region": "r1", "first": 0}]}),
    Route("POST", "/v1/topics/orders/purge", "operate"),
    Route("POST", "/v1/nodes/n7/heartbeat", "operate", {"reports": []}, of_node=True),
    Route("POST", "/v1/topics/orders/replays", "operate", {"region": "r1", "epoch": 1, "node": "n7"}, of_node=True),
    Route("PATCH", f"/v1/topics/orders/replays/{PIN}", "operate", of_node=True),
    Route("DELETE", f"/v1/topics/orders/replays/{PIN}", "operate", of_node=True),
    Route("GET", "/v1/databases", "read"),
    Route("PUT", "/v1/databases/sales/binlog", "operate", {"ttl_seconds": 86_400}),
    Route("PUT", "/v1/databases/sales/tables/orders/binlog", "operate", {"ttl_seconds": "forever"}),
    Route("POST", "/v1/databases/sales/binlogs", "operate", {"records": []}),
    Route("GET", "/v1/binlogs?db=sales&consumer=copy", "read", of_job=True),
    Route("GET", "/v1/consumers", "read"),
    Route("PUT", "/v1/consumers/copy", "operate", {"db": "sales"}, True),
    Route("POST", "/v1/consumers/copy/acknowledge", "operate", {"db": "sales", "commit_seq": 0}, True),
    Route("DELETE", "/v1/consumers/copy?db=sales", "operate", None, True),
    Route("PUT", "/v1/databases/sales/tables/orders/replicas", "operate", PLACED),
    Route("POST", "/v1/backends/n7/report", "operate", {"boot": 1, "sequence": 1}, of_node=True),
    Route("GET", "/v1/replicas", "read"),
    Route("GET", "/v1/replicas/t1", "read"),
    Route("POST", "/v1/replicas/t1/n7/full-copy", "admin", REASON),
    Route("GET", "/v1/nodes/n7/cuts", "operate", of_node=True),
    Route("POST", "/v1/nodes/n7/cuts", "operate", {"done": []}, of_node=True),
    Route("DELETE", "/v1/backends/n8", "admin"),
    Route("GET", "/v1/journal", "read"),
    Route("GET", "/v1/journal?follower=n7", "operate", of_node=True),
    Route("GET", "/v1/journal/snapshot", "read"),
    Route("GET", "/v1/journal/snapshot?follower=n7", "read", of_node=True),
    Route("DELETE", "/v1/databases/sales/tables/orders", "operate"),
    Route("DELETE", "/v1/databases/sales", "operate"),
)
