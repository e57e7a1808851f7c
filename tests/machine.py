"""What tests need that no wheel has: find it, install it where that is allowed, and skip what needs it where it is not.

A test calls ``need("nginx")``. On a desk the run ends with the list of what was not tested and why; with ``CI=true``
a missing program is an error.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass

import pytest

REASON = "needs "
"""How the reason of every skip begins; a run with another skip fails."""


@dataclass(frozen=True)
class Program:
    """A program of the machine."""

    name: str
    package: str
    """Of Debian; empty: none is installed for it."""
    used_for: str


PROGRAMS = (
    Program("chromium-headless-shell", "chromium-headless-shell", "pages of the console in a browser"),
    Program("promtool", "prometheus", "alert rules and the dashboard's queries"),
    Program("mvn", "maven", "Kafka and the generator of API clients"),
    Program("nginx", "nginx", "the sample of a proxy"),
    Program("caddy", "caddy", "the other sample of a proxy"),
    Program("pgbouncer", "pgbouncer", "a pooler in transaction mode"),
    Program("go", "", "the Go owner and the generated Go client"),
    Program("npm", "", "the generated TypeScript client, with node"),
    Program("helm", "", "the chart as Helm renders it"),
)
_INSTALL = """
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy
    trap "rm $policy" EXIT
fi
apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"
"""
"""Debian would start the servers of the packages: its policy forbids that meanwhile."""
INSTALLED = {program.name for program in PROGRAMS if program.package}


def need(name: str) -> str:
    """Return the path of a program; skip the test where the machine lacks it.

    In CI the absence of a program that could have been installed fails the test.
    """
    if path := shutil.which(name):
        return path
    if name in INSTALLED and os.environ.get("CI"):
        pytest.fail(f"{name} is not installed")
    pytest.skip(f"{REASON}{name}")


def prepare() -> None:
    """Print which programs are there, and install those that Debian has, as root or by sudo without a password."""
    missing = [p for p in PROGRAMS if not shutil.which(p.name)]
    for program in PROGRAMS:
        print(f"{program.name:24} {shutil.which(program.name) or 'missing':24} {program.used_for}")
    packages = [p.package for p in missing if p.package]
    if packages and (root := _root()) is not None and shutil.which("apt-get"):
        print(f"installing {', '.join(packages)} with apt-get …", flush=True)
        ran = subprocess.run(
            [*root, "sh", "-c", _INSTALL, "sh", *packages], capture_output=True, text=True, check=False
        )
        if ran.returncode:
            print(f"apt-get failed: {(ran.stdout + ran.stderr).strip()[-400:]}")


def untested() -> list[str]:
    """Return a line for each program that is missing now: what is not tested without it."""
    return [
        f"{p.used_for}: {p.name} is missing" + (f" (Debian: apt-get install {p.package})" if p.package else "")
        for p in PROGRAMS
        if not shutil.which(p.name)
    ]


def _root() -> list[str] | None:
    """Return what a command must begin with to run as root; None where that is not allowed."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    allowed = sudo and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0
    return [str(sudo), "-n"] if allowed else None
