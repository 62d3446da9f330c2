"""Target strings: a kind and its options, e.g. "llvm -mcpu=native", or a tag of a machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from smelt.ir.errors import TargetError
from smelt.runtime.entered import Entered
from smelt.runtime.errors import kind_of, nearest, unknown

from .kinds import FLAGS, KINDS, option_value, option_words
from .kinds import TargetKind as TargetKind
from .tags import TAGS

_CPU = '"llvm -mcpu=native", this machine\'s CPU'
_COMMON_NAMES = {
    ("cpu", "native", "host", "x86", "x64", "amd64", "i686", "arm", "aarch64", "avx", "sse", "neon",
     "intel", "llvm:", "llvm,"): f"; nearest: {_CPU}",
    ("gpu", "cuda", "nvidia", "rtx", "tensorrt", "amd", "hip", "rocm", "mps", "metal", "vulkan",
     "opencl", "directml", "dml", "coreml", "tpu", "npu"):
        f"; today only CPUs can be compiled for, see `smelt targets`: {_CPU}",
}  # fmt: skip
"""How people who do not know kinds call CPUs, and what there is no code for yet: see as_target."""


_CURRENT: ContextVar[Target | None] = ContextVar("smelt.target.Target", default=None)


class Target(Entered):
    """A kind with options, which read as they are written: `target.mcpu`, `target.attrs["mattr"]`.

    kind   a TargetKind
    attrs  the options that were given, each in its type
    keys   what rules are chosen by: given keys, then the device, then those of the kind
    host   the target of the code around kernels, None if it is the same machine
    """

    def __init__(
        self,
        target: str | Mapping[str, Any] | Target,
        host: str | Mapping[str, Any] | Target | None = None,
    ) -> None:
        """Parse a target string, a tag, or a dictionary with "kind"; or copy a target."""
        attrs = _attributes(target)
        name = attrs.pop("kind", None)
        if not isinstance(name, str) or name not in KINDS:
            asked, usual = str(name).lower(), nearest(name, [*KINDS, *TAGS])
            near = next((t for k, t in _COMMON_NAMES.items() if asked.startswith(k)), usual)
            example = "" if '"' in near else '; an example: "llvm -mcpu=native"'
            raise TargetError(
                f"unknown target kind {name!r}{near}; kinds: {', '.join(KINDS)}{example}"
            )
        kind = KINDS[name]
        for option in attrs:
            if option not in kind.options:
                said = unknown("option", option, kind.options)
                raise TargetError(f"target kind {name!r} has {said}")
        inner = attrs.pop("host", None)
        host = inner if host is None else host
        self.kind = kind
        self.attrs: dict[str, Any] = {k: option_value(k, v) for k, v in attrs.items()}
        device = self.attrs.get("device")
        given = self.attrs.get("keys", ())
        self.keys: tuple[str, ...] = tuple(
            dict.fromkeys((*given, *((device,) if device else ()), *kind.default_keys))
        )
        self.host: Target | None = None if host is None else Target(host)

    # ---- what it says -------------------------------------------------------------------------

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
    def arch(self) -> str:
        """The architecture of a graphics card, e.g. sm_80 ("" if none was given)."""
        return str(self.attrs.get("arch", ""))

    @property
    def libs(self) -> tuple[str, ...]:
        """Libraries that may be used."""
        return tuple(self.attrs.get("libs", ()))

    @property
    def device_name(self) -> str:
        """The device option, "" if none."""
        return str(self.attrs.get("device", ""))

    @property
    def model(self) -> str:
        """The model option, "unknown" if none."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def tag(self) -> str:
        """The tag it was made from, "" if none."""
        return str(self.attrs.get("tag", ""))

    @staticmethod
    def list_kinds() -> list[str]:
        """The names of all kinds."""
        return list(KINDS)

    @staticmethod
    def list_tags() -> list[str]:
        """The names of all tags."""
        return list(TAGS)

    # ---- other targets ------------------------------------------------------------------------

    def with_attrs(self, **attrs: Any) -> Target:
        """A copy with some options set; underscores stand for the dashes of an option's name."""
        renamed = {self._option(k): v for k, v in attrs.items()}
        return Target({"kind": self.kind.name, **self.attrs, **renamed}, self.host)

    def _option(self, name: str) -> str:
        dashed = name.replace("_", "-")
        return dashed if name not in self.kind.options and dashed in self.kind.options else name

    def with_host(self, host: str | Mapping[str, Any] | Target) -> Target:
        """A copy with another host."""
        return Target({"kind": self.kind.name, **self.attrs}, host)

    def export(self) -> dict[str, Any]:
        """Plain data from which an equal target can be made."""
        out: dict[str, Any] = {"kind": self.kind.name}
        for k, v in self.attrs.items():
            out[k] = list(v) if isinstance(v, tuple) else v
        if self.host is not None:
            out["host"] = self.host.export()
        return out

    # ---- the target of a block ----------------------------------------------------------------

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with Target(...)`; read by public functions only."""
        found = _CURRENT.get()
        if found is None and not allow_none:
            raise TargetError("there is no current target: write `with Target(...):` around it")
        return found

    _current = _CURRENT

    # ---- text and equality --------------------------------------------------------------------

    def __str__(self) -> str:
        words = [shlex.quote(option_words(k, v)) for k, v in self.attrs.items() if k != "devices"]
        return " ".join([self.kind.name, *words])

    def __repr__(self) -> str:
        return f"Target({str(self)!r}{f', host={self.host!r}' if self.host is not None else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.export() == other.export()

    def __hash__(self) -> int:
        return hash(json.dumps(self.export(), sort_keys=True, default=str))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Target, (self.export(),))


def _attributes(spec: object) -> dict[str, Any]:
    """Kind and options of whatever a target can be made from."""
    if isinstance(spec, Target):
        made = {"kind": spec.kind.name, **spec.attrs}
        return made if spec.host is None else {**made, "host": spec.host}
    if isinstance(spec, Mapping):
        if "kind" not in spec and "tag" in spec:
            return {**_tagged(str(spec["tag"])), **{k: v for k, v in spec.items() if k != "tag"}}
        return dict(spec)
    if not isinstance(spec, str):
        raise TargetError(f"a target is a string or a dictionary, not {kind_of(spec)}")
    text = spec.strip()
    if not text:
        raise TargetError('the target is empty; e.g. "llvm -mcpu=native"')
    if text.startswith("{"):
        return _json(text)
    first = text.split()[0]
    return _tagged(text) if "/" in first or first in TAGS else _parse(text)


def _tagged(text: str) -> dict[str, Any]:
    """A tag, and options after it that replace its own."""
    name, *rest = text.split(maxsplit=1)
    if name not in TAGS:
        raise TargetError(
            f"unknown target tag {name!r}{nearest(name, TAGS)}; there are {len(TAGS)}, which "
            "smelt.target.list_tags() lists"
        )
    more = _parse(f"{TAGS[name]['kind']} {rest[0]}") if rest else {}
    return {**TAGS[name], "tag": name, **more}


def _json(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as e:
        raise TargetError(f"target {text!r}: this is no JSON: {e}") from None
    assert isinstance(parsed, dict)  # the text begins with a brace
    return parsed


def _parse(text: str) -> dict[str, Any]:
    """A kind and words of the form -option=value, -option value, or -flag."""
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise TargetError(f"target {text!r}: {e}") from None
    attrs: dict[str, Any] = {"kind": words[0]}
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        name = word.lstrip("-").partition("=")[0]
        if not word.startswith("-") or not name:
            raise TargetError(f"target {text!r}: {word!r} is no option; options start with '-'")
        if name in attrs:
            raise TargetError(f"target {text!r}: the option {name!r} is given twice")
        if "=" in word:
            attrs[name] = word.partition("=")[2]
        elif name not in FLAGS and rest and not rest[0].startswith("-"):
            attrs[name] = rest.pop(0)
        elif name in FLAGS or words[0] not in KINDS or name not in KINDS[words[0]].options:
            attrs[name] = True
        else:
            raise TargetError(f"target {text!r}: the option {name!r} needs a value")
    return attrs
