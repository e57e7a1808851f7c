"""A real S3 server (SeaweedFS) on loopback, its data under a home; a restart over the same home keeps every object."""

import os
import urllib.error
import urllib.request
from pathlib import Path

from sexton.embedded import find_binary
from sexton.embedded.child import Child
from sexton.embedded.ports import Ports

READY_SECONDS = 60.0
_PORTS = ("master", "volume", "filer", "s3", "admin")
"""Each part listens on two, HTTP and gRPC."""
_OFF = (
    "-admin.ui=false",
    "-webdav=false",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-s3.autoCreateBucket=false",  # a mistyped bucket must be an error, not a new bucket
)


class S3Server:
    """One SeaweedFS over `HOME/s3`, with the access and secret key it is given."""

    def __init__(self, home: Path, ports: Ports, access_key: str, secret_key: str) -> None:
        data = home.resolve() / "s3"
        data.mkdir(parents=True, exist_ok=True)
        flags = [f"-dir={data}", f"-master.dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *_OFF]
        port = {name: ports.take(f"s3 {name}") for name in (*_PORTS, *(f"{name} grpc" for name in _PORTS))}
        flags += [f"-{name}.port={port[name]}" for name in _PORTS]
        flags += [f"-{name}.port.grpc={port[f'{name} grpc']}" for name in _PORTS]
        self.endpoint_url = f"http://127.0.0.1:{port['s3']}"
        env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_", "WEED_"))}
        keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        self.child = Child("s3", [find_binary("weed"), "mini", *flags], home, env | keys)

    def start(self) -> float:
        """Start it; return the seconds until it answers."""
        return self.child.start(self._answers, READY_SECONDS)

    def stop(self) -> None:
        """Stop it; its data stays."""
        self.child.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint_url}/healthz", timeout=2) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False
