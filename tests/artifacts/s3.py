"""A server with the S3 API in its own process, with a bucket for artifacts."""

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
# Credentials that the server does not check; obstore reads them from the environment.
KEYS = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret-of-ours"}


@dataclass(slots=True)
class S3Server:
    """One running server with an empty bucket."""

    process: subprocess.Popen[bytes]
    endpoint: str

    @property
    def url(self) -> str:
        """The value for `artifacts_url`."""
        return f"s3://{BUCKET}/some/prefix?endpoint={self.endpoint}&region=us-east-1"

    def stop(self) -> None:
        """Stops the server immediately."""
        self.process.kill()
        self.process.wait()

    def call(self, method: str, path: str, data: bytes | None = None) -> bytes:
        """Sends a plain HTTP request, without a library of the project."""
        request = urllib.request.Request(f"{self.endpoint}{path}", data=data, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as reply:
            found: bytes = reply.read()
            return found


def start() -> S3Server:
    """Returns a running server with its bucket."""
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
