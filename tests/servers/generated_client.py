"""Generate clients from the OpenAPI document, compile them, and run the flows of examples/ with them."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import maven
from tests.support.installation import ROOT

POM = Path(__file__).with_name("openapi-generator-pom.xml")
TYPESCRIPT = ("typescript@5.9.3", "@types/node@20.19.43")
SECONDS = 300


def generate(document: Path, language: str, into: Path, *options: str) -> None:
    """Write the client of a language into a folder; skip the test where the generator cannot be had."""
    try:
        [jar] = maven.jars(POM, "-DexcludeTransitive=true").glob("*.jar")
    except maven.UnresolvedJars as e:
        pytest.skip(str(e))
    run(["java", "-jar", str(jar), "generate", "-i", str(document), "-g", language, "-o", str(into), *options], into)


def go_program(document: Path, home: Path) -> list[str]:
    """Return the command of the example in Go, compiled with its client."""
    go = _require("go")
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
    node, packages = _require("node"), _typescript()
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


def _require(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program} to run the generated client with")
    return found


def _typescript() -> Path:
    """Return the folder with the compiler and the types of Node, installed once by npm; skip if that fails."""
    place = Path(sys.prefix) / ".typescript"
    place.mkdir(exist_ok=True)
    packages = place / "node_modules"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (packages / "typescript").is_dir():
            npm = [_require("npm"), "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", *TYPESCRIPT]
            ran = subprocess.run(npm, cwd=place, capture_output=True, text=True, timeout=SECONDS)
            if ran.returncode:
                pytest.skip(f"npm cannot install the compiler: {ran.stderr[-400:]}")
    return packages
