"""The side of a template or a project: a handler of its own, served over two pipes.

class Handler(server.ProjectAPIHandler): ...

if __name__ == "__main__":
    server.main(Handler())
"""

from __future__ import annotations

import argparse
import base64
import enum
import inspect
import json
import os
import select
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from smelt.runtime.errors import SmeltError, unknown

PROTOCOL_VERSION = 1
MOST_BYTES = 1 << 24
"""Of a message: far more than any read or write of a transport."""

Options = Mapping[str, Any]


class ProjectOption(NamedTuple):
    """An option of a template.

    type      bool, int or str; choices: what is legal, None: anything of that type
    required, optional  the methods that need it, and those that may use it
    """

    name: str
    choices: Sequence[str] | None = None
    default: Any = None
    type: str = "str"
    required: Sequence[str] = ()
    optional: Sequence[str] = ()
    help: str = ""

    def replace(self, attributes: Mapping[str, Any]) -> ProjectOption:
        """The same with other attributes."""
        return self._replace(**attributes)


class ServerInfo(NamedTuple):
    """What a server is: a template's, or a project's with the path of its model."""

    platform_name: str
    is_template: bool
    model_library_format_path: str | None
    project_options: list[ProjectOption]


class TransportTimeouts(NamedTuple):
    """How long a session waits, in seconds: for each try to start, for its start, for an answer."""

    session_start_retry_timeout_sec: float
    session_start_timeout_sec: float
    session_established_timeout_sec: float


class ErrorCode(enum.IntEnum):
    """The codes of JSON-RPC; those of a handler's own errors are SERVER_ERROR."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_ERROR = -32000


class JSONRPCError(SmeltError):
    """A request that failed.

    data            with "class", the exception's, and "traceback"
    client_context  what was asked, on the client's side
    """

    def __init__(
        self, code: int, message: str, data: Any = None, client_context: str | None = None
    ) -> None:
        """Keep all of it."""
        super().__init__(f"{client_context}: {message}" if client_context else message)
        self.code, self.message, self.data = code, message, data
        self.client_context = client_context

    def to_json(self) -> dict[str, Any]:
        """The member "error" of a reply."""
        return {"code": int(self.code), "message": self.message, "data": self.data}

    @classmethod
    def from_json(cls, client_context: str | None, json_error: Any) -> JSONRPCError:
        """The error that a reply tells of. Raises ValueError where it tells of none."""
        fits = isinstance(json_error, dict) and isinstance(json_error.get("code"), int)
        if not fits or not isinstance(json_error.get("message"), str):
            raise ValueError(f"{json_error!r} is no error of JSON-RPC")
        data = json_error.get("data")
        code, message = json_error["code"], json_error["message"]
        if code != ErrorCode.SERVER_ERROR:
            return JSONRPCError(code, message, data, client_context)
        name = data.get("class") if isinstance(data, dict) else None
        kind = next((k for k in _CARRIED if k.__name__ == name), ServerError)
        return kind(message, data, client_context)


class ServerError(JSONRPCError):
    """What a handler raised."""

    usual = "the server failed"

    def __init__(
        self, message: str | None = None, data: Any = None, client_context: str | None = None
    ) -> None:
        """message: None: the usual one; data: as of JSONRPCError."""
        text = self.usual if message is None else message
        super().__init__(ErrorCode.SERVER_ERROR, text, data, client_context)

    @classmethod
    def from_exception(cls, exc: BaseException, **kw: Any) -> ServerError:
        """An exception as an error to be sent; one that smelt raises on purpose is its text."""
        told = str(exc) if isinstance(exc, SmeltError) else f"{type(exc).__name__}: {exc}"
        lines = traceback.format_exception(exc)
        return cls(told, {"class": type(exc).__name__, "traceback": "".join(lines)}, **kw)


class TransportClosedError(ServerError):
    """Reading or writing where no transport is open, or where the other end has gone."""

    usual = "the transport is closed"


class IoTimeoutError(ServerError):
    """Reading or writing that took longer than it was given."""

    usual = "the time is over"


class UnsupportedTVMVersionError(ServerError):
    """A server that does not work with this version."""


_CARRIED: tuple[type[ServerError], ...] = (
    TransportClosedError, IoTimeoutError, UnsupportedTVMVersionError,
)  # fmt: skip


class ProjectAPIHandler(ABC):
    """What a template or a project can do. Errors of these methods are carried to the client.

    Options are those of `server_info_query`. A template is asked for `generate_project`; a project
    for the others.
    """

    @abstractmethod
    def server_info_query(self, tvm_version: str) -> ServerInfo:
        """What this is; tvm_version: the client's version of smelt."""

    @abstractmethod
    def generate_project(
        self, model_library_format_path: Path, standalone_crt_dir: Path, project_dir: Path,
        options: Options,
    ) -> None:  # fmt: skip
        """Make a project in a folder that is not there yet, with this server in it."""

    @abstractmethod
    def build(self, options: Options) -> None:
        """Compile the project."""

    @abstractmethod
    def flash(self, options: Options) -> None:
        """Put the program on its board."""

    @abstractmethod
    def open_transport(self, options: Options) -> TransportTimeouts:
        """Open the line to the program on its board."""

    @abstractmethod
    def close_transport(self) -> None:
        """Close it; nothing where it is closed already."""

    @abstractmethod
    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        """At least 1 and at most n bytes. Raises TransportClosedError, IoTimeoutError."""

    @abstractmethod
    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        """Write all of the bytes. Raises TransportClosedError, IoTimeoutError."""


_METHODS = {name: inspect.signature(m) for name, m in vars(ProjectAPIHandler).items()
            if inspect.isfunction(m)}  # fmt: skip


class ProjectAPIServer:
    """Serves a handler: requests come in one file, replies go out into another."""

    def __init__(
        self, read_file: BinaryIO, write_file: BinaryIO, handler: ProjectAPIHandler
    ) -> None:
        """Files of bytes; read_file has lines."""
        self._read, self._write, self._handler = read_file, write_file, handler

    def serve_forever(self) -> None:
        """Serve requests until the other end has gone."""
        while self.serve_one_request():
            pass

    def serve_one_request(self) -> bool:
        """Serve a request; False where the other end has gone."""
        line = self._read.readline(MOST_BYTES)
        if not line.endswith(b"\n"):
            return False
        identity: Any = None
        try:
            request = _request(line)
            identity = request["id"]
            reply: dict[str, Any] = {"result": self._dispatch(request)}
        except JSONRPCError as e:
            if isinstance(e.data, dict) or not isinstance(e, ServerError):
                reply = {"error": e.to_json()}
            else:
                reply = {"error": ServerError.from_exception(e).to_json()}
        except Exception as e:
            reply = {"error": ServerError.from_exception(e).to_json()}
        text = json.dumps({"jsonrpc": "2.0", "id": identity, **reply})
        self._write.write(text.encode() + b"\n")
        self._write.flush()
        return True

    def _dispatch(self, request: Mapping[str, Any]) -> Any:
        name, given = request["method"], dict(request["params"])
        if name not in _METHODS:
            raise JSONRPCError(ErrorCode.METHOD_NOT_FOUND, unknown("method", name, _METHODS))
        try:
            _METHODS[name].bind(None, **given)
            if name == "write_transport":
                given["data"] = base64.b85decode(given["data"])
        except (TypeError, ValueError) as e:
            raise JSONRPCError(ErrorCode.INVALID_PARAMS, f"{name}: {e}") from None
        if name == "generate_project":
            given |= {n: Path(given[n]) for n in given if n != "options"}
        found = getattr(self._handler, name)(**given)
        match found:
            case bytes():
                return {"data": base64.b85encode(found).decode()}
            case ServerInfo():
                options = [o._asdict() for o in found.project_options]
                told = {"protocol_version": PROTOCOL_VERSION, "project_options": options}
                return {**found._asdict(), **told}
            case TransportTimeouts():
                return {"timeouts": found._asdict()}
        return None


def _request(line: bytes) -> dict[str, Any]:
    """A request, checked. Raises JSONRPCError."""
    try:
        found = json.loads(line)
    except ValueError as e:
        raise JSONRPCError(ErrorCode.PARSE_ERROR, f"a request that is no JSON: {e}") from None
    kinds = {"jsonrpc": str, "id": int, "method": str, "params": dict}
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise JSONRPCError(ErrorCode.INVALID_REQUEST, "a request that is none of JSON-RPC 2.0")
    for name, kind in kinds.items():
        if not isinstance(found.get(name), kind):
            raise JSONRPCError(ErrorCode.INVALID_REQUEST, f"a request without {name}")
    return found


def default_project_options(**kw: Mapping[str, Any]) -> list[ProjectOption]:
    """The options that all templates have; kw: other attributes for some of them, by name."""
    both = ("generate_project", "build", "flash", "open_transport")
    known = {
        o.name: o
        for o in (
            ProjectOption("verbose", None, False, "bool", (), both, "Say which commands run."),
            ProjectOption("project_type", (), None, "str", (), both, "What the program does."),
            ProjectOption("board", (), None, "str", (), both, "The board."),
            ProjectOption("compile_definitions", None, "", "str", (), ("build",),
                          "Arguments of the C compiler: -DNAME=VALUE ..."),
        )
    }  # fmt: skip
    if odd := kw.keys() - known.keys():
        raise SmeltError(f"default_project_options has {unknown('option', min(odd), known)}")
    return [o.replace(kw.get(name, {})) for name, o in known.items()]


def _ready(fd: int, event: int, seconds: float | None) -> bool:
    """Wait until an open file can be read or written, or is closed at its other end."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def read_with_timeout(fd: int, n: int, timeout_sec: float | None) -> bytes:
    """1 to n bytes of an open file. Raises TransportClosedError, IoTimeoutError."""
    if not _ready(fd, select.POLLIN, timeout_sec):
        raise IoTimeoutError(f"nothing to read in {timeout_sec} s")
    try:
        found = os.read(fd, n)
    except OSError as e:
        raise TransportClosedError(f"the transport is closed: {e.strerror}") from None
    if not found:
        raise TransportClosedError("the other end of the transport has gone")
    return found


def write_with_timeout(fd: int, data: bytes, timeout_sec: float | None) -> None:
    """Write all of the bytes into an open file. Raises TransportClosedError, IoTimeoutError."""
    end = None if timeout_sec is None else time.monotonic() + timeout_sec
    os.set_blocking(fd, False)  # else a pipe takes all or waits without an end
    rest = memoryview(data)
    while rest:
        left = None if end is None else max(0.0, end - time.monotonic())
        if not _ready(fd, select.POLLOUT, left):
            raise IoTimeoutError(f"{len(rest)} bytes could not be written in {timeout_sec} s")
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            continue
        except OSError as e:
            raise TransportClosedError(f"the transport is closed: {e.strerror}") from None


def main(handler: ProjectAPIHandler, argv: Sequence[str] | None = None) -> None:
    """Serve a handler over the files that the command line names, until the other end has gone."""
    parser = argparse.ArgumentParser(description="Serves the Project API; smelt starts it.")
    parser.add_argument("--read-fd", type=int, required=True, help="requests, an open file")
    parser.add_argument("--write-fd", type=int, required=True, help="replies, an open file")
    asked = parser.parse_args(argv)
    with open(asked.read_fd, "rb") as read_file, open(asked.write_fd, "wb") as write_file:
        try:
            ProjectAPIServer(read_file, write_file, handler).serve_forever()
        finally:
            handler.close_transport()
