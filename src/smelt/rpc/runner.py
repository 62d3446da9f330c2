"""Candidates of tuning measured on other machines."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from contextlib import suppress

from smelt.runtime.errors import RuntimeFailure, SmeltError
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt, Outcome, Runner, judged
from smelt.search.timing import Protocol, Timed

from .client import RPCSession, open_session
from .wire import RPCError, Security

_MARGIN = 10.0
"""Seconds for what is not a candidate's time: sending it, starting the process."""


class RPCRunner(Runner):
    """Runs candidates on another machine, in the process of a session.

    A machine that is lost, and a candidate that crashes or hangs, cost that candidate; the next one
    is measured in another session. Both machines need the same version of smelt.
    """

    name = "rpc"

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        *,
        priority: int = 1,
        timeout: float = 10.0,
        cooldown: float = 0.0,
        security: Security | None = None,
        session: Callable[[], RPCSession] | None = None,
    ) -> None:
        """key        of the machines at a tracker; "": host and port are a server's

        timeout   seconds for one candidate, loading it included
        cooldown  seconds between candidates
        session   what gives sessions in place of these
        """
        self.key, self.host, self.port, self.priority = key, host, port, priority
        self.timeout, self.cooldown, self.security = timeout, cooldown, security
        self._session: RPCSession | None = None
        self._given = session

    def _opened(self) -> RPCSession:
        """A session; who waits for a machine waits here. Raises RPCError."""
        if self._given is not None:
            return self._given()
        return open_session(self.host, self.port, self.key, self.priority, self.security)

    def run(self, reference: Attempt, attempt: Attempt, protocol: Protocol) -> Outcome:
        """Time a candidate in turns with a reference. Raises RPCError where no machine is there."""
        assert attempt.built is not None
        if self._session is None:
            self._session = self._opened()
            self._session.value({"do": "ready"})  # to start is no candidate's time
        elif self.cooldown:
            time.sleep(self.cooldown)
        job = pickle.dumps((reference.built, attempt.built, protocol))
        limit = self.timeout + protocol.seconds
        try:
            self._session.wait(limit + _MARGIN)
            found = self._session.value({"do": "measure", "limit": limit}, [job])
        except RuntimeFailure as e:
            return Outcome(None, ErrorCode.RUNTIME, str(e).splitlines()[0])
        except SmeltError as e:
            self.close()
            slow = "does not answer" in str(e)
            return Outcome(None, ErrorCode.TIMEOUT if slow else ErrorCode.CRASH, str(e))
        ours, theirs, apart = found
        return judged(Timed(tuple(ours), tuple(theirs), apart), attempt.built)

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(RPCError):
                session.close()
