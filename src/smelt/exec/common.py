"""The options that these programs share."""

import argparse
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from smelt.rpc import RPCError, Security
from smelt.rpc.server import Serving
from smelt.rpc.wire import is_here


def parser(about: str, port: int) -> argparse.ArgumentParser:
    """With --host and --port, and what keeps strangers out."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    made.add_argument("--port", type=int, default=port, help="the first port (%(default)s)")
    made.add_argument("--port-end", type=int, default=9199, help="the last one (%(default)s)")
    made.add_argument("--silent", action="store_true", help="say nothing of who comes and goes")
    made.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="a file with the token that programs have to know; else $SMELT_RPC_TOKEN, else one is "
        "made and printed, unless --host is this machine's alone",
    )
    made.add_argument(
        "--tls",
        nargs=2,
        metavar=("CERTIFICATE", "KEY"),
        help="encrypt connections; programs trust $SMELT_RPC_CA",
    )
    return made


def add_tracker(options: argparse.ArgumentParser, what: str) -> None:
    """With --tracker, and where it sends programs. what: --tracker does."""
    options.add_argument("--tracker", type=place, metavar="HOST:PORT", help=what)
    options.add_argument(
        "--custom-addr",
        metavar="HOST",
        help="the address that the tracker tells, where it is another one",
    )


def security(asked: argparse.Namespace, makes: bool = True) -> Security:
    """What the options say of it. A token that is made is printed; makes: whether one may be."""
    token = os.environ.get("SMELT_RPC_TOKEN", "")
    if asked.token_file is not None:
        try:
            token = asked.token_file.read_text().strip()
        except OSError as e:
            sys.exit(f"--token-file {asked.token_file}: {e.strerror}")
        if not token:
            sys.exit(f"--token-file {asked.token_file}: it is empty")
    elif makes and not token and not is_here(asked.host):
        token = secrets.token_urlsafe(24)
        print(f"SMELT_RPC_TOKEN={token}  (made for this run: programs that come have to set it)")
    pair = tuple(asked.tls) if asked.tls else None
    return Security(token, pair, os.environ.get("SMELT_RPC_CA") or None)


def serve(name: str, what: str, host: str, make: Callable[[], Serving]) -> None:
    """Serve until Ctrl-C, or SIGTERM.

    name, what  of the program, and of what it makes, for messages
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        made = make()
    except RPCError as e:
        sys.exit(f"{name}: {e}")
    print(f"the {what} is at {host}:{made.port}", flush=True)
    try:
        made.wait()
    except KeyboardInterrupt:
        made.terminate()


def place(text: str) -> tuple[str, int]:
    """A host and a port: "192.168.0.7:9190"."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def say(asked: argparse.Namespace, text: str) -> None:
    """A line of what happens."""
    if not asked.silent:
        print(text, flush=True)
