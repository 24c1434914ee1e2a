"""A server that speaks the S3 API, in a process of its own, and artifacts in a bucket of it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass

BUCKET = "rqueue"
START_SEC = 50
# What the server is told and does not check; obstore takes it from there.
KEYS = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret-of-ours"}


@dataclass(slots=True)
class S3Server:
    """One running server with an empty bucket."""

    process: subprocess.Popen[bytes]
    endpoint: str

    @property
    def url(self) -> str:
        """What `artifacts_url` is to be."""
        return f"s3://{BUCKET}/some/prefix?endpoint={self.endpoint}&region=us-east-1"

    def stop(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()

    def call(self, method: str, path: str, data: bytes | None = None) -> bytes:
        """A plain HTTP request, as no library of ours would make it."""
        asked = urllib.request.Request(f"{self.endpoint}{path}", data=data, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as reply:
            found: bytes = reply.read()
            return found


def start() -> S3Server:
    """A server that answers, with its bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    server = S3Server(
        subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet), f"http://127.0.0.1:{port}"
    )
    until = time.monotonic() + START_SEC
    while True:
        try:
            server.call("PUT", f"/{BUCKET}")
            return server
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > until or server.process.poll() is not None:
                server.stop()
                raise
            time.sleep(0.1)
