"""The side of smelt: starts a server, asks it, and never waits without an end."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from smelt.runtime.errors import SmeltError
from smelt.version import __version__

from . import server

SERVER_FILE = "microtvm_api_server.py"

_SECONDS = {"generate_project": 300.0, "build": 900.0, "flash": 600.0, "open_transport": 120.0}
"""How long the methods may take; the others _OTHERS, reading and writing besides what is given."""
_OTHERS = 60.0
_GRACE = 5.0
"""Seconds that a server has to end by itself."""
_START = """import runpy, sys
sys.path.insert(0, {!r})
runpy.run_module("smelt.compat", run_name="__main__", alter_sys=True)"""
"""Starts a server with this smelt, wherever it is."""
_LAST_WORDS = 2000
"""Bytes of what a server wrote on stderr that an error shows."""


class ProjectAPIErrorBase(SmeltError):
    """The base of the errors of this side."""


class ConnectionShutdownError(ProjectAPIErrorBase):
    """A server that has ended, or was ended because it did not answer."""


class MalformedReplyError(ProjectAPIErrorBase):
    """A reply that is none of JSON-RPC, or not what the method gives."""


class MismatchedIdError(ProjectAPIErrorBase):
    """A reply to another request."""


class ProjectAPIServerNotFoundError(ProjectAPIErrorBase):
    """A folder without a server."""


class UnsupportedProtocolVersionError(ProjectAPIErrorBase):
    """A server that speaks another version of the protocol."""


RPCError = server.JSONRPCError
"""What a server answers where a request failed: the classic name."""


class ProjectAPIClient:
    """A connection to a server. Every method raises ProjectAPIErrorBase, and what the server does,
    as `server.ServerError`."""

    def __init__(
        self,
        read_file: BinaryIO,
        write_file: BinaryIO,
        testonly_did_write_request: Callable[[], object] | None = None,
        *,
        name: str = "the server",
        end: Callable[[], str] = str,
    ) -> None:
        """Files of bytes with file numbers; testonly_did_write_request: called after each request.

        name  what messages call the server; end: ends it at once, and gives what it said last
        """
        self._read, self._write, self._wrote = read_file, write_file, testonly_did_write_request
        self._name, self._end = name, end
        self._next, self._rest = 1, b""
        self.is_shutdown = False

    def shutdown(self) -> None:
        """End the connection; the server ends, too."""
        self._stop()

    def _stop(self) -> str:
        if self.is_shutdown:
            return ""
        self.is_shutdown = True
        for file in (self._write, self._read):
            with suppress(OSError):
                file.close()
        return self._end()

    def _fail(self, kind: type[ProjectAPIErrorBase], text: str) -> ProjectAPIErrorBase:
        """The error for a server that cannot be used any longer."""
        self._stop()
        return kind(f"{self._name}: {text}")

    def _request(self, method: str, params: Mapping[str, Any], seconds: float = 0.0) -> Any:
        if self.is_shutdown:
            raise ConnectionShutdownError(f"{self._name}: {method}: the connection was ended")
        identity, self._next = self._next, self._next + 1
        asked = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        end = time.monotonic() + _SECONDS.get(method, _OTHERS) + seconds
        try:
            data = json.dumps(asked).encode() + b"\n"
            server.write_with_timeout(self._write.fileno(), data, end - time.monotonic())
            if self._wrote is not None:
                self._wrote()
            line = self._line(end)
        except server.IoTimeoutError:
            allowed = _SECONDS.get(method, _OTHERS) + seconds
            text = f"{method}: no answer in {allowed:g} s"
            raise self._fail(ConnectionShutdownError, text) from None
        except server.TransportClosedError:
            text = f"{self._name}: {method}: the server has ended{self._stop()}"
            raise ConnectionShutdownError(text) from None
        except BaseException:
            self._stop()  # an answer that nobody waits for would be taken for the next one's
            raise
        return self._reply(method, identity, line)

    def _line(self, end: float) -> bytes:
        while b"\n" not in self._rest:
            if len(self._rest) > server.MOST_BYTES:
                break
            left = max(0.0, end - time.monotonic())
            self._rest += server.read_with_timeout(self._read.fileno(), 1 << 16, left)
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _reply(self, method: str, identity: int, line: bytes) -> Any:
        try:
            reply = json.loads(line)
            if not isinstance(reply, dict) or reply.get("jsonrpc") != "2.0":
                raise ValueError("it is no reply of JSON-RPC 2.0")
            if ("result" in reply) == ("error" in reply):
                raise ValueError("it has to have either a result or an error")
            error = None
            if "error" in reply:
                error = server.JSONRPCError.from_json(f"{self._name}: {method}", reply["error"])
        except (ValueError, RecursionError) as e:
            why = "it is nested too deeply" if isinstance(e, RecursionError) else e
            text = f"{method}: an answer that cannot be read: {line[:100]!r}: {why}"
            raise self._fail(MalformedReplyError, text) from None
        if reply.get("id") != identity:
            text = f"{method}: an answer to {reply.get('id')!r}, where {identity} was asked"
            raise self._fail(MismatchedIdError, text)
        if error is not None:
            raise error
        return reply["result"]

    def _member(self, method: str, reply: Any, member: str, read: Callable[[Any], Any]) -> Any:
        """A member of a result, read; MalformedReplyError where it is not what it should be."""
        try:
            return read(reply[member])
        except (AttributeError, KeyError, TypeError, ValueError):
            text = f"{method}: an answer without {member}: {str(reply)[:100]}"
            raise self._fail(MalformedReplyError, text) from None

    def server_info_query(self, tvm_version: str = __version__) -> dict[str, Any]:
        """What the server is, with project_options as ProjectOption."""
        method = "server_info_query"
        reply = self._request(method, {"tvm_version": tvm_version})
        version = self._member(method, reply, "protocol_version", int)
        if version != server.PROTOCOL_VERSION:
            text = f"it speaks version {version} of the protocol; legal: {server.PROTOCOL_VERSION}"
            raise self._fail(UnsupportedProtocolVersionError, text)
        for name, kind in (("platform_name", str), ("is_template", bool)):
            self._member(method, reply, name, kind)
        return {
            **reply,
            "project_options": self._member(method, reply, "project_options", _options),
        }

    def generate_project(
        self, model_library_format_path: str, standalone_crt_dir: str, project_dir: str,
        options: server.Options | None = None,
    ) -> Any:  # fmt: skip
        """Let a template make a project; standalone_crt_dir: not used by smelt's templates."""
        return self._request("generate_project", {
            "model_library_format_path": model_library_format_path,
            "standalone_crt_dir": standalone_crt_dir,
            "project_dir": project_dir,
            "options": dict(options or {}),
        })  # fmt: skip

    def build(self, options: server.Options | None = None) -> Any:
        """Compile the project."""
        return self._request("build", {"options": dict(options or {})})

    def flash(self, options: server.Options | None = None) -> Any:
        """Put the program on its board."""
        return self._request("flash", {"options": dict(options or {})})

    def open_transport(self, options: server.Options | None = None) -> server.TransportTimeouts:
        """Open the line to the program."""
        reply = self._request("open_transport", {"options": dict(options or {})})
        made = self._member("open_transport", reply, "timeouts",
                            lambda t: server.TransportTimeouts(**t))  # fmt: skip
        assert isinstance(made, server.TransportTimeouts)
        return made

    def close_transport(self) -> Any:
        """Close it; nothing where the connection has ended."""
        return None if self.is_shutdown else self._request("close_transport", {})

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        """1 to n bytes."""
        asked = {"n": n, "timeout_sec": timeout_sec}
        reply = self._request("read_transport", asked, timeout_sec or 0.0)
        return bytes(self._member("read_transport", reply, "data", base64.b85decode))

    def write_transport(self, data: bytes, timeout_sec: float | None) -> Any:
        """Write all of the bytes."""
        asked = {"data": base64.b85encode(data).decode(), "timeout_sec": timeout_sec}
        return self._request("write_transport", asked, timeout_sec or 0.0)


def _options(listed: Any) -> list[server.ProjectOption]:
    known = set(server.ProjectOption._fields)
    return [server.ProjectOption(**{k: v for k, v in o.items() if k in known}) for o in listed]


def instantiate_from_dir(
    project_dir: str | os.PathLike[str], debug: bool = False
) -> ProjectAPIClient:
    """Start the server of a template or a project; it ends with the client.

    debug  whether what it writes on stderr is shown

    Raises ProjectAPIServerNotFoundError.
    """
    folder = Path(project_dir).absolute()
    if not (folder / SERVER_FILE).is_file():
        raise ProjectAPIServerNotFoundError(
            f"{project_dir}: no {SERVER_FILE} is there; legal: the folder of a template, or of a "
            "project that generate_project made"
        )
    said = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the client)
    (theirs, ours_out), (ours_in, their_out) = os.pipe(), os.pipe()
    # `tvm` is smelt in a server's process: servers of the classic stack name it so.
    command = [sys.executable, "-c", _START.format(str(Path(server.__file__).parents[3])),
               SERVER_FILE, "--read-fd", str(theirs), "--write-fd", str(their_out)]  # fmt: skip
    try:
        child = subprocess.Popen(
            command, cwd=folder, pass_fds=(theirs, their_out), stdin=subprocess.DEVNULL,
            stdout=None if debug else said, stderr=None if debug else said, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(theirs)
        os.close(their_out)
    files = open(ours_in, "rb", buffering=0), open(ours_out, "wb", buffering=0)  # noqa: SIM115
    client = ProjectAPIClient(*files, name=folder.name, end=lambda: _ended(child, said, files))
    weakref.finalize(client, _ended, child, said, files)
    return client


def _ended(child: subprocess.Popen[bytes], said: BinaryIO, files: tuple[BinaryIO, BinaryIO]) -> str:
    """End a server and all that it started; gives how it ended, and what it said last.

    It ends by itself when its pipe is closed, or is ended.
    """
    if said.closed:
        return ""
    for file in files:
        with suppress(OSError):
            file.close()
    end, ended = time.monotonic() + _GRACE, os.WEXITED | os.WNOWAIT | os.WNOHANG
    # Not waited for yet: until then its number names its group, and nobody else's.
    while os.waitid(os.P_PID, child.pid, ended) is None and time.monotonic() < end:
        time.sleep(0.005)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_WORDS))
    text = said.read().decode(errors="replace").strip()
    said.close()
    return f" (exit code {code}){f'; it said:{chr(10)}{text}' if text else ''}"
