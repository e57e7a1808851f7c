"""A rig with instances ``a`` and ``b``: what the requests of the table ``routes`` are about exists in ``a``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sexton.check.model import Discrepancy, FindingType
from sexton.contract import NewMark
from sexton.operators.holds.model import Hold
from sexton.recycle.rounds.ledger import Ledger
from sexton.replication.binlog.model import LogRetention
from sexton.runtime.stores import DeploymentStores
from sexton.runtime.temporal.control_client import TemporalAway
from sexton.wal.sql.store import ensure_topic
from tests.integration.interfaces.api.routes import PIN
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig, put


@contextmanager
def two_instances(directory: Path) -> Iterator[tuple[Rig, Api]]:
    """Serve a rig in which everything that the examples name exists."""
    rig = Rig(new_database()).instance("a").instance("b")
    fill_database(rig, directory / "v")
    with Api(rig) as api:
        fill_stores(rig, api)
        yield rig, api
    rig.db.close()


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


class Away:
    """Starts and signals nothing, as if no Temporal answered; the real one would be waited for at each request."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        def refused(*_: object) -> object:
            raise TemporalAway("Temporal does not answer; nothing was sent")

        return refused


def fill_stores(rig: Rig, api: Api) -> None:
    """Add two logs and a consumer of ``a``, and a plan, a round, a hold, a check and a finding: number 1 of each.

    From then on Temporal is away.
    """
    api.app.state.service.__dict__["starter"] = Away()
    stores: DeploymentStores = api.app.state.service.stores
    stores.binlogs.configs.put("a", "sales", "", LogRetention(ttl_seconds=60))
    stores.binlogs.configs.put("a", "secret", "", LogRetention(ttl_seconds=60))
    stores.binlogs.consumers.register("a", "copy", "sales")
    assert api.app.state.service.plan("a", "test").plan.id == 1
    round_ = rig.rounds.open("a", "run", None, rig.policy)
    rig.rounds.close(Ledger().close_order(round_, None, None, "STOPPED", "a stop"))
    assert round_.round == 1
    assert stores.holds.place(Hold(instance="a", scope="instance", reason="test", placed_by="test"), 60)[0].id == 1
    check = rig.runs.begin("a", "run")
    assert check.id == 1
    rig.runs.store_findings(check, [Discrepancy(type=FindingType.LOST, vault="disk", key="data/x.dat")])
