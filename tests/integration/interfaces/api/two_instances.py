"""Fill a rig's instances ``a`` and ``b``: what the requests of the table ``routes`` are about exists in ``a``."""

from pathlib import Path

from sexton.contract import NewMark
from sexton.replication.binlog.model import LogRetention
from sexton.runtime.stores import DeploymentStores
from sexton.wal.sql.rows import ensure_topic
from tests.integration.interfaces.api.routes import PIN
from tests.servers.api import Api
from tests.support.rig import Rig, put


def fill_database(rig: Rig, root: Path) -> None:
    """Add the vault and the topic of ``a``, with a replay, and a mark that is due."""
    rig.local(root, instance="a")
    put(root, "data/a.dat")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("data/a.dat",), bytes=10), instance="a")
    rig.later(10_801)
    pin = {"id": PIN, "topic": "orders", "region": "r1", "start": 0, "node": "n7", "kafka_id": "", "log_end": 0}
    with rig.db.write() as c:
        ensure_topic(rig.db, c, "orders", "a")
        now = rig.db.now(c)
        c.execute(rig.db.t.wal_pin.insert().values(**pin, opened_at=now, expires_at=now + 3_600_000))


def fill_stores(rig: Rig, api: Api) -> None:
    """Add two logs and a consumer of ``a``, a plan and a check."""
    stores: DeploymentStores = api.app.state.service.stores
    stores.binlogs.configs.put("a", "sales", "", LogRetention(ttl_seconds=60))
    stores.binlogs.configs.put("a", "secret", "", LogRetention(ttl_seconds=60))
    stores.binlogs.consumers.register("a", "copy", "sales")
    assert api.app.state.service.plan("a", "test").plan.id == 1
    assert rig.runs.begin("a", "run").id == 1
