"""Run a Temporal dev server with its UI on loopback. Workflows and schedules survive a restart over the same home."""

import os
import subprocess
from pathlib import Path

from sexton.runtime.embedded.child import Child, find_binary
from sexton.runtime.embedded.ports import Ports, is_open

READY_SECONDS = 60.0
NAMESPACE = "default"


class TemporalServer:
    """One dev server over ``HOME/temporal.db``."""

    def __init__(self, home: Path, ports: Ports) -> None:
        self._binary = find_binary("temporal")
        self._port = ports.take("temporal")
        ui = ports.take("temporal ui")
        self.address = f"127.0.0.1:{self._port}"
        self.ui_url = f"http://127.0.0.1:{ui}"
        # A developer's TEMPORAL_ variables would direct the commands to another server.
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        command = [self._binary, "server", "start-dev", "--ip=127.0.0.1", f"--port={self._port}"]
        command += ["--ui-ip=127.0.0.1", f"--ui-port={ui}", f"--http-port={ports.take('temporal http')}"]
        command += [f"--metrics-port={ports.take('temporal metrics')}", "--log-level=error"]
        # WAL and NORMAL: several times faster, and still consistent after a SIGKILL.
        command += ["--sqlite-pragma=journal_mode=WAL", "--sqlite-pragma=synchronous=NORMAL"]
        command.append(f"--db-filename={home.resolve() / 'temporal.db'}")
        self.child = Child("temporal", command, home, self._env)

    def start(self) -> float:
        """Start the server; return the seconds until its namespace answers."""
        return self.child.start(self._answers, READY_SECONDS)

    def _answers(self) -> bool:
        if not is_open(self._port):
            return False
        # The port opens before the namespace exists.
        command = [self._binary, "operator", "namespace", "describe"]
        command += [f"--namespace={NAMESPACE}", f"--address={self.address}"]
        try:
            return subprocess.run(command, env=self._env, capture_output=True, timeout=10).returncode == 0
        except subprocess.TimeoutExpired:
            return False
