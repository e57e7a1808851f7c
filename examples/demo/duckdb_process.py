"""A DuckDB process with an attached DuckLake: reads statements as lines of JSON, and answers each with a line.

It runs in the environment ``.venv/ducklake``, which has DuckDB and its extensions, and nothing of Sexton.
"""

import json
import site
import sys
from pathlib import Path

import duckdb


def main(attach: str, *extensions: str) -> None:
    """Attach a lake as ``lake``, and answer statements until the input ends."""
    offline = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config=offline)
    packages = Path(site.getsitepackages()[0])
    for extension in extensions:
        [file] = packages.glob(f"duckdb_extension_{extension}/extensions/**/*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    for line in sys.stdin:
        statement = json.loads(line).replace("{attach}", attach)
        try:
            answer = {"rows": connection.execute(statement).fetchall()}
        except duckdb.Error as e:
            answer = {"error": str(e)}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
