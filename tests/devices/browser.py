"""Pages in a headless Chromium: a server gives it files, and takes what the page says by POST."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 240
"""Seconds for a browser to start and a page to answer, on a machine that others use, too."""
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Embedder-Policy": "require-corp"}  # fmt: skip
"""What a server sends to pages that may share memory."""


def need_browser() -> str:
    """The command of a browser; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("chromium is missing: make setup-edge")
    return found


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; a POST is what the page says."""

    def __init__(self, *given: Any, headers: dict[str, str], said: queue.Queue[Any], **more: Any):
        """Keep what it sends beside the files, and where it puts what pages say."""
        self.more_headers, self.said = headers, said
        super().__init__(*given, **more)

    def do_POST(self) -> None:
        """Take what the page says."""
        self.said.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def end_headers(self) -> None:
        """The headers, with ours."""
        for name, value in self.more_headers.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def _server(folder: Path, headers: dict[str, str]) -> Iterator[tuple[int, queue.Queue[Any]]]:
    """A server's port, and what pages say to it."""
    said: queue.Queue[Any] = queue.Queue()
    handler = functools.partial(_Handler, directory=str(folder), headers=headers, said=said)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, said
        finally:
            server.shutdown()
            thread.join()


def visit(page: Path, profile: Path, *, isolated: bool = False) -> Any:
    """What a page says, which it sends by POST to /said as JSON.

    page      its file, beside all that it loads
    profile   a folder of the browser's own, not beside it
    isolated  whether it may share memory
    """
    command = need_browser()
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={profile}", *root]  # fmt: skip
    profile.mkdir(exist_ok=True)
    with (
        _server(page.parent, ISOLATED if isolated else {}) as (port, said),
        open(profile / "said.txt", "wb") as log,
        _ended(subprocess.Popen(
            [command, *flags, f"http://127.0.0.1:{port}/{page.name}"], stdout=log, stderr=log,
            start_new_session=True,
        )) as browser,
    ):  # fmt: skip
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                return said.get(timeout=1)
            if browser.poll() is not None:
                break
        log.flush()
        text = (profile / "said.txt").read_text(errors="replace")[-4000:]
        raise AssertionError(f"{page.name} said nothing (exit code {browser.poll()}):\n{text}")


@contextlib.contextmanager
def _ended(browser: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A browser, which ends with its processes: they are a group of their own."""
    try:
        yield browser
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
