"""A server: runs libraries for programs on other machines.

    with Server(port=9090) as server: ...          or python -m smelt.exec.rpc_server

Every session has a folder and a process of its own. A server that belongs to a tracker has one
session at a time, with whom the tracker has sent.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from .about import describe
from .session import ServedSession
from .wire import PATIENCE, Link, Message, RPCError, Security, call, welcome

_AGAIN = 1.0
"""Seconds between two tries to reach a tracker."""
_WAITING = 64
"""Connections that wait to be accepted."""

Say = Callable[[str], object]


def listen(host: str, port: int, port_end: int) -> socket.socket:
    """A socket at the first free port. Raises RPCError where there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    error: OSError | None = None
    for tried in range(port, max(port, port_end) + 1):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, tried))
            made.listen(_WAITING)
        except OSError as e:
            made.close()
            error = e
        else:
            return made
    why = error.strerror if error is not None else "none was given"
    raise RPCError(f"no port of {host} from {port} to {port_end} can be listened at: {why}")


class Acceptor:
    """A thread that accepts connections, and one for each of them.

    Who does not say who they are soon, or not rightly, is sent away.
    """

    def __init__(
        self, role: str, end: socket.socket, security: Security,
        met: Callable[[Link, Message], None], say: Say,
    ) -> None:  # fmt: skip
        """met: called in a thread of its own for everybody who is known."""
        self.role, self.end, self.security, self.met, self.say = role, end, security, met, say
        self.links: set[Link] = set()
        self.lock = threading.Lock()
        self.stopped = False
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while not self.stopped:
            try:
                accepted, address = self.end.accept()
            except OSError:
                return
            threading.Thread(target=self._meet, args=(accepted, address), daemon=True).start()

    def _meet(self, accepted: socket.socket, address: tuple[str, int]) -> None:
        accepted.settimeout(PATIENCE)
        try:
            link = Link(self.security.served(accepted), f"{address[0]}:{address[1]}")
        except OSError as e:
            self.say(f"{address[0]}: {e}")
            accepted.close()
            return
        with self.lock:
            self.links.add(link)
        try:
            self.met(link, welcome(link, self.security, self.role))
        except RPCError as e:
            self.say(str(e))
        finally:
            link.close()
            with self.lock:
                self.links.discard(link)

    def stop(self) -> None:
        """Accept nobody any more, and send away who is there."""
        self.stopped = True
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)
        self.end.close()
        with self.lock:
            links = list(self.links)
        for link in links:
            link.close()


class Serving:
    """What a server and a tracker have in common: they are there until they are terminated."""

    _acceptor: Acceptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.terminate()

    def terminate(self) -> None:
        """End it."""
        self._acceptor.stop()

    def wait(self) -> None:
        """Return when it has ended."""
        self._acceptor.thread.join()


class Server(Serving):
    """Runs libraries that it is sent.

    host, port, port_end  where it listens: at the first free port of these
    key                   what it is called at a tracker, e.g. "rpi4"
    tracker_addr          a tracker's (host, port): it has one session at a time then
    security              the token, TLS
    custom_addr           the address that the tracker tells of it, where it is another one
    load_library          a file that every session finds in its folder
    say                   what messages are given to
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        *,
        key: str = "",
        tracker_addr: tuple[str, int] | None = None,
        security: Security | None = None,
        custom_addr: str | None = None,
        load_library: str | None = None,
        say: Say = lambda text: None,
    ) -> None:
        """Raises RPCError where it cannot be there."""
        self.security = security or Security()
        self.security.check(host)
        self.host, self.key, self.say = host, key, say
        self._library = None if load_library is None else Path(load_library)
        if self._library is not None and not self._library.is_file():
            raise RPCError(f"load_library: there is no file {load_library}")
        self._tracker, self._address = tracker_addr, custom_addr
        self._match, self._free = "", threading.Event()
        self._sessions: set[ServedSession] = set()
        end = listen(host, port, port_end)
        self.port = int(end.getsockname()[1])
        self._acceptor = Acceptor("server", end, self.security, self._met, say)
        if tracker_addr is not None:
            self._free.set()
            threading.Thread(target=self._register, daemon=True).start()

    def terminate(self) -> None:
        """End it, and all of its sessions."""
        super().terminate()
        self._free.set()
        for session in list(self._sessions):
            session.close()

    # ---- sessions -----------------------------------------------------------------------------

    def _met(self, link: Link, said: Message) -> None:
        if self._tracker is not None:
            match, self._match = self._match, ""
            if not match or said.get("match") != match:
                self._match = match
                link.send({"error": "this server is the tracker's to give: ask the tracker for it"})
                return
        try:
            self._serve(link, float(said.get("limit") or 0))
        except (TypeError, ValueError, OSError) as e:
            link.send({"error": f"no session can be begun: {e}"})
        finally:
            self._free.set()

    def _serve(self, link: Link, limit: float) -> None:
        """A session, of so many seconds at most."""
        session = ServedSession(link, self._library)
        self._sessions.add(session)
        self.say(f"{link.peer}: a session")
        ending = threading.Timer(limit, self._overrun, (link, session))
        ending.daemon = True
        if limit > 0:
            ending.start()
        try:
            link.send({"value": describe()})
            session.serve()
        finally:
            ending.cancel()
            session.close()
            self._sessions.discard(session)
            self.say(f"{link.peer}: the session has ended")

    def _overrun(self, link: Link, session: ServedSession) -> None:
        with suppress(RPCError):
            link.send({"error": "the session took longer than it was given",
                       "kind": "RPCSessionTimeoutError"})  # fmt: skip
        session.close()

    # ---- the tracker --------------------------------------------------------------------------

    def _register(self) -> None:
        """Keep a connection with the tracker, and tell it each time that the server is free."""
        assert self._tracker is not None
        while not self._acceptor.stopped:
            try:
                with_tracker = call(*self._tracker, "tracker", self.security)
            except RPCError as e:
                self.say(f"{e}; trying again")
                time.sleep(_AGAIN)
                continue
            try:
                self._stay(with_tracker)
            except RPCError as e:
                self.say(f"{e}; trying again")
                time.sleep(_AGAIN)
            finally:
                with_tracker.close()

    def _stay(self, link: Link) -> None:
        told = False
        if not self._sessions:
            self._free.set()  # what an earlier tracker knew is forgotten
        while not self._acceptor.stopped:
            if self._free.is_set() and not self._sessions:
                self._free.clear()
                self._match = secrets.token_hex(16)
                told = True
                link.send({"do": "put", "key": self.key, "port": self.port, "match": self._match,
                           "address": self._address, "about": describe()})  # fmt: skip
            elif not told:
                link.send({"do": "busy", "key": self.key, "port": self.port, "about": describe()})
                told = True
            else:
                link.send({"do": "here", "busy": bool(self._sessions)})
            link.receive()
            self._free.wait(_AGAIN)
