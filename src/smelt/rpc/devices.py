"""Machines that the user knows by name: a file says where they are, they say what they are.

device = find_device("rpi4")
with device.open() as session:
    target = target_for(device, session.about)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smelt.codegen.llvm import resolve
from smelt.runtime.errors import nearest, system_errors
from smelt.runtime.files import write_file
from smelt.target import Target
from smelt.target.processor import INSTRUCTIONS, architecture, implied, told_by_features

from .client import RPCSession, open_session
from .wire import RPCError

_TRIPLES = {"armv7l": "armv7-linux-gnueabihf", "armv8l": "armv7-linux-gnueabihf"}
"""Of machines whose systems have other names than their processors."""


@dataclass(frozen=True)
class KnownDevice:
    """How a machine is reached.

    host, port  of its server, or of a tracker
    key         at the tracker; "": host and port are the server's
    target      that code for it is compiled with; "": as it says of itself
    """

    name: str
    host: str
    port: int
    key: str = ""
    target: str = ""

    @property
    def place(self) -> str:
        """Where it is, to read."""
        server = f"{self.host}:{self.port}"
        return f"{self.key} at the tracker {server}" if self.key else server

    def open(self) -> RPCSession:
        """A session; at a tracker it is waited for. Raises RPCError."""
        return open_session(self.host, self.port, self.key)


def devices_file() -> Path:
    """Where they are kept: SMELT_DEVICES, or smelt/devices.json among the user's settings."""
    if named := os.environ.get("SMELT_DEVICES"):
        return Path(named)
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".config") / "smelt" / "devices.json"


def known_devices() -> dict[str, KnownDevice]:
    """All of them by name. Raises RPCError where the file cannot be read."""
    file = devices_file()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise RPCError(f"{file}: {getattr(e, 'strerror', None) or e}") from None
    try:
        return {n: KnownDevice(n, str(d["host"]), int(d["port"]), str(d.get("key", "")),
                               str(d.get("target", "")))
                for n, d in json.loads(text)["devices"].items()}  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise RPCError(f"{file} is no list of devices: {e!r}; mend or remove it") from None


def add_device(device: KnownDevice) -> None:
    """Keep one, in place of another of its name. Raises RPCError where it cannot be kept."""
    if device.target:
        resolve(Target(device.target))  # a mistake is told now
    _write({**known_devices(), device.name: device})


def remove_device(name: str) -> None:
    """Forget one. Raises RPCError where there is none."""
    known = known_devices()
    known.pop(find_device(name).name)
    _write(known)


def find_device(name: str) -> KnownDevice:
    """The one of this name. Raises RPCError where there is none."""
    known = known_devices()
    if name not in known:
        listed = ", ".join(known) or "none; smelt devices add NAME HOST:PORT makes one"
        raise RPCError(f"there is no device {name!r}{nearest(name, known)}; devices: {listed}")
    return known[name]


def _write(devices: Mapping[str, KnownDevice]) -> None:
    file = devices_file()
    text = json.dumps({"devices": {n: asdict(d) for n, d in devices.items()}}, indent=2) + "\n"
    with system_errors(RPCError, str(file)):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, lambda out: out.write(text.encode()))


def target_for(device: KnownDevice, about: Mapping[str, Any]) -> Target:
    """The target for a device: its own, or that of what its machine says of itself."""
    return resolve(Target(device.target)) if device.target else target_of(about)


def target_of(about: Mapping[str, Any]) -> Target:
    """The target for a machine, by what it says. Raises RPCError where that is too little."""
    machine = about.get("machine")
    if not isinstance(machine, str) or "features" not in about:
        raise RPCError(
            f"the server on {about.get('host')} does not say which processor its machine has: give "
            "the target"
        )
    base = Target(
        f"llvm -mtriple={_TRIPLES.get(machine, f'{machine}-unknown-linux-gnu')} "
        f"-num-cores={int(about.get('cores') or 1)}"
    )
    known = INSTRUCTIONS.get(architecture(base), ())
    on = tuple([f for f in known if f in about["features"]])
    name = told_by_features(resolve(base), on)
    have = implied(base.with_attrs(mcpu=name))
    features = (*[f"+{f}" for f in on], *[f"-{f}" for f in have if f not in on])
    return resolve(base.with_attrs(mcpu=name, mattr=features))
