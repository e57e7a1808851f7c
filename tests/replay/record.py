"""Record a history for the replay test: `python -m tests.replay.record`.

Run it when a workflow's behaviour changes on purpose, under a new name: the old histories stay, they must replay too.
"""

import asyncio
import json
import re
import tempfile
from pathlib import Path

import worker
from config.settings import Settings
from sexton.contract import NewMark
from tests.rig import DEPLOYMENT, Rig, put
from tests.servers.temporal import DevServer, start_local
from tests.workflows.conftest import Served

HISTORIES = Path(__file__).parent / "histories"
NAME = "recycle-instance-0.1.json"


async def record(scratch: Path) -> str:
    """Return one round's history: adopted prefixes, two kinds, something held."""
    rig = Rig(f"sqlite:///{scratch / 'sexton.db'}").instance()
    root = rig.local(scratch / "v")
    for n in range(3):
        put(root, f"data/{n}/a.dat")
        rig.mark("dropped", NewMark(id=f"p{n}", vault="disk", prefix=f"data/{n}/"))
        rig.mark("compacted", NewMark(id=f"k{n}", vault="disk", keys=(f"k/{n}.dat",)))
    rig.mark("dropped", NewMark(id="lost", vault="nowhere", keys=("x",)))
    rig.later(10_801)
    environment = await start_local()
    client = await DevServer(environment).connect()
    settings = Settings(deployment=DEPLOYMENT, database_url=rig.url)
    async with worker.build(client, settings, rig.db):
        await Served(rig, client).round("shop")
        rig.later(3_601)
        handle = await Served(rig, client).start("shop")
        await handle.result()
        history = await handle.fetch_history()
    await environment.shutdown()
    # Who recorded it is nobody's business.
    return re.sub(r'("identity": )"[^"]*"', r'\1"recorder"', json.dumps(history.to_json_dict(), indent=1))


if __name__ == "__main__":
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        text = asyncio.run(record(Path(scratch)))
    (HISTORIES / NAME).write_text(text + "\n")
