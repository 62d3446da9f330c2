"""Candidates of tuning measured on other machines."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from queue import LifoQueue
from threading import Lock
from typing import Any

import numpy as np

from smelt.runtime.errors import ExportError, RuntimeFailure, SmeltError
from smelt.runtime.executable import Executable
from smelt.runtime.linking import link_kernel
from smelt.search.build import BuiltCandidate
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt, Outcome, Runner, judged
from smelt.search.timer import Place, Timer
from smelt.search.timing import Protocol

from .client import RPCSession, connect_tracker, open_session
from .executable import send
from .wire import Message, RPCError, Security

_MARGIN = 10.0
"""Seconds for what is not a candidate's time: sending it, starting the process."""
_START = 120.0
_AGAIN = 3.0
"""Seconds in which a machine that was lost may be there again."""


class There:
    """A machine of `search.timer`: the process of a session.

    left  seconds that it may still take; who asks for more is told that it does not answer
    """

    def __init__(self, session: RPCSession) -> None:
        """For RPCRunner."""
        self.session, self.left = session, 0.0

    def _asked(self, message: Message, data: Sequence[Any] = ()) -> Any:
        start = time.monotonic()
        found = self.session.value({**message, "limit": max(self.left, 0.001)}, [*data])
        self.left -= time.monotonic() - start
        return found

    def memory(self, size: int) -> Any:
        """See Machine."""
        return self._asked({"do": "array", "dtype": "uint8", "shape": [size]})

    def fill(self, memory: Any, pattern: Any) -> None:
        """See Machine."""
        self._asked({"do": "fill", "array": memory.handle}, [pattern.data])

    def read(self, memory: Any) -> Any:
        """See Machine."""
        return np.asarray(memory.numpy())

    def load(self, code: bytes, built: BuiltCandidate) -> Any:
        """See Machine. Raises ExportError where nothing here links for it."""
        library = link_kernel(code, built.triple)
        return self._asked({"do": "kernel", "features": list(built.features)}, [library])

    def time(
        self, entry: Any, places: Sequence[Place], sizes: Sequence[int], turn: int, calls: int,
        threads: int,
    ) -> float:  # fmt: skip
        """See Machine."""
        operands = [[p.memory.handle, p.bytes, p.stride, p.copies, p.touched] for p in places]
        message = {"do": "time", "kernel": entry.handle, "operands": operands,
                   "sizes": list(sizes), "turn": turn, "calls": calls,
                   "threads": threads}  # fmt: skip
        return float(self._asked(message))


class _Slot:
    """A machine at a time: a session, and what was measured there last."""

    def __init__(self, session: RPCSession) -> None:
        self.session, self.there = session, There(session)
        self.timer = Timer(self.there)
        self.there.left = _START
        self.there.memory(0)  # to start its process is no candidate's time


class RPCRunner(Runner):
    """Runs candidates on other machines, in the processes of sessions.

    A machine that is lost, and a candidate that crashes or hangs, cost that candidate; the next one
    is measured in another session. The machines need a server, in Python or in C; candidates are
    linked here.
    """

    whole = True

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        *,
        priority: int = 1,
        timeout: float = 10.0,
        cooldown: float = 0.0,
        parallel: int = 1,
        security: Security | None = None,
        session: Callable[[], RPCSession] | None = None,
    ) -> None:
        """key        of the machines at a tracker; "": host and port are a server's

        timeout   seconds for one candidate, loading it included
        cooldown  seconds between candidates of a machine
        parallel  machines of the key that measure at a time: fewer where there are not so many,
                  which a warning says
        session   what gives sessions in place of these
        """
        if parallel < 1 or (parallel > 1 and not (key or session)):
            raise RPCError(
                f"RPCRunner: parallel={parallel}; legal: 1, or more of a key at a tracker"
            )
        self.key, self.host, self.port, self.priority = key, host, port, priority
        self.timeout, self.cooldown, self.security = timeout, cooldown, security
        self.parallel = parallel
        self._given, self._lock = session, Lock()
        self._slots = LifoQueue[_Slot | None]()
        for _ in range(parallel):
            self._slots.put(None)

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """Time a candidate in turns with a reference. Several threads may ask at a time.

        Raises RPCError where no machine is there, ExportError where nothing here links for it.
        """
        slot = self._slot()
        try:
            found = self._measured(slot, reference, attempt, protocol)
        except BaseException:
            self._end(slot)
            self._slots.put(None)
            raise
        if found.error in (ErrorCode.TIMEOUT, ErrorCode.CRASH):
            self._end(slot)
            self._slots.put(None)
        else:
            self._slots.put(slot)
        return found

    def _measured(
        self, slot: _Slot, reference: Attempt, attempt: Attempt, protocol: Protocol
    ) -> Outcome:
        assert reference.built is not None
        assert attempt.built is not None
        slot.there.left = self.timeout + protocol.seconds
        slot.session.wait(slot.there.left + _MARGIN)
        try:
            timed = slot.timer.time(reference.built, attempt.built, protocol)
        except RuntimeFailure as e:
            return Outcome(None, ErrorCode.RUNTIME, str(e).splitlines()[0])
        except ExportError:
            raise
        except SmeltError as e:
            slow = "does not answer" in str(e)
            return Outcome(None, ErrorCode.TIMEOUT if slow else ErrorCode.CRASH, str(e))
        return judged(timed, attempt.built)

    @contextmanager
    def models(self) -> Iterator[Callable[[Any], Executable]]:
        """Whole models in a session of one machine. Raises RPCError."""
        self.close()  # it may be the only one of its key
        numbers = count()
        with self._opened() as session:
            yield lambda artifact: send(session, artifact, f"model{next(numbers)}.so")

    # ---- the machines -------------------------------------------------------------------------

    def _slot(self) -> _Slot:
        """A machine; who waits for one waits here."""
        while True:
            slot = self._slots.get()
            if slot is not None:
                time.sleep(self.cooldown)
                return slot
            if self._is_there():
                try:
                    return _Slot(self._opened())
                except BaseException:
                    self._slots.put(None)
                    raise
            warnings.warn(
                f"there is no further machine {self.key!r}: {self.parallel} measure at a time",
                stacklevel=2,
            )

    def _is_there(self) -> bool:
        """Whether another machine is free, or will be: the only one is waited for. If not, one
        less is counted on."""
        end = time.monotonic() + _AGAIN
        while self.key and self._given is None and self.parallel > 1:
            queue = self._queue()
            if queue["free"]:
                return True
            if time.monotonic() > end:
                with self._lock:
                    if self.parallel > 1:
                        self.parallel -= 1
                        return False
            time.sleep(0.1)
        return True

    def _queue(self) -> dict[str, int]:
        """What the tracker says of the machines of the key."""
        tracker = connect_tracker(self.host, self.port, security=self.security)
        try:
            found = tracker.summary()["queue_info"].get(self.key)
        finally:
            tracker.close()
        return {"total": 0, "free": 0, "pending": 0} if found is None else dict(found)

    def _opened(self) -> RPCSession:
        """A session. Raises RPCError."""
        if self._given is not None:
            return self._given()
        return open_session(self.host, self.port, self.key, self.priority, self.security)

    def _end(self, slot: _Slot) -> None:
        with suppress(RPCError):
            slot.session.close()

    def close(self) -> None:
        """End the sessions."""
        for _ in range(self._slots.qsize()):
            slot = self._slots.get()
            if slot is not None:
                self._end(slot)
            self._slots.put(None)
