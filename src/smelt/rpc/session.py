"""A session of a server: files in a folder of its own, and a process in which libraries run."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from smelt.runtime.errors import SmeltError

from .wire import Link, Message, RPCError

_ENDS = 5.0
"""Seconds that a process has to end by itself."""


class _Gone(Exception):
    """Who has asked is not there any more."""


def _wait(answer: Link, asker: Link, limit: float) -> None:
    """Return when an answer begins. Raises TimeoutError after so many seconds (0: never), and
    _Gone: who waits for an answer says nothing, but for its end."""
    poll = select.poll()
    for link in (answer, asker):
        poll.register(link.end, select.POLLIN)
    ready = [number for number, _ in poll.poll(limit * 1000 if limit else None)]
    if not ready:
        raise TimeoutError
    if answer.end.fileno() not in ready:
        raise _Gone


class SessionProcess:
    """The process of a session. It is started when it is needed first, and again after a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Link | None = None

    @property
    def runs(self) -> bool:
        """Whether it is there."""
        return self._link is not None

    def ask(self, message: Message, data: bytearray, asker: Link) -> tuple[Message, bytearray]:
        """What the process answers. Raises RPCError where it has ended, takes longer than the
        message's limit, or who has asked is gone meanwhile: the process is ended then."""
        link, limit = self._link or self._started(), float(message.get("limit") or 0)
        try:
            link.send(message, [data])
            _wait(link, asker, limit)
            return link.receive()
        except TimeoutError:
            self.end()
            raise RPCError(f"the candidate does not answer after {limit:g} s") from None
        except _Gone:
            self.end()
            raise RPCError(f"{asker.peer} has gone") from None
        except RPCError:
            how = self._ended()
            raise RPCError(
                f"the process of this session {how}; what was loaded in it is gone, the next load "
                "starts another one"
            ) from None

    def _started(self) -> Link:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "smelt.rpc.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                [*command, str(self.folder), str(os.getpid())], pass_fds=(theirs.fileno(),),
                cwd=self.folder, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._link = Link(ours, "the process of this session")
        return self._link

    def _ended(self) -> str:
        """How it ended, which it has or does now."""
        process, self._process, link, self._link = self._process, None, self._link, None
        if link is not None:
            link.close()
        if process is None:
            return "was ended"
        try:
            code = process.wait(_ENDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def end(self) -> None:
        """End it, whatever it does."""
        if self._process is not None:
            self._process.kill()
        self._ended()


class ServedSession:
    """What a server does for somebody who has called.

    limit  seconds after which the session ends; 0: none
    """

    def __init__(self, link: Link, load: Path | None = None) -> None:
        """load: a library that lies in the folder from the start."""
        self.link = link
        self.folder = Path(tempfile.mkdtemp(prefix="smelt-rpc-"))
        self.process = SessionProcess(self.folder)
        if load is not None:
            shutil.copy(load, self.folder / load.name)

    def serve(self) -> None:
        """Answer until the other side is gone."""
        try:
            while True:
                message, data = self.link.receive()
                if message.get("do") == "end":
                    return
                try:
                    made, more = self._answer(message, data)
                except SmeltError as e:
                    made, more = {"error": str(e), "kind": type(e).__name__}, bytearray()
                except OSError as e:
                    made, more = {"error": f"{e.strerror}", "kind": "RPCError"}, bytearray()
                except (KeyError, TypeError, ValueError, OverflowError) as e:
                    said = f"a message that asks for nothing: {e!r}"
                    made, more = {"error": said, "kind": "RPCError"}, bytearray()
                self.link.send(made, [more])
        except RPCError:
            return  # gone, or ended by the server
        finally:
            self.close()

    def close(self) -> None:
        """Free all of it."""
        self.link.close()
        self.process.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answer(self, message: Message, data: bytearray) -> tuple[Message, bytearray]:
        match message.get("do"):
            case "upload":
                path = self._path(message)
                if not message.get("more"):  # who has mapped the old file keeps that
                    path.unlink(missing_ok=True)
                with open(path, "ab") as file:
                    file.write(data)
                return {"value": None}, bytearray()
            case "download":
                return self._piece(message)
            case "remove":
                self._path(message).unlink(missing_ok=True)
                return {"value": None}, bytearray()
            case "list":
                return {"value": sorted(f.name for f in self.folder.iterdir())}, bytearray()
            case "forget" if not self.process.runs:
                return {"value": None}, bytearray()
        return self.process.ask(message, data, self.link)

    def _piece(self, message: Message) -> tuple[Message, bytearray]:
        with open(self._path(message), "rb") as file:
            file.seek(int(message["start"]))
            piece = bytearray(file.read(int(message["count"])))
            return {"value": os.fstat(file.fileno()).st_size}, piece

    def _path(self, message: Message) -> Path:
        """A file of this session. Raises RPCError for a name that leads elsewhere."""
        name = str(message.get("path"))
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise RPCError(
                f"{name!r} is no name of a file; sessions have one folder without others"
            )
        return self.folder / name
