"""The samples of `deploy/proxy`, nginx and Caddy, in front of a server on loopback."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Self

from sexton.runtime.embedded.ports import free_port, is_open
from tests.machine import need
from tests.servers.certificate import certificate
from tests.support.eventually import PATIENCE_SECONDS, eventually

SAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "proxy"
UPSTREAM = "127.0.0.1:8470"
"""Where the samples expect Sexton."""


class SampleProxy:
    """A proxy with the sample's settings, and its own port and certificate; ``url`` is its address."""

    def __init__(self, program: str, address: tuple[str, int], home: Path) -> None:
        """Prepare the proxy.

        Args:
            program: nginx or caddy.
            address: of the server behind it.
            home: for its files.
        """
        self._program, self._home, self.port = need(program), home, free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.log = home / f"{program}.log"
        settings: dict[str, Callable[[], list[str]]] = {"nginx": self._nginx, "caddy": self._caddy}
        self._upstream = f"{address[0]}:{address[1]}"
        self._certificate = certificate(home)
        self._words = settings[program]()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        env = {"HOME": str(self._home), "PATH": "/usr/sbin:/usr/bin:/bin"}
        with self.log.open("wb") as log:
            words = [self._program, *self._words]
            self._process = subprocess.Popen(words, stdout=log, stderr=log, env=env, cwd=self._home)
        eventually("the proxy listens", self._listens)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if "nginx" in self._program:
            self._process.terminate()  # the first of several processes, which ends the others at once
        else:
            self._process.kill()  # it would wait for clients that are cut off
        self._process.wait(PATIENCE_SECONDS)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        return is_open(self.port)

    def _nginx(self) -> list[str]:
        site = (SAMPLES / "nginx.conf").read_text().replace(UPSTREAM, self._upstream)
        site = site.replace("listen 443", f"listen 127.0.0.1:{self.port}")
        site = site.replace("/etc/ssl/sexton.pem", str(self._certificate.cert))
        site = site.replace("/etc/ssl/sexton.key", str(self._certificate.key))
        paths = "".join(
            f"    {name}_temp_path {self._home / name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        whole = self._home / "nginx.conf"
        whole.write_text(
            f"daemon off;\nmaster_process off;\npid {self._home / 'pid'};\nworker_rlimit_nofile 8192;\n"
            f"events {{ worker_connections 4096; }}\nhttp {{\n    access_log off;\n{paths}{site}}}\n"
        )
        return ["-c", str(whole), "-e", str(self.log), "-p", str(self._home)]

    def _caddy(self) -> list[str]:
        site = (SAMPLES / "Caddyfile").read_text().replace(UPSTREAM, self._upstream)
        files = f"{self._certificate.cert} {self._certificate.key}"
        tls = f"https://127.0.0.1:{self.port} {{\n\tbind 127.0.0.1\n\ttls {files}\n"
        site = re.sub(r"^sexton\.example\.com \{\n", tls, site, flags=re.M)
        site = site.replace("{\n\tservers {", "{\n\tadmin off\n\tauto_https off\n\tservers {", 1)
        whole = self._home / "Caddyfile"
        whole.write_text(site)
        return ["run", "--config", str(whole), "--adapter", "caddyfile"]
