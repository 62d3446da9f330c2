"""Target strings: a kind and its options, e.g. "llvm -mcpu=native"."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Mapping
from typing import Any

from smelt.ir.errors import TargetError

__all__ = ["Target", "TargetKind"]

_COMMON = ("keys", "tag", "device", "model", "libs", "host", "from_device", "target_device_type")
_LLVM = ("mcpu", "mattr", "mtriple", "mabi", "mfloat-abi", "num-cores", "opt-level", "fast-math", "vector-width",
         "jit", "system-lib", "runtime", "link-params")
_C = ("mcpu", "march", "mfloat-abi", "mfpu", "mattr", "runtime", "system-lib", "link-params",
      "workspace-byte-alignment", "constants-byte-alignment")
_GPU = ("arch", "mcpu", "mattr", "max_num_threads", "thread_warp_size", "max_shared_memory_per_block",
        "max_threads_per_block", "registers_per_block", "mtriple", "supports_float16", "supports_int8")
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # kind: (its own options, its keys)
    "llvm": (_LLVM, ("cpu",)),
    "c": (_C, ("cpu",)),
    "cuda": (_GPU, ("cuda", "gpu")),
    "nvptx": (_GPU, ("cuda", "gpu")),
    "rocm": (_GPU, ("rocm", "gpu")),
    "opencl": (_GPU, ("opencl", "gpu")),
    "metal": (_GPU, ("metal", "gpu")),
    "vulkan": (_GPU, ("vulkan", "gpu")),
    "webgpu": (_GPU, ("webgpu", "gpu")),
    "hexagon": (_LLVM + ("vtcm-capacity",), ("hexagon", "cpu")),
    "ext_dev": ((), ("ext_dev",)),
    "hybrid": ((), ("hybrid",)),
    "composite": (("devices",), ("composite",)),
}


class TargetKind:
    """A family of targets: its name and the keys that rules are chosen by."""

    def __init__(self, name: str, keys: tuple[str, ...]) -> None:
        """Name a kind."""
        self.name, self.default_keys = name, keys

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"TargetKind({self.name!r})"


class Target:
    """A kind with options. Attributes read like the options: `target.mcpu`, `target.attrs["mattr"]`."""

    def __init__(self, spec: str | Mapping[str, Any] | Target, host: str | Mapping[str, Any] | Target | None = None) -> None:
        """Parse a target string, a dictionary with "kind", or copy a target."""
        if isinstance(spec, Target):
            attrs = {"kind": spec.kind.name, **spec.attrs}
            host = host if host is not None else spec.host
        elif isinstance(spec, Mapping):
            attrs = dict(spec)
        elif isinstance(spec, str):
            attrs = _parse(spec)
        else:
            raise TargetError(f"a target is a string or a dictionary, not {type(spec).__name__}")
        name = attrs.pop("kind", None)
        if name not in _KINDS:
            near = difflib.get_close_matches(str(name), _KINDS, 3)
            raise TargetError(f"unknown target kind {name!r}" + (f"; nearest: {', '.join(near)}" if near else "")
                              + f"; kinds: {', '.join(_KINDS)}")
        own, keys = _KINDS[name]
        for option in attrs:
            if option not in own and option not in _COMMON:
                near = difflib.get_close_matches(option, (*own, *_COMMON), 3)
                raise TargetError(f"target kind {name!r} has no option {option!r}"
                                  + (f"; nearest: {', '.join(near)}" if near else "")
                                  + f"; options: {', '.join(sorted((*own, *_COMMON)))}")
        inner_host = attrs.pop("host", None)
        host = host if host is not None else inner_host
        self.kind = TargetKind(name, keys)
        self.attrs: dict[str, Any] = {k: _value(k, v) for k, v in attrs.items()}
        device = self.attrs.get("device")
        given = tuple(self.attrs.get("keys", ()))
        self.keys: tuple[str, ...] = tuple(dict.fromkeys((*given, *((device,) if device else ()), *keys)))
        self.host: Target | None = None if host is None else Target(host)

    @property
    def mcpu(self) -> str:
        """The CPU's LLVM name ("" = the kind's baseline)."""
        return str(self.attrs.get("mcpu", ""))

    @property
    def mattr(self) -> tuple[str, ...]:
        """Features switched on (+name) and off (-name)."""
        return tuple(self.attrs.get("mattr", ()))

    @property
    def mtriple(self) -> str:
        """The LLVM triple ("" = this machine's)."""
        return str(self.attrs.get("mtriple", ""))

    @property
    def device_name(self) -> str:
        """The device option, "" if none."""
        return str(self.attrs.get("device", ""))

    @staticmethod
    def list_kinds() -> list[str]:
        """The names of all kinds."""
        return list(_KINDS)

    def with_attrs(self, **attrs: Any) -> Target:
        """A copy with some options set."""
        return Target({"kind": self.kind.name, **self.attrs, **attrs}, self.host)

    def export(self) -> dict[str, Any]:
        """Plain data from which an equal target can be made."""
        out: dict[str, Any] = {"kind": self.kind.name, **{k: list(v) if isinstance(v, tuple) else v
                                                         for k, v in self.attrs.items()}}
        if self.host is not None:
            out["host"] = self.host.export()
        return out

    def __str__(self) -> str:
        parts = [self.kind.name]
        for k, v in self.attrs.items():
            parts.append(f"-{k}" if v is True else f"-{k}={','.join(map(str, v)) if isinstance(v, tuple) else v}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.export() == other.export()

    def __hash__(self) -> int:
        return hash(json.dumps(self.export(), sort_keys=True, default=str))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Target, (self.export(),))


def _parse(text: str) -> dict[str, Any]:
    words = shlex.split(text)
    if not words:
        raise TargetError("the target is empty; e.g. \"llvm -mcpu=native\"")
    if text.lstrip().startswith("{"):
        parsed: dict[str, Any] = json.loads(text)
        return parsed
    attrs: dict[str, Any] = {"kind": words[0]}
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise TargetError(f"target {text!r}: {word!r} is no option; options start with '-'")
        name, eq, value = word.lstrip("-").partition("=")
        if not eq:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "1"
            attrs[name] = True if value == "1" else value
        else:
            attrs[name] = value
    return attrs


def _value(name: str, value: Any) -> Any:
    if name in ("keys", "mattr", "libs"):
        items = value.split(",") if isinstance(value, str) else list(value)
        return tuple([i.strip() for i in items if i.strip()])
    if name in ("num-cores", "opt-level", "max_num_threads", "thread_warp_size", "vector-width"):
        try:
            return int(value)
        except (TypeError, ValueError):
            raise TargetError(f"target option {name!r} takes an integer, not {value!r}") from None
    return value
