"""A proxy: servers that nobody can reach call it and wait there for programs, which call it, too.

with Proxy(port=9090) as proxy: ...          or python -m smelt.exec.rpc_proxy

What a server and a program say to each other is passed on as it comes. Each session is a connection
of the server's own: when it has ended, the server calls again.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from select import POLLIN, POLLOUT, poll
from typing import Any

from .server import Acceptor, Offer, Say, Serving, listen
from .tracker import Request, give_out
from .wire import PATIENCE, Link, Message, Security

_LOOKS = 0.5
"""Seconds between two looks at whether those who wait are still there."""
_PIECE = 1 << 20
"""Bytes that are on their way in a direction at most."""


@dataclass(eq=False)
class _Program(Request):
    """A program that waits for a server.

    limit  of its session, as it has said it
    since  when there was a server of its key
    over   set when its session has ended
    """

    link: Link
    limit: Any
    since: float = field(default_factory=time.monotonic)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class _Place:
    """A server that waits for a program, or has one."""

    key: str
    offer: Offer | None
    taken: threading.Event = field(default_factory=threading.Event)
    program: _Program | None = None

    def take(self, request: _Program) -> bool:
        """Give it to somebody; whether it is free, and what they want."""
        if self.program is not None:
            return False
        if not (self.offer.take(request.key) if self.offer else request.key == self.key):
            return False
        self.program = request
        self.taken.set()
        return True


class Proxy(Serving):
    """Passes on what programs and servers say that cannot reach each other."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9090,
        port_end: int = 9199,
        *,
        timeout: float = 10.0,
        tracker_addr: tuple[str, int] | None = None,
        custom_addr: str | None = None,
        security: Security | None = None,
        say: Say = lambda text: None,
    ) -> None:
        """The arguments are those of Server, but for two. Raises RPCError where it cannot be there.

        timeout       seconds that a program waits where there is no server of its key
        tracker_addr  a tracker's (host, port): it gives the servers that are here
        """
        self.security = security or Security()
        self.security.check(host)
        self.host, self.say, self._timeout = host, say, timeout
        self._tracker, self._address = tracker_addr, custom_addr
        self._places: list[_Place] = []
        self._programs: list[_Program] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        end = listen(host, port, port_end)
        self.port = int(end.getsockname()[1])
        self._acceptor = Acceptor("proxy", end, self.security, self._met, say)

    def _met(self, link: Link, said: Message) -> None:
        try:
            if "serves" in said:
                link.end.settimeout(PATIENCE)
                about = dict(link.receive(most_data=0)[0].get("about") or {})
                self._serves(link, self._placed(str(said["serves"]), about))
            else:
                key, priority = str(said.get("match")), int(said.get("priority") or 0)
                number = next(self._numbers)
                self._asks(_Program(key, priority, number, link, said.get("limit")))
        except (TypeError, ValueError, OverflowError) as e:
            link.send({"error": f"a message that asks for nothing: {e!r}"})

    def _placed(self, key: str, about: Message) -> _Place:
        offer = None
        if self._tracker is not None:
            place = {"key": key, "port": self.port, "address": self._address}
            offer = Offer(self._tracker, place, lambda: about, self.security, self.say)
        return _Place(key, offer)

    # ---- servers ------------------------------------------------------------------------------

    def _serves(self, link: Link, place: _Place) -> None:
        """Let a server wait for a program, which is asked from time to time whether it still does;
        then pass on what they say. A program that it is gone for waits for another one."""
        self.say(f"{place.key} at {link.peer} is there")
        with self._lock:
            self._places.append(place)
            give_out(self._programs, self._places)
        try:
            while place.program is None:
                _here(link, {"wait": True})
                place.taken.wait(_LOOKS)
            _here(link, {"serve": place.program.limit})
            self.say(f"{place.program.link.peer}: a session of {place.key} at {link.peer}")
            pass_on(link.end, place.program.link.end)
            place.program.over.set()
        finally:
            with self._lock:
                self._places.remove(place)
                if place.program is not None and not place.program.over.is_set():
                    self._programs.append(place.program)
                    give_out(self._programs, self._places)
            if place.offer is not None:
                place.offer.stop()
            self.say(f"{place.key} at {link.peer} is gone")

    # ---- programs -----------------------------------------------------------------------------

    def _asks(self, program: _Program) -> None:
        """Let a program wait for a server, and for the end of its session."""
        with self._lock:
            self._programs.append(program)
            give_out(self._programs, self._places)
        while not program.over.is_set():
            with self._lock:
                error = self._refused(program)
                if error:
                    self._programs.remove(program)
            if error:
                program.link.send({"error": error})
                return
            program.over.wait(_LOOKS)

    def _refused(self, program: _Program) -> str:
        """Why a program need not wait any more; "": it has to, or it has a server."""
        if program not in self._programs:
            return ""
        if _speaks(program.link):
            return "who has asked for a server does not wait for it"
        if self._tracker is not None:
            return "this server is the tracker's to give: ask the tracker for it"
        keys = sorted({place.key for place in self._places})
        if program.key in keys:
            program.since = time.monotonic()
        elif time.monotonic() - program.since >= self._timeout:
            known = ", ".join(keys) or "none"
            return f"no server {program.key!r} has come in {self._timeout:g} s; keys: {known}"
        return ""


def _here(link: Link, message: Message) -> None:
    """Say something to a server that waits. Raises RPCError where it does not answer."""
    link.send(message)
    link.receive(most_data=0)


def _speaks(link: Link) -> bool:
    """Whether something comes from a program, or its end. Who waits for a server says nothing."""
    look = poll()
    try:
        look.register(link.end, POLLIN)
    except ValueError:  # closed
        return True
    return bool(look.poll(0))


class _Way:
    """Bytes on their way from one end to another, neither of which blocks."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source, self._sink = source, sink
        self._memory = memoryview(bytearray(_PIECE))
        self._held = self._memory[:0]

    def move(self) -> tuple[socket.socket, int]:
        """Move what can be moved now; which end to wait for, and what poll calls that.

        Raises OSError, and EOFError behind the last byte.
        """
        while True:
            end, event = (self._sink, POLLOUT) if self._held else (self._source, POLLIN)
            try:
                if self._held:
                    self._held = self._held[end.send(self._held) :]
                elif count := end.recv_into(self._memory):
                    self._held = self._memory[:count]
                else:
                    raise EOFError
            except BlockingIOError:
                return end, event
            except ssl.SSLWantReadError:
                return end, POLLIN
            except ssl.SSLWantWriteError:
                return end, POLLOUT


def pass_on(one: socket.socket, other: socket.socket) -> None:
    """Pass on what comes from either end to the other one, until one is gone.

    This is one thread: two would use the same TLS connection at a time.
    """
    with suppress(OSError, EOFError, ValueError):  # ValueError: it was closed meanwhile
        one.setblocking(False)
        other.setblocking(False)
        ways = _Way(one, other), _Way(other, one)
        while True:
            wanted = [way.move() for way in ways]
            look = poll()
            for end in {end for end, _ in wanted}:  # of the other one poll would tell its end
                look.register(end, sum({event for waits, event in wanted if waits is end}))
            look.poll()
