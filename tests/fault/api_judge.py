"""Ask an API for its health, stop it and renew a protection, again and again: `python -m tests.fault.api_judge URL`.

Each kind of request has a thread, and each request a connection of its own. Each line of the output is a kind and the
status of an answer (0: none).
"""

import os
import ssl
import sys
import threading
import time
from contextlib import suppress

import httpx

from tests.support.eventually import PATIENCE_SECONDS

OPERATOR, JOB = "JUDGE_OPERATOR", "JUDGE_JOB"
"""Variables of the environment: the tokens of an operator and of job ``copy``."""
PAUSE_SECONDS = 0.2


def _judge(kind: str, url: str, method: str, path: str, token: str, body: object) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while True:
        with httpx.Client(base_url=url, verify=context, timeout=PATIENCE_SECONDS, trust_env=False) as http:
            status = 0
            with suppress(httpx.HTTPError):
                status = http.request(method, path, json=body, headers=headers).status_code
        print(f"{kind} {status}\n", end="", flush=True)  # in one write: the threads share the output
        time.sleep(PAUSE_SECONDS)


def main(url: str) -> None:
    """Judge until the process is killed."""
    operator, job = os.environ[OPERATOR], os.environ[JOB]
    requests = [
        ("health", url, "GET", "/healthz", "", None),
        ("stop", url, "POST", "/v1/stop", operator, {"reason": "under attack", "everything": True}),
        ("renewal", url, "PATCH", "/v1/instances/shop/protections/copy:1", job, {}),
    ]
    for request in requests:
        threading.Thread(target=_judge, args=request).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
