"""Choose loopback ports that stay the same over restarts, unless another process has taken them meanwhile.

A port is chosen before the server that will listen on it starts. Until this process ends it holds a lock of each port
that it chose, so that no other process of Sexton chooses the same one.
"""

import fcntl
import json
import os
import random
import socket
import tempfile
from pathlib import Path

_RANGE = range(20_000, 32_000)
"""Below Linux' range for outgoing connections, so that none of these takes a port while its server is down."""


def is_free(port: int) -> bool:
    """Return whether a server could listen on 127.0.0.1:port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_open(port: int) -> bool:
    """Return whether a server accepts connections on 127.0.0.1:port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Return a port of 127.0.0.1 that no server listens on, and that no other process of Sexton has chosen."""
    while True:
        port = random.choice(_RANGE)
        if is_free(port) and _lock(port):
            return port


def _lock(port: int) -> bool:
    """Reserve a port for this process; return whether no other one has it."""
    directory = Path(tempfile.gettempdir()) / f"sexton-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(directory / str(port), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    return True


def write_atomically(file: Path, text: str) -> None:
    """Replace a file, readable by its owner only; a crash leaves the old or the new one."""
    unfinished = file.with_name(file.name + ".new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)


class Ports:
    """The named ports of one home, stored in its ``stack.json``."""

    def __init__(self, home: Path) -> None:
        self._file = home / "stack.json"
        self._known: dict[str, int] = json.loads(self._file.read_text())["ports"] if self._file.is_file() else {}
        self._taken: set[int] = set()

    def take(self, name: str) -> int:
        """Return the port of that name: the stored one where it is free, otherwise a new one."""
        port = self._known.get(name)
        while port is None or port in self._taken or not is_free(port):
            port = free_port()
        self._taken.add(port)
        if self._known.get(name) != port:
            self._known[name] = port
            write_atomically(self._file, json.dumps({"ports": self._known}, indent=2) + "\n")
        return port
