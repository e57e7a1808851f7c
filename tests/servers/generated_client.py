"""Generate clients from the OpenAPI document, compile them, and run the flows of examples/ with them."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.machine import need
from tests.support import downloads
from tests.support.installation import ROOT

SECONDS = 300


def generate(document: Path, language: str, into: Path, *options: str) -> None:
    """Write the client of a language into a folder."""
    [jar] = downloads.jars(downloads.GENERATOR).glob("*.jar")
    run(["java", "-jar", str(jar), "generate", "-i", str(document), "-g", language, "-o", str(into), *options], into)


def go_program(document: Path, home: Path) -> list[str]:
    """Return the command of the example in Go, compiled with its client."""
    go = need("go")
    client, flow = home / "client", home / "flow"
    owner = ("--git-host=example.org", "--git-user-id=sexton", "--git-repo-id=client")
    generate(document, "go", client, *owner, "--additional-properties=packageName=sexton,enumClassPrefix=true")
    shutil.copytree(ROOT / "examples" / "go_client", flow)
    requires = "require example.org/sexton/client v0.0.0\nreplace example.org/sexton/client => ../client\n"
    (flow / "go.mod").write_text(f"module example.org/flow\n\ngo 1.23\n\n{requires}")
    run([go, "vet", "."], client)
    run([go, "build", "-o", "flow", "."], flow)
    return [str(flow / "flow")]


def typescript_program(document: Path, home: Path) -> list[str]:
    """Return the command of the example in TypeScript, compiled with its client."""
    node, packages = need("node"), downloads.typescript()
    generate(document, "typescript-fetch", home / "client", "--additional-properties=supportsES6=true")
    shutil.copytree(ROOT / "examples" / "typescript_client", home, dirs_exist_ok=True)
    types = ["--types", "node", "--typeRoots", str(packages / "@types")]
    options = ["--strict", "--target", "es2020", "--module", "commonjs", "--outDir", "out", *types]
    run([node, str(packages / "typescript" / "bin" / "tsc"), *options, "main.ts"], home)
    return [node, str(home / "out" / "main.js")]


def run(command: Sequence[str], directory: Path) -> str:
    """Run a command to its end, and return what it printed."""
    directory.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    ran = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert ran.returncode == 0, f"{command[0]} failed: {(ran.stdout + ran.stderr)[-3_000:]}"
    return ran.stdout
