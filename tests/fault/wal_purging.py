"""A purging process that a test kills: ``python -m tests.fault.wal_purging ADDRESS DATABASE TOPIC [POINT]``.

With a crash point it kills itself there, once a purge has raised the floor.
"""

import os
import signal
import sys

from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.operators.controls.store import ControlStore
from sexton.wal import kafka
from sexton.wal.kafka import KafkaLog
from sexton.wal.model import WalSettings
from sexton.wal.purger import Purger
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.store import WalStore

REQUEST_SECONDS = 5.0
"""How long a request to a killed broker waits: a test does not wait for four times 20 s."""


def main(address: str, database: str, topic: str, point: str = "") -> None:
    kafka.REQUEST_SECONDS = REQUEST_SECONDS
    db = Database.open(database)
    store = WalStore(db)
    floor = store.topic(topic).floor or 0

    def die(reached: str) -> None:
        if reached == point and (store.topic(topic).floor or 0) > floor:
            os.kill(os.getpid(), signal.SIGKILL)

    purger = Purger(KafkaLog({"bootstrap.servers": address}), FloorStore(db, WalSettings(), ControlStore(db)))
    with installed(die):
        while True:
            done = purger.purge([topic])[topic]
            print(done.floor, done.log_start, done.fault, done.verdict.quarantine, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
