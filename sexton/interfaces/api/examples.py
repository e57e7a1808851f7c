"""An example of each request body, by the name of its schema in the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

_REASON = {"reason": "incident 4711"}
_COPY = {"backend": "be-1", "uid": "9f2c"}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "Acceptance": {"reason": "written by hand"},
    "Acknowledgement": {"db": "sales", "table": "orders", "commit_seq": 4_000},
    "BackendReport": {"boot": 1, "sequence": 12, "tablets": []},
    "CapRequest": {"keys_per_second": 500, "reason": "the bucket is shared"},
    "ConsumerRegistration": {"db": "sales", "table": "orders", "after": 3_000},
    "CutApproval": {"upto": 4_000},
    "CutsDone": {"instance": "shop", "done": []},
    "Discarding": {"mark": "dropped/t1", "reason": "kept by hand"},
    "Finish": {},
    "FollowerRemoval": {"follower": "fe-3"},
    "FullCopy": {"reason": "the disk was replaced"},
    "Heartbeat": {
        "url": "http://10.0.0.7:8040",
        "reports": [{"topic": "orders-wal", "region": "r1", "epoch": 3, "streams": [{"flushed": 41}]}],
    },
    "HoldRequest": {"scope": "prefix", "vault": "cold", "prefix": "data/orders/", "seconds": 604_800, **_REASON},
    "Inventory": {"kind": "rowset", "ids": ["02000000000001"], "after": "", "until": ""},
    "Items": {"objects": ["cold/data/orders/1.dat"]},
    "ListEntry": {"name": "shop", **_REASON},
    "LogConfig": {"ttl_seconds": 604_800, "max_bytes": 1_073_741_824},
    "Placements": {"tablets": [{"tablet": "t1", "partition": "p1", "copies": [_COPY]}]},
    "Purging": {"logical": False},
    "RecordsRequest": {"records": [{"commit_seq": 4_001, "tables": ["orders"]}]},
    "RegionMap": {"generation": 7, "regions": [{"region": "r1", "first": 0, "node": "n1"}]},
    "Registration": {"job": "copy:lisbon", "owner": "ada", "objects": ["cold/data/orders/1.dat"]},
    "Rejection": {"reason": "the wrong table was dropped"},
    "Release": {"reason": "the job is gone"},
    "Renewal": {"ttl_seconds": 1_200},
    "RepairOrder": {"what": "orphans", "dry_run": True},
    "Replay": {"region": "r1", "epoch": 4, "flushed": [41], "node": "n2"},
    "RetryOrder": {"reason": "ACCESS_DENIED"},
    "Seal": {},
    "SettingRequest": {"value": "604800", **_REASON},
    "Stop": _REASON,
    "TokenRenewRequest": {"days": 90},
    "TokenCreateRequest": {"scope": "operate@shop", "days": 90, "note": "deploy pipeline"},
    "TopicOwner": {"instance": "shop", "reason": "the map of test had the wrong name"},
    "TopicReset": {"region": "r1", "to": 41, "reason": "restored from last night"},
    "TrustOrder": {"reason": "nothing was undropped in the newer copy"},
    "Watermark": {"value": 1_700_000_000},
    "Why": _REASON,
}
