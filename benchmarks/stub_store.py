"""A store that answers listings and deletes at once and keeps nothing: what a client costs is seen beside it.

It speaks as much HTTP/1.1 and ListObjectsV2 as the clients here ask: a prefix, a page size, a token to go on. It says
that all is deleted, and that its bucket has no versions.
`python -m benchmarks.stub_store PORT KEYS` serves in a process of its own, whose CPU is nobody's.
"""

import socketserver
import sys
from bisect import bisect_right
from functools import lru_cache
from urllib.parse import parse_qs, unquote, urlsplit

FOLDERS = 16
HEAD = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
ENTRY = (
    "<Contents><Key>{}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
    "<ETag>&quot;{:032x}&quot;</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)
DELETED = HEAD.replace("ListBucket", "Delete").encode() + b"</DeleteResult>"
UNVERSIONED = HEAD.replace("ListBucketResult", "VersioningConfiguration").encode() + b"</VersioningConfiguration>"


def key(n: int, keys: int) -> str:
    """Return the n-th key in byte order: 96 characters, in as many folders as a hash has first digits."""
    return f"data/{n * FOLDERS // keys:x}/{n:012d}_{'0123456789abcdef' * 4}_0123456.dat"


class Pages:
    """Replies to the listings of so many keys."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def first_after(self, text: str) -> int:
        """Return the number of the first key beyond a text."""
        return bisect_right(range(self.keys), text, key=lambda n: key(n, self.keys))

    @lru_cache(maxsize=4_096)  # noqa: B019 - one for the whole process
    def page(self, prefix: str, first: int, size: int) -> bytes:
        """Return the page from a number on."""
        low, high = self._range(prefix)
        first = max(first, low)
        last = min(first + size, high)
        entries = "".join(ENTRY.format(key(n, self.keys), n, n % 10_000) for n in range(first, last))
        more = last < high
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if more else ""
        told = f"<Name>stub</Name><KeyCount>{last - first}</KeyCount><MaxKeys>{size}</MaxKeys>"
        told += f"<EncodingType>url</EncodingType><IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        return f"{HEAD}{told}{token}{entries}</ListBucketResult>".encode()

    def _range(self, prefix: str) -> tuple[int, int]:
        """Return the numbers of the keys below a prefix, which ends anywhere up to the folder's slash."""
        folder = prefix.removeprefix("data/").rstrip("/")
        if not folder:
            return 0, self.keys
        n = int(folder, 16)
        return -(-n * self.keys // FOLDERS), -(-(n + 1) * self.keys // FOLDERS)


def serve(port: int, keys: int) -> None:
    """Serve on the loopback until the process is ended."""
    pages = Pages(keys)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline().decode():
                length = 0
                while (header := self.rfile.readline().strip().lower()) != b"":
                    if header.startswith(b"content-length:"):
                        length = int(header.partition(b":")[2])
                self.rfile.read(length)
                asked = {k: v[0] for k, v in parse_qs(urlsplit(line.split()[1]).query, keep_blank_values=True).items()}
                first = int(unquote(asked.get("continuation-token", "0")))
                if "list-type" in asked:
                    body = pages.page(asked.get("prefix", ""), first, int(asked.get("max-keys", "1000")))
                else:
                    body = UNVERSIONED if "versioning" in asked else DELETED
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
                self.wfile.write(head.encode() + body)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads = True, True

    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
