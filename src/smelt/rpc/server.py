"""A server: runs libraries for programs on other machines.

    with Server(port=9090) as server: ...          or python -m smelt.exec.rpc_server

Every session has a folder and a process of its own. A server that belongs to a tracker has one
session at a time, with whom the tracker has sent; one behind a proxy calls the proxy, and has one
session at a time with whom the proxy has.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from .about import describe
from .session import ServedSession
from .wire import PATIENCE, Link, Message, RPCError, Security, call, welcome

_AGAIN = 1.0
"""Seconds between two tries to reach a tracker or a proxy."""
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


class Connections:
    """A thread, and the connections that it is there for."""

    def __init__(self, run: Callable[[], None], say: Say) -> None:
        """run: what the thread does."""
        self.say = say
        self.links: set[Link] = set()
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    @property
    def stopped(self) -> bool:
        """Whether it has been stopped."""
        return self.over.is_set()

    @contextmanager
    def kept(self, link: Link) -> Iterator[Link]:
        """A connection that is closed in the end, or when all of them are."""
        with self.lock:
            self.links.add(link)
        try:
            if self.stopped:  # before it was known
                link.close()
            yield link
        finally:
            link.close()
            with self.lock:
                self.links.discard(link)

    def stop(self) -> None:
        """Close all of them; there are no new ones."""
        self.over.set()
        with self.lock:
            links = list(self.links)
        for link in links:
            link.close()


class Acceptor(Connections):
    """A thread that accepts connections, and one for each of them.

    Who does not say who they are soon, or not rightly, is sent away.
    """

    def __init__(
        self, role: str, end: socket.socket, security: Security,
        met: Callable[[Link, Message], None], say: Say,
    ) -> None:  # fmt: skip
        """met: called in a thread of its own for everybody who is known."""
        self.role, self.end, self.security, self.met = role, end, security, met
        super().__init__(self._accept, say)

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
        with self.kept(link):
            try:
                self.met(link, welcome(link, self.security, self.role))
            except (RPCError, OSError) as e:
                self.say(str(e))

    def stop(self) -> None:
        """Accept nobody any more, and send away who is there."""
        self.over.set()
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)
        self.end.close()
        super().stop()


class Caller(Connections):
    """A thread that calls a tracker or a proxy, and again whenever that connection has ended."""

    def __init__(
        self, place: tuple[str, int], role: str, security: Security, about: Message,
        met: Callable[[Link], None], say: Say,
    ) -> None:  # fmt: skip
        """about: what is said of ourselves; met: what is done with a connection."""
        self._call = partial(call, *place, role, security, about)
        self._met = met
        super().__init__(self._run, say)

    def _run(self) -> None:
        while not self.stopped:
            try:
                with self.kept(self._call()) as link:
                    self._met(link)
            except (RPCError, OSError) as e:
                if not self.stopped:
                    self.say(f"{e}; trying again")
                self.over.wait(_AGAIN)


class Offer(Caller):
    """Tells a tracker of a server, and each time that it is free, as long as it is there.

    busy  whether somebody has taken it
    """

    def __init__(
        self, tracker: tuple[str, int], place: Message, about: Callable[[], Message],
        security: Security, say: Say,
    ) -> None:  # fmt: skip
        """place: its key, its port, and its address or None; about: what it says of itself."""
        self._place, self._about = place, about
        self._match, self.busy = "", False
        self._free, self._lock = threading.Event(), threading.Lock()
        super().__init__(tracker, "tracker", security, {}, self._stay, say)

    def take(self, match: object) -> bool:
        """Whether this is what the tracker has told who comes now: it is theirs then."""
        with self._lock:
            if not self._match or match != self._match:
                return False
            self._match, self.busy = "", True
            self._free.clear()
            return True

    def give(self) -> None:
        """It is free again."""
        with self._lock:
            self.busy = False
            self._free.set()

    def stop(self) -> None:
        """The tracker forgets it."""
        super().stop()
        self._free.set()

    def _stay(self, link: Link) -> None:
        told = False
        with self._lock:
            if not self.busy:
                self._free.set()  # what an earlier tracker knew is forgotten
        while not self.stopped:
            with self._lock:
                free = self._free.is_set()
                message: Message = {"do": "here", "busy": self.busy}
                if free:
                    self._free.clear()
                    self._match = secrets.token_hex(16)
                    message = self._place | {"do": "put", "match": self._match}
                elif not told:
                    message = self._place | {"do": "busy"}
            if free or not told:
                message["about"] = self._about()
            told = True
            link.send(message)
            link.receive()
            self._free.wait(_AGAIN)


class Serving:
    """What servers, trackers and proxies have in common: they are there until they are terminated.

    port  where it is
    """

    port: int
    _acceptor: Acceptor | Caller

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
    is_proxy              it does not listen: host and port are a proxy's, which it calls
    key                   what it is called at a tracker or a proxy, e.g. "rpi4"
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
        is_proxy: bool = False,
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
        self._sessions: set[ServedSession] = set()
        self.port = port
        self._offer: Offer | None = None
        if is_proxy:
            if not key or tracker_addr or custom_addr:
                raise RPCError("a server behind a proxy has a key; the proxy may have a tracker")
            about = {"serves": key}
            self._acceptor = Caller((host, port), "proxy", self.security, about, self._behind, say)
            return
        end = listen(host, port, port_end)
        self.port = int(end.getsockname()[1])
        if tracker_addr is not None:
            place = {"key": key, "port": self.port, "address": custom_addr}
            self._offer = Offer(tracker_addr, place, describe, self.security, say)
        self._acceptor = Acceptor("server", end, self.security, self._met, say)

    def terminate(self) -> None:
        """End it, and all of its sessions."""
        super().terminate()
        if self._offer is not None:
            self._offer.stop()
        for session in list(self._sessions):
            session.close()

    # ---- sessions -----------------------------------------------------------------------------

    def _met(self, link: Link, said: Message) -> None:
        if self._offer is None:
            self._serve(link, said.get("limit"))
        elif self._offer.take(said.get("match")):
            try:
                self._serve(link, said.get("limit"))
            finally:
                self._offer.give()
        else:
            link.send({"error": "this server is the tracker's to give: ask the tracker for it"})

    def _behind(self, link: Link) -> None:
        """Wait at a proxy, which asks from time to time whether we still do; then a session."""
        link.end.settimeout(PATIENCE)
        link.send({"about": describe()})
        asked: Message = {}
        while "serve" not in asked:
            asked, _ = link.receive(most_data=0)
            link.send({"do": "here"})
        link.end.settimeout(None)
        self._serve(link, asked["serve"])

    def _serve(self, link: Link, limit: Any) -> None:
        """A session, of so many seconds at most; 0 or None: of any length."""
        try:
            seconds, session = float(limit or 0), ServedSession(link, self._library)
        except (TypeError, ValueError, OSError) as e:
            link.send({"error": f"no session can be begun: {e}"})
            return
        self._sessions.add(session)
        self.say(f"{link.peer}: a session")
        ending = threading.Timer(seconds, self._overrun, (link, session))
        ending.daemon = True
        if seconds > 0:
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
