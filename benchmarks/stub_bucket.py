"""A store that takes deletions at once and keeps only what vaults keep for themselves: what a client costs beside it.

`python -m benchmarks.stub_bucket PORT [DELAY_SECONDS]` serves in a process of its own, whose CPU is nobody's. Objects
that are deleted were never there; a store says of every key that it is deleted, and of every folder that it has one.
What is told to the audit is taken and forgotten.
"""

import re
import socketserver
import sys
import threading
import time
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
KEYS = re.compile(r"<Key>([^<]*)</Key>")
FOLDER = (
    f"<ListBucketResult {NS}><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated><KeyCount>1</KeyCount>"
    "<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;1&quot;</ETag>"
    "<Size>10</Size></Contents></ListBucketResult>"
)
"""A listing of one object."""
FORGOTTEN = "/_sexton/audit/"


class Bucket:
    """Small objects by name."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, bytes, str]:
        """Return status, body and ETag of the answer to one request."""
        url = urlsplit(target)
        _, _, key = unquote(url.path).lstrip("/").partition("/")
        asked = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
        with self._lock:
            if method == "POST":
                if b"_sexton" in body:
                    for gone in KEYS.findall(body.decode()):
                        self._objects.pop(unescape(gone), None)
                return 200, f"<DeleteResult {NS}></DeleteResult>".encode(), ""
            if not key:
                return self.of_bucket(asked)
            if method == "PUT":
                if FORGOTTEN not in f"/{key}":
                    self._objects[key] = body
                return 200, b"", _etag(body)
            if method == "DELETE":
                self._objects.pop(key, None)
                return 204, b"", ""
            if key not in self._objects:
                return 404, f"<Error><Code>NoSuchKey</Code><Message>{escape(key)}</Message></Error>".encode(), ""
            return 200, self._objects[key], _etag(self._objects[key])

    def of_bucket(self, asked: dict[str, str]) -> tuple[int, bytes, str]:
        """Return the answer to a listing, or to a question about the bucket; no upload is unfinished."""
        if "uploads" in asked:
            none = f"<ListMultipartUploadsResult {NS}><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
            return 200, none.encode(), ""
        if "list-type" not in asked:
            return 200, f"<VersioningConfiguration {NS}></VersioningConfiguration>".encode(), ""
        after = max(asked.get("start-after", ""), unquote(asked.get("continuation-token", "")))
        folder = asked.get("prefix", "")
        if folder.endswith("/") and folder.count("/") > 1 and not folder.startswith("_sexton"):
            return 200, FOLDER.format(key=quote(f"{folder}0.dat")).encode(), ""
        names = sorted(k for k in self._objects if k.startswith(asked.get("prefix", "")) and k > after)
        shown = names[: int(asked.get("max-keys", "1000"))]
        entries = "".join(
            f"<Contents><Key>{quote(k)}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f"<ETag>&quot;{_etag(self._objects[k])}&quot;</ETag><Size>{len(self._objects[k])}</Size></Contents>"
            for k in shown
        )
        more = len(shown) < len(names)
        token = f"<NextContinuationToken>{quote(shown[-1])}</NextContinuationToken>" if more else ""
        told = "<EncodingType>url</EncodingType>"
        told += f"<IsTruncated>{'true' if more else 'false'}</IsTruncated><KeyCount>{len(shown)}</KeyCount>{token}"
        return 200, f"<ListBucketResult {NS}>{told}{entries}</ListBucketResult>".encode(), ""


def _etag(body: bytes) -> str:
    return f"{hash(body) & (2**64 - 1):032x}"


def serve(port: int, delay_seconds: float = 0.0, bucket: Bucket | None = None) -> None:
    """Serve on the loopback until the process is ended."""
    store = bucket or Bucket()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline().decode():
                method, target, _ = line.split(" ", 2)
                length = 0
                while (head := self.rfile.readline().strip().lower()) != b"":
                    if head.startswith(b"content-length:"):
                        length = int(head.partition(b":")[2])
                    if head.startswith(b"expect:"):
                        self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                time.sleep(delay_seconds)
                status, body, etag = store.answer(method, target, self.rfile.read(length))
                head_ = f"HTTP/1.1 {status} Answer\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
                head_ += f'ETag: "{etag}"\r\n' if etag else ""
                self.wfile.write(f"{head_}\r\n".encode() + (b"" if method == "HEAD" else body))

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads = True, True

    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
