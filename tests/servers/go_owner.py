"""The owner of examples/go_owner as a process of its own, built once."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from sexton.runtime.embedded.ports import free_port
from tests.machine import need
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.installation import ROOT

SOURCE = ROOT / "examples" / "go_owner"


@cache
def program() -> Path:
    """Build the program; skip the test where there is no Go."""
    go = need("go")
    path = Path(mkdtemp(prefix="sexton-go-")) / "go_owner"
    environment = os.environ | {"GOPROXY": "off", "GOTOOLCHAIN": "local"}
    command = [go, "build", "-o", str(path), "."]
    subprocess.run(command, cwd=SOURCE, env=environment, check=True, timeout=300)
    return path


class GoOwner:
    """One running owner; ``url``: where it answers. Its file outlives ``stop``."""

    def __init__(self, directory: Path, *arguments: str, scheme: str = "http") -> None:
        self._file, self._arguments = directory / "lake.json", arguments
        self._port = free_port()
        self.url = f"{scheme}://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [str(program()), "-listen", f"127.0.0.1:{self._port}", "-file", str(self._file), *self._arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        eventually("the owner listens", self._listens)

    def _listens(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/v1/live/count", timeout=PATIENCE_SECONDS).close()
        except urllib.error.HTTPError:
            return True  # it wants a token
        except OSError as e:
            return "certificate" in str(e).lower() or "ssl" in str(e).lower()  # it serves TLS
        return True

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def ask(self, method: str, path: str, content: object = None) -> Any:
        """Send a request of the lake's own users; raise ``HTTPError`` if it is refused."""
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read())
