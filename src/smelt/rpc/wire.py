"""Messages between machines: JSON and bytes behind it, bounded, with a version and a secret.

    "SMRP", u32 bytes of JSON, u64 bytes of data; JSON; data          all numbers little-endian

Who is called says hello with the version of the protocol and a number that is used once; who calls
answers with one of its own and, where there is a token, with a proof of it (HMAC-SHA256 of both
numbers), and gets the other side's. The token itself is never sent.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.runtime.errors import SmeltError, system_errors

VERSION = 1
MOST_TEXT = 16 << 20
MOST_DATA = 4 << 30
FIRST_TEXT = 4096
"""Bytes of JSON in a message of somebody whom we do not know yet."""
PATIENCE = 10.0
"""Seconds that somebody whom we do not know yet has for an answer."""

_ALIVE = [
    (getattr(socket, name), value)
    for name, value in {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}.items()
    if hasattr(socket, name)
]
"""Options by which a machine that was switched off is noticed after a minute."""

_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"SMRP"
Message = dict[str, Any]
Data = bytes | bytearray | memoryview


class RPCError(SmeltError):
    """Another machine cannot be reached, does not answer, or says that something failed."""


class RPCSessionTimeoutError(RPCError):
    """A session took longer than it was given."""


@dataclass(frozen=True)
class Security:
    """What both sides of a connection have to know.

    token        a secret; "": there is none, which is for this machine alone
    certificate  a server's, and its key: the connection is encrypted (TLS) then
    authority    a client's file with certificates that it trusts: it asks for TLS
    """

    token: str = ""
    certificate: tuple[str, str] | None = None
    authority: str | None = None

    def served(self, accepted: socket.socket) -> socket.socket:
        """A server's end of a connection. Raises OSError."""
        if self.certificate is None:
            return accepted
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate)
        return context.wrap_socket(accepted, server_side=True)

    def called(self, made: socket.socket, host: str) -> socket.socket:
        """A client's end of a connection. Raises OSError."""
        if self.authority is None:
            return made
        context = ssl.create_default_context(cafile=self.authority)
        return context.wrap_socket(made, server_hostname=host)

    def check(self, host: str) -> None:
        """Raise an RPCError for a server that everybody could use, or without its files."""
        if not self.token and not is_here(host):
            raise RPCError(
                f"a server on {host} can be reached from other machines: it needs a token; "
                "SMELT_RPC_TOKEN is one, or --token-file names a file with one"
            )
        for path in self.certificate or ():
            if not Path(path).is_file():
                raise RPCError(f"there is no file {path} with a certificate or its key")


def is_here(host: str) -> bool:
    """Whether an address is this machine's alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Link:
    """One end of a connection."""

    def __init__(self, end: socket.socket, peer: str) -> None:
        """peer: who it is, for messages."""
        self.end, self.peer, self._sending = end, peer, threading.Lock()
        if end.family in (socket.AF_INET, socket.AF_INET6):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _ALIVE:
                end.setsockopt(socket.IPPROTO_TCP, option, value)

    def send(self, message: Message, data: Sequence[Data] = ()) -> None:
        """Raises RPCError where the peer is gone."""
        text = json.dumps(message).encode()
        views = [memoryview(d).cast("B") for d in data if len(d)]
        head = _HEAD.pack(_MAGIC, len(text), sum([len(v) for v in views]))
        try:
            with self._sending:
                self.end.sendall(head + text)
                for v in views:
                    self.end.sendall(v)
        except OSError as e:
            raise self._gone(e) from None

    def receive(
        self, most_text: int = MOST_TEXT, most_data: int = MOST_DATA
    ) -> tuple[Message, bytearray]:
        """The next message. Raises RPCError where there is none, or it is none of this protocol."""
        magic, size, count = _HEAD.unpack(self._bytes(_HEAD.size))
        if magic != _MAGIC:
            raise RPCError(f"{self.peer} does not speak smelt's protocol")
        if size > most_text or count > most_data:
            raise RPCError(
                f"{self.peer} sends a message of {size + count} bytes; at most "
                f"{most_text + most_data} are taken"
            )
        text, data = self._bytes(size), self._bytes(count)
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise RPCError(f"{self.peer} sends what is no message")
        return message, data

    def _bytes(self, count: int) -> bytearray:
        """So many bytes; memory is taken as they come, whatever the head says."""
        made = bytearray()
        while len(made) < count:
            start = len(made)
            made.extend(bytes(min(count - start, 1 << 22)))
            view = memoryview(made)[start:]
            try:
                while view:
                    got = self.end.recv_into(view)
                    if not got:
                        raise RPCError(f"{self.peer} has closed the connection")
                    view = view[got:]
            except OSError as e:
                raise self._gone(e) from None
            finally:
                view.release()
        return made

    def _gone(self, error: OSError) -> RPCError:
        if isinstance(error, TimeoutError):
            return RPCError(f"{self.peer} does not answer")
        return RPCError(f"the connection with {self.peer} is lost: {error.strerror or error}")

    def close(self) -> None:
        """End the connection; whoever waits at it is told."""
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)
        self.end.close()


# ------------------------------------------------------------------------------------------- hello


def _proof(token: str, who: str, server: str, client: str) -> str:
    said = f"{who} {server} {client}".encode(errors="replace")
    return hmac.new(token.encode(), said, "sha256").hexdigest()


def _same(proof: str, given: object) -> bool:
    """Whether a proof is given, in a time that does not tell where it is another one."""
    return hmac.compare_digest(proof.encode(), str(given).encode(errors="replace"))


def welcome(link: Link, security: Security, role: str) -> Message:
    """Greet who has called; what it says of itself. Raises RPCError for a stranger."""
    link.end.settimeout(PATIENCE)
    own = secrets.token_hex(16)
    link.send({"smelt": role, "version": VERSION, "number": own, "token": bool(security.token)})
    said, _ = link.receive(FIRST_TEXT, 0)
    if said.get("version") != VERSION:
        what = f"version {VERSION} of the protocol is spoken here, not {said.get('version')}"
        link.send({"error": what})
        raise RPCError(f"{link.peer}: {what}")
    number = str(said.get("number"))
    wanted = _proof(security.token, "client", own, number)
    if security.token and not _same(wanted, said.get("proof")):
        link.send({"error": "the token is another one"})
        raise RPCError(f"{link.peer}: the token is another one")
    link.send({"ok": True, "proof": _proof(security.token, "server", own, number)})
    link.end.settimeout(None)
    return said


def call(host: str, port: int, role: str, security: Security, about: Message | None = None) -> Link:
    """A connection with a server, a tracker or a proxy. Raises RPCError.

    role   whom we want to meet: "server" (which may be behind a proxy), "tracker" or "proxy"
    about  what is said of ourselves
    """
    peer = f"the {role} at {host}:{port}"
    with system_errors(RPCError, f"{peer} cannot be reached"):
        made = socket.create_connection((host, port), PATIENCE)
        made = security.called(made, host)
    link = Link(made, peer)
    try:
        _greet(link, role, security, about or {})
    except RPCError:
        link.close()
        raise
    made.settimeout(None)
    return link


def _greet(link: Link, role: str, security: Security, about: Message) -> None:
    hello, _ = link.receive(FIRST_TEXT, 0)
    if (role, hello.get("smelt")) == ("server", "proxy"):
        link.peer = f"the server behind the proxy{link.peer.removeprefix('the server')}"
    elif hello.get("smelt") != role:
        raise RPCError(f"{link.peer} is none: it is a {hello.get('smelt')}")
    if hello.get("version") != VERSION:
        raise RPCError(
            f"{link.peer} speaks version {hello.get('version')} of the protocol, and this one "
            f"{VERSION}: install the same smelt on both machines"
        )
    if hello.get("token") and not security.token:
        raise RPCError(
            f"{link.peer} wants a token: set SMELT_RPC_TOKEN to the one that it was started with"
        )
    own, theirs = secrets.token_hex(16), str(hello.get("number"))
    proof = _proof(security.token, "client", theirs, own)
    link.send({"version": VERSION, "number": own, "proof": proof, **about})
    answer, _ = link.receive(FIRST_TEXT, 0)
    if "error" in answer:
        raise RPCError(f"{link.peer}: {answer['error']}")
    wanted = _proof(security.token, "server", theirs, own)
    if security.token and not _same(wanted, answer.get("proof")):
        raise RPCError(f"{link.peer} does not know the token")
