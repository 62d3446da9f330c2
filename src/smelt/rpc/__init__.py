"""Other machines: servers that run libraries, a tracker that knows them, a proxy to reach them."""

from .client import LocalSession, PopenSession, RPCSession, TrackerSession, connect, connect_tracker
from .proxy import Proxy
from .runner import RPCRunner
from .server import Server
from .tracker import Tracker
from .wire import RPCError, RPCSessionTimeoutError, Security

__all__ = [
    "LocalSession",
    "PopenSession",
    "Proxy",
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
