"""A tracker: knows which servers there are, and gives each to one program at a time.

with Tracker(port=9190) as tracker: ...          or python -m smelt.exec.rpc_tracker
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .server import Acceptor, Say, Serving, listen
from .wire import PATIENCE, Link, Message, RPCError, Security


@dataclass(eq=False)
class Request:
    """Somebody who waits for a server of a key.

    priority  who has a higher one comes first
    number    of those who have the same the smallest comes first
    """

    key: str
    priority: int
    number: int


R = TypeVar("R", bound=Request)
_R = TypeVar("_R", bound=Request, contravariant=True)


class Place(Protocol[_R]):
    """A server."""

    def take(self, request: _R) -> bool:
        """Give it to somebody; whether it is free, and what they want."""
        ...


def give_out(requests: list[R], places: Sequence[Place[R]]) -> None:
    """Give servers that are free to those who wait, who do not wait any more then."""
    for request in sorted(requests, key=lambda r: (-r.priority, r.number)):
        if any(place.take(request) for place in places):
            requests.remove(request)


@dataclass(eq=False)
class _Place:
    """A server that has told us of itself.

    match     what who is sent there has to say; "": it is not free
    given     the last one that somebody was told, and when
    """

    key: str
    address: str
    port: int
    about: dict[str, Any]
    match: str = ""
    given: str = ""
    given_at: float = 0.0

    def take(self, request: _Request) -> bool:
        """Give it to somebody; whether it is free, and what they want."""
        if not self.match or self.key != request.key:
            return False
        request.place = self.address, self.port, self.match
        self.given, self.given_at, self.match = self.match, time.monotonic(), ""
        request.given.set()
        return True


@dataclass(eq=False)
class _Request(Request):
    """The same, and what it is given."""

    given: threading.Event = field(default_factory=threading.Event)
    place: tuple[str, int, str] | None = None


class Tracker(Serving):
    """Matches servers and programs. Of those who wait, the highest priority is first, then the one
    who has waited longest."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9190,
        port_end: int = 9199,
        *,
        security: Security | None = None,
        say: Say = lambda text: None,
    ) -> None:
        """The arguments are those of Server. Raises RPCError where it cannot be there."""
        self.security = security or Security()
        self.security.check(host)
        self.host, self.say = host, say
        self._places: list[_Place] = []
        self._requests: list[_Request] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        end = listen(host, port, port_end)
        self.port = int(end.getsockname()[1])
        self._acceptor = Acceptor("tracker", end, self.security, self._met, say)

    # ---- who has called -----------------------------------------------------------------------

    def _met(self, link: Link, said: Message) -> None:
        own: list[_Place] = []
        try:
            while True:
                message, _ = link.receive(most_data=0)
                try:
                    made = self._answer(link, message, own)
                except (KeyError, TypeError, ValueError, OverflowError) as e:
                    made = {"error": f"a message that asks for nothing: {e!r}", "kind": "RPCError"}
                link.send(made)
        finally:
            with self._lock:
                for place in own:
                    self._places.remove(place)
                    self.say(f"{place.key} at {place.address}:{place.port} is gone")

    def _answer(self, link: Link, message: Message, own: list[_Place]) -> Message:
        match message.get("do"):
            case "put" | "busy":
                self._put(link, message, own)
                return {"value": None}
            case "here":
                self._seen(own, bool(message.get("busy")))
                return {"value": None}
            case "summary":
                with self._lock:
                    return {"value": self._summary()}
            case "request":
                return self._requested(link, message)
        return {"error": f"nobody knows how to do {message.get('do')!r}", "kind": "RPCError"}

    def _put(self, link: Link, message: Message, own: list[_Place]) -> None:
        """A server is there, and free if it says so."""
        address = str(message.get("address") or link.peer.rpartition(":")[0])
        with self._lock:
            if not own:
                key, port = str(message.get("key")), int(message.get("port") or 0)
                place = _Place(key, address, port, dict(message.get("about") or {}))
                own.append(place)
                self._places.append(place)
                self.say(f"{key} at {address}:{port} is there")
            own[0].match, own[0].given = str(message.get("match") or ""), ""
            give_out(self._requests, self._places)

    def _requested(self, link: Link, message: Message) -> Message:
        """Wait for a server; the one who waits is asked from time to time whether it still does."""
        key, priority = str(message.get("key")), int(message.get("priority") or 0)
        request = _Request(key, priority, next(self._numbers))
        with self._lock:
            self._requests.append(request)
            give_out(self._requests, self._places)
        try:
            while not request.given.wait(1.0) and not self._acceptor.stopped:
                link.send({"wait": True})
                link.receive(most_data=0)
        except RPCError:
            with self._lock:
                self._give_back(request)
            raise
        finally:
            with self._lock:
                if request in self._requests:
                    self._requests.remove(request)
        if request.place is None:
            return {"error": "the tracker has ended", "kind": "RPCError"}
        address, port, match = request.place
        return {"value": {"address": address, "port": port, "match": match}}

    def _seen(self, own: list[_Place], busy: bool) -> None:
        """A server that was given to somebody who has not come is free again."""
        with self._lock:
            for place in own:
                if busy:
                    place.given = ""
                elif place.given and time.monotonic() - place.given_at > PATIENCE:
                    place.match, place.given = place.given, ""
                    give_out(self._requests, self._places)

    def _give_back(self, request: _Request) -> None:
        """Who was given a server is gone: it is free again."""
        for place in self._places:
            if request.place is not None and place.given == request.place[2]:
                place.match, place.given = place.given, ""
        give_out(self._requests, self._places)

    def _summary(self) -> dict[str, Any]:
        keys = sorted({*[p.key for p in self._places], *[r.key for r in self._requests]})
        queue = {}
        for key in keys:
            places = [p for p in self._places if p.key == key]
            queue[key] = {"free": sum([bool(p.match) for p in places]), "total": len(places),
                          "pending": sum([r.key == key for r in self._requests])}  # fmt: skip
        servers = [{"key": p.key, "addr": [p.address, p.port], "free": bool(p.match), **p.about}
                   for p in self._places]  # fmt: skip
        return {"queue_info": queue, "server_info": servers}
