"""Run `sexton` with a limit of open files: `python -m tests.servers.few_files FILES ARGUMENT…`."""

import resource
import runpy
import sys

if __name__ == "__main__":
    files = int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    runpy.run_module("sexton", run_name="__main__", alter_sys=True)
