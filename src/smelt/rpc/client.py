"""Sessions on other machines: `connect`, and `connect_tracker` to be given one.

remote = rpc.connect("192.168.0.7", 9090)
remote.upload("model.tar")
lib = remote.load_module("model.tar")
module = graph_executor.GraphModule(lib["default"](remote.cpu(0)))
"""

from __future__ import annotations

import io
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np

from smelt.ir.closing import Closing
from smelt.runtime import Device, array, empty
from smelt.runtime.device import device
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import ExportError, InputError, LoadError, RuntimeFailure, system_errors
from smelt.runtime.ndarray import wrapped
from smelt.runtime.remote import RemoteDevice, RemoteLibrary

from .about import describe
from .session import ServedSession
from .values import Decoder, Encoder
from .wire import Link, Message, RPCError, RPCSessionTimeoutError, Security, call

T = TypeVar("T")
_KINDS: dict[str, type[Exception]] = {
    c.__name__: c
    for c in (ExportError, InputError, LoadError, RPCSessionTimeoutError, RuntimeFailure)
}
_PIECE = 8 << 20
_NAMES = {"__call__", "__getitem__", "__str__"}


def security_of_environment() -> Security:
    """SMELT_RPC_TOKEN is the token, SMELT_RPC_CA a file with certificates to trust (TLS)."""
    return Security(
        os.environ.get("SMELT_RPC_TOKEN", ""), None, os.environ.get("SMELT_RPC_CA") or None
    )


class RPCSession(Closing):
    """A session on another machine. One thread at a time may use it.

    about  what the machine says of itself
    """

    def __init__(self, link: Link) -> None:
        """For connect."""
        self._link, self._lock = link, threading.Lock()
        self._forgotten: list[int] = []
        made, _ = self._answer(*link.receive())
        self.about: Mapping[str, Any] = made["value"]

    # ---- files --------------------------------------------------------------------------------

    def upload(
        self, data: bytes | bytearray | str | os.PathLike[str], target: str | None = None
    ) -> str:
        """Send a file, or bytes with a name; gives the name."""
        if isinstance(data, bytes | bytearray):
            if not target:
                raise RPCError("upload: bytes need a name: upload(data, target='model.so')")
            self._upload(io.BytesIO(data), target)
            return target
        path, target = Path(data), target or Path(data).name
        with system_errors(RPCError, f"upload: {path}"), open(path, "rb") as file:
            self._upload(file, target)
        return target

    def _upload(self, file: BinaryIO, target: str) -> None:
        """Send what a file holds, in pieces; an empty one is one, too."""
        piece, more = file.read(_PIECE), False
        while piece or not more:
            self._ask({"do": "upload", "path": target, "more": more}, [piece])
            piece, more = file.read(_PIECE), True

    def download(self, path: str) -> bytearray:
        """The bytes of a file."""
        found = bytearray()
        while True:
            message = {"do": "download", "path": path, "start": len(found), "count": _PIECE}
            made, piece = self._ask(message)
            found += piece
            if not piece or len(found) >= made["value"]:
                return found

    def remove(self, path: str) -> None:
        """Delete a file."""
        self._ask({"do": "remove", "path": path})

    def listdir(self, path: str = "") -> list[str]:
        """The names of the session's files, which are in one folder."""
        return list(self._ask({"do": "list"})[0]["value"])

    # ---- libraries ----------------------------------------------------------------------------

    def load_module(self, path: str) -> RemoteObject:
        """A library that was uploaded, ready to be used there."""
        found = self.value({"do": "load", "path": path})
        assert isinstance(found, RemoteObject)
        return found

    def get_function(self, name: str) -> Any:
        """Refused: a session has files and libraries."""
        raise RPCError(
            f"get_function({name!r}): a session has no functions of its own; load_module gives a "
            "library, whose functions are library[name]"
        )

    def system_lib(self) -> Any:
        """Refused: see `get_function`."""
        raise RPCError("system_lib: servers hold no library of their own; upload one")

    def device(self, dev_type: str, dev_id: int = 0) -> RPCDevice:
        """A device of the machine. Arrays that are made on it stay there."""
        named = device(dev_type, dev_id)
        return RPCDevice(named.kind, named.index, self)

    def cpu(self, dev_id: int = 0) -> RPCDevice:
        """The machine's CPU."""
        return self.device("cpu", dev_id)

    # ---- asking -------------------------------------------------------------------------------

    def wait(self, seconds: float | None) -> None:
        """How long answers are waited for from now on; None: for ever. After that, an RPCError."""
        self._link.end.settimeout(seconds)

    def value(self, message: Message, data: list[Any] | None = None) -> Any:
        """The value that is the answer to a message. Raises what is the answer, too."""
        made, found = self._ask(message, data or [])
        return Decoder(found, self._object).decode(made["value"])

    def call(self, number: int, name: str, args: tuple[Any, ...], named: Mapping[str, Any],
             writes: bool) -> Any:  # fmt: skip
        """Call a method of an object there. writes: it may change arrays that it is given."""
        encoder = Encoder(_handle)
        message = {"do": "call", "object": _numbered(number), "name": name,
                   "args": [encoder.encode(a) for a in args], "writes": writes,
                   "named": encoder.encode(dict(named))}  # fmt: skip
        made, found = self._ask(message, encoder.data)
        decoder = Decoder(found, self._object)
        result = decoder.decode(made["value"])
        for given, new in zip(args, made.get("written", ()), strict=False):
            if new is not None:
                decoder.decode(new).copyto(given)
        return result

    def forget(self, number: int) -> None:
        """An object is not used here any more; said with the next message."""
        self._forgotten.append(number)

    def _object(self, handle: Mapping[str, Any]) -> RemoteObject:
        kind = RemoteArray if handle.get("kind") == "NDArray" else RemoteObject
        return kind(self, handle)

    def _ask(self, message: Message, data: list[Any] | None = None) -> tuple[Message, bytearray]:
        with self._lock:
            while self._forgotten:
                self._link.send({"do": "forget", "number": self._forgotten.pop()})
                self._link.receive()
            self._link.send(message, data or [])
            return self._answer(*self._link.receive())

    def _answer(self, made: Message, data: bytearray) -> tuple[Message, bytearray]:
        if "error" in made:
            raise _KINDS.get(str(made.get("kind")), RPCError)(str(made["error"]))
        return made, data

    def close(self) -> None:
        """End the session; its files and libraries are gone then."""
        self._link.close()

    def __del__(self) -> None:
        if hasattr(self, "_link"):  # it was made
            self.close()


class RemoteObject(RemoteLibrary):
    """Something in a session: a library, an executor, a function. Its methods run there."""

    def __init__(self, session: RPCSession, handle: Mapping[str, Any]) -> None:
        """For RPCSession."""
        self._session = session
        self._number, self._kind = int(handle["number"]), str(handle["kind"])
        self._methods, self._facts = set(handle["methods"]), set(handle["facts"])

    @property
    def handle(self) -> Message:
        """What stands for it in messages."""
        return _numbered(self._number)

    def make(self, kind: str, *args: Any) -> RemoteObject:
        """See RemoteLibrary."""
        encoder = Encoder(_handle)
        given = [encoder.encode(a) for a in (self, *args)]
        found = self._session.value({"do": "make", "kind": kind, "args": given}, encoder.data)
        assert isinstance(found, RemoteObject)
        return found

    def _called(self, name: str, *args: Any, **named: Any) -> Any:
        if name not in self._methods:
            known = ", ".join(sorted(self._methods - _NAMES)) or "none"
            where = f"a server in {self._session.about.get('server')}"
            raise RPCError(f"a {self._kind} of {where} has no {name}; methods: {known}")
        writes = self._kind in ("TensorFunction", "Module") and name == "__call__"
        return self._session.call(self._number, name, args, named, writes)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call it. Raises what it raises there, and RPCError."""
        return self._called("__call__", *args, **named)

    def __getitem__(self, name: Any) -> Any:
        """What a library has under a name."""
        return self._called("__getitem__", name)

    def __str__(self) -> str:
        return str(self._called("__str__")) if "__str__" in self._methods else repr(self)

    def __repr__(self) -> str:
        return f"RemoteObject({self._kind} {self._number})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._facts:
            return self._read(name)
        return lambda *args, **named: self._called(name, *args, **named)

    def _read(self, name: str) -> Any:
        return self._session.value({"do": "read", "object": self.handle, "name": name})

    def __del__(self) -> None:
        self._session.forget(self._number)


class RemoteArray(RemoteObject):
    """An array on another machine: `smelt.nd.array(x, remote.cpu(0))`. Calls there use its memory,
    and write into it; nothing of it is sent but by these methods."""

    @property
    def device(self) -> RPCDevice:
        """Where it is."""
        return self._session.cpu(0)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return tuple(self._read("shape"))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return numpy_dtype(str(self._read("dtype")))

    def numpy(self) -> np.ndarray:
        """Its elements here, a copy."""
        found: np.ndarray = self._called("numpy").numpy()
        return found

    asnumpy = numpy

    def copyfrom(self, source_array: Any) -> Self:
        """Write elements of the same shape into it; they are cast as NDArray.copyfrom does."""
        values = source_array
        if not isinstance(values, RemoteArray):
            values = empty(self.shape, self.dtype).copyfrom(values)
        self._called("copyfrom", values)
        return self

    def copyto(self, target: Any) -> Any:
        """Copy its elements into an array here or there, or to a device."""
        if isinstance(target, Device):
            return array(self.numpy(), target)
        if isinstance(target, RemoteArray) and target._session is self._session:
            return target.copyfrom(self)
        return wrapped(self.numpy()).copyto(target)

    def __repr__(self) -> str:
        return f"RemoteArray({self.dtype}{list(self.shape)} on {self.device})"


@dataclass(frozen=True, slots=True)
class RPCDevice(RemoteDevice):
    """A device of the machine of a session."""

    session: RPCSession | None = None

    def __str__(self) -> str:
        where = "" if self.session is None else f" of {self.session.about.get('host')}"
        return f"{self.kind}({self.index}){where}"

    def empty(self, shape: tuple[int, ...], dtype: str) -> RemoteArray:
        """An array of zeros there. Raises RPCError."""
        assert self.session is not None
        if (self.kind, self.index) != ("cpu", 0):
            raise RPCError(f"there is no device {self}; legal: cpu(0)")
        found = self.session.value({"do": "array", "shape": list(shape), "dtype": dtype})
        assert isinstance(found, RemoteArray)
        return found


def _numbered(number: int) -> Message:
    return {"$": "object", "number": number}


def _handle(value: Any) -> Message:
    if isinstance(value, RemoteObject):
        return value.handle
    raise RPCError(f"a {type(value).__name__} cannot be sent to another machine")


# ------------------------------------------------------------------------------------ whom to call


def connect(
    url: str,
    port: int,
    key: str = "",
    session_timeout: float = 0,
    session_constructor_args: Any = None,
    enable_logging: bool = False,
    *,
    priority: int = 1,
    security: Security | None = None,
) -> RPCSession:
    """A session of a server.

    key              at a proxy: that of a server; of a server that belongs to a tracker: what the
                     tracker has given for it
    session_timeout  seconds after which the server ends the session; 0: none
    priority         at a proxy: who waits with a higher one comes first
    security         None: that of the environment, SMELT_RPC_TOKEN and SMELT_RPC_CA

    Raises RPCError.
    """
    if session_constructor_args:
        raise RPCError("connect: session_constructor_args: sessions of sessions are not there")
    if session_timeout < 0:
        raise RPCError(f"connect: session_timeout is {session_timeout}; legal: 0 or more")
    about = {"match": key, "limit": session_timeout, "priority": priority}
    link = call(url, port, "server", security or security_of_environment(), about)
    return RPCSession(link)


class LocalSession(RPCSession):
    """A session in a process of its own on this machine, without a server."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        served = ServedSession(Link(theirs, "this program"))
        served.link.send({"value": describe()})
        threading.Thread(target=served.serve, daemon=True).start()
        super().__init__(Link(ours, "the session"))


class PopenSession(LocalSession):
    """The same: libraries run in a process that this program has started."""

    def __init__(self, binary: str | os.PathLike[str] | None = None) -> None:
        """binary: the program smelt-server, which serves this session alone.

        Raises RPCError where it cannot be started.
        """
        self._server: subprocess.Popen[str] | None = None
        if binary is None:
            super().__init__()
            return
        token = secrets.token_hex(16)
        with system_errors(RPCError, f"PopenSession: {binary}"):
            self._server = subprocess.Popen(
                [binary, "--port=0", "--silent"], stdout=subprocess.PIPE, text=True,
                env=dict(os.environ) | {"SMELT_RPC_TOKEN": token},
            )  # fmt: skip
        assert self._server.stdout is not None
        port = self._server.stdout.readline().strip().rpartition(":")[2]
        try:
            if not port.isdigit():
                raise RPCError(f"PopenSession: {binary} does not say where it is")
            RPCSession.__init__(self, call("127.0.0.1", int(port), "server", Security(token)))
        except RPCError:
            self._end_server()
            raise

    def close(self) -> None:
        """End the session, and the server that was started for it."""
        super().close()
        self._end_server()

    def _end_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.terminate()
            server.communicate()


class TrackerSession:
    """A connection with a tracker, which gives servers by their key."""

    def __init__(self, addr: tuple[str, int], security: Security | None = None) -> None:
        """addr: its host and port. Raises RPCError."""
        self._address, self._security = addr, security or security_of_environment()
        self._lock = threading.Lock()
        self._link = call(*addr, "tracker", self._security)

    def _ask(self, message: Message) -> Any:
        """What the tracker answers; while it says that one has to wait, it is told that we do."""
        with self._lock:
            self._link.send(message)
            while True:
                made, _ = self._link.receive(most_data=0)
                if "wait" not in made:
                    break
                self._link.send({"do": "here"})
        if "error" in made:
            raise RPCError(f"{self._link.peer}: {made['error']}")
        return made["value"]

    def _again(self) -> None:
        self._link.close()
        self._link = call(*self._address, "tracker", self._security)

    def request(
        self,
        key: str,
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 5,
        session_constructor_args: Any = None,
    ) -> RPCSession:
        """Wait until a server of a key is free; a session of it. Raises RPCError.

        priority  who waits with a higher one comes first
        """
        if session_constructor_args:
            raise RPCError("request: session_constructor_args: sessions of sessions are not there")
        error: RPCError | None = None
        for tried in range(max(1, max_retry)):
            try:
                if tried:
                    time.sleep(min(1.0, 0.1 * 2**tried))
                    self._again()
                given = self._ask({"do": "request", "key": key, "priority": priority})
                return connect(given["address"], given["port"], given["match"], session_timeout,
                               security=self._security)  # fmt: skip
            except RPCSessionTimeoutError:
                raise
            except RPCError as e:
                error = e
        raise RPCError(f"no server {key!r} after {max(1, max_retry)} tries: {error}")

    def request_and_run(
        self, key: str, func: Callable[[RPCSession], T], priority: int = 1,
        session_timeout: float = 0, max_retry: int = 2,
    ) -> T:  # fmt: skip
        """Call a function with a session, again where a server is lost. Raises RPCError."""
        error: RPCError | None = None
        for _ in range(max(1, max_retry)):
            try:
                with self.request(key, priority, session_timeout) as session:
                    return func(session)
            except RPCSessionTimeoutError:
                raise
            except RPCError as e:
                error = e
        raise RPCError(f"{key!r}: it did not work {max(1, max_retry)} times: {error}")

    def summary(self) -> dict[str, Any]:
        """Which servers there are, and who waits."""
        return dict(self._ask({"do": "summary"}))

    def text_summary(self) -> str:
        """The same as a table."""
        found = self.summary()
        lines = ["Server List", "-" * 40, "server-address           key", "-" * 40]
        for s in found["server_info"]:
            where = f"{s['addr'][0]}:{s['addr'][1]}"
            lines.append(f"{where:<24} {s['key']}{'' if s['free'] else '  (in use)'}")
        lines += ["-" * 40, "", "Queue Status", "-" * 40, f"{'key':<16}total  free  pending"]
        for key, q in found["queue_info"].items():
            lines.append(f"{key:<16}{q['total']:<7}{q['free']:<6}{q['pending']}")
        return "\n".join([*lines, "-" * 40])

    def close(self) -> None:
        """End the connection."""
        self._link.close()


def connect_tracker(url: str, port: int, *, security: Security | None = None) -> TrackerSession:
    """A connection with a tracker. Raises RPCError."""
    return TrackerSession((url, port), security)


def open_session(
    host: str, port: int, key: str = "", priority: int = 1, security: Security | None = None
) -> RPCSession:
    """A session of the server at host and port; with a key, of one that the tracker there gives.

    Raises RPCError.
    """
    if not key:
        return connect(host, port, security=security)
    tracker = connect_tracker(host, port, security=security)
    try:
        return tracker.request(key, priority)
    finally:
        tracker.close()
