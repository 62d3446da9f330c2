"""A page that is served on this machine, for as long as a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class LivePage:
    """What is served. text: the newest page; asked: somebody has seen it since it was set."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = True
        self._text = b""

    def set(self, text: str) -> None:
        """Serve another page from now on."""
        self._text, self.asked = text.encode(), False

    def take(self) -> bytes:
        """The page, for somebody who asks."""
        self.asked = True
        return self._text


@contextmanager
def served() -> Iterator[LivePage]:
    """A page at an address of this machine that nobody else can reach; the port is a free one."""
    page = LivePage()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(page)) as server:
        server.daemon_threads = True
        page.url = f"http://127.0.0.1:{server.server_port}/"
        thread = Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join()


def _handler(page: LivePage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "smelt", ""

        def do_GET(self) -> None:
            """Answer with the page."""
            # Another site's name may be made to point here: only the address itself is answered.
            if self.headers.get("Host", "") != page.url.removeprefix("http://").rstrip("/"):
                self.send_error(403)
            elif self.path != "/":
                self.send_error(404)
            else:
                text = page.take()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
