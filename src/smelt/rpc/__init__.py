"""Other machines: servers that run libraries, and a tracker that knows them."""

from .client import LocalSession, PopenSession, RPCSession, TrackerSession, connect, connect_tracker
from .runner import RPCRunner
from .server import Server
from .tracker import Tracker
from .wire import RPCError, RPCSessionTimeoutError, Security

__all__ = [
    "LocalSession",
    "PopenSession",
    "RPCError",
    "RPCRunner",
    "RPCSession",
    "RPCSessionTimeoutError",
    "Security",
    "Server",
    "Tracker",
    "TrackerSession",
    "connect",
    "connect_tracker",
]
