"""Target kinds and their options: which there are, and what type of value each takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from smelt.ir.errors import TargetError

# The type of an option; those not named here are strings.
_LISTS = frozenset({"keys", "libs", "mattr"})
_NUMBERS = frozenset({
    "num-cores", "opt-level", "vector-width", "max_num_threads", "thread_warp_size",
    "max_threads_per_block", "max_shared_memory_per_block", "registers_per_block",
    "max_local_memory_per_block", "l2_cache_size_bytes", "vtcm-capacity",
    "workspace-byte-alignment",
    "constants-byte-alignment", "from_device", "target_device_type",
})  # fmt: skip
FLAGS = frozenset({
    "system-lib", "link-params", "fast-math", "measured", "supports_float16", "supports_int8",
    "supports_int64",
})  # fmt: skip

_COMMON = ("keys", "tag", "device", "model", "libs", "host", "from_device", "target_device_type")
_CODE = ("mcpu", "mattr", "mtriple", "mabi", "mfloat-abi", "mfpu", "march", "runtime", "system-lib",
         "link-params")  # fmt: skip
_LLVM = (*_CODE, "num-cores", "opt-level", "fast-math", "vector-width", "jit")
_C = (*_CODE, "num-cores", "workspace-byte-alignment", "constants-byte-alignment")
_GPU = (
    "arch", "mcpu", "mattr", "mtriple", "max_num_threads", "thread_warp_size",
    "max_shared_memory_per_block", "max_threads_per_block", "max_local_memory_per_block",
    "registers_per_block", "l2_cache_size_bytes", "supports_float16", "supports_int8",
    "supports_int64", "system-lib",
)  # fmt: skip


@dataclass(frozen=True)
class TargetKind:
    """A family of targets: its name, its options, and the keys that rules are chosen by."""

    name: str
    options: tuple[str, ...] = field(compare=False)
    default_keys: tuple[str, ...] = field(compare=False)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"TargetKind({self.name!r})"


KINDS: dict[str, TargetKind] = {
    name: TargetKind(name, tuple(sorted({*options, *_COMMON})), keys)
    for name, options, keys in (
        ("llvm", (*_LLVM, "measured"), ("cpu",)),
        ("c", _C, ("cpu",)),
        ("cuda", _GPU, ("cuda", "gpu")),
        ("nvptx", _GPU, ("cuda", "gpu")),
        *[(n, _GPU, (n, "gpu")) for n in ("rocm", "opencl", "metal", "vulkan", "webgpu")],
        ("hexagon", (*_LLVM, "vtcm-capacity"), ("hexagon", "cpu")),
        ("ext_dev", ("system-lib",), ("ext_dev",)),
        ("hybrid", ("system-lib",), ("hybrid",)),
        ("composite", ("devices",), ("composite",)),
    )
}


def option_value(name: str, value: Any) -> Any:
    """An option's value in its type: a tuple, an int, a bool or a string."""
    if name in _LISTS:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise TargetError(f"target option {name!r} takes a list of words, not {value!r}")
        words = tuple([str(i).strip() for i in items if str(i).strip()])
        if name == "mattr":
            _check_features(words)
        return words
    if name in FLAGS:
        text = str(value).lower()
        if text not in ("0", "1", "true", "false"):
            raise TargetError(f"target option {name!r} is on (1) or off (0), not {value!r}")
        return text in ("1", "true")
    if name in _NUMBERS:
        try:
            return int(value)
        except (TypeError, ValueError):
            raise TargetError(f"target option {name!r} takes an integer, not {value!r}") from None
    if name == "devices":
        return tuple(value)
    if not isinstance(value, str) or not value:
        raise TargetError(f"target option {name!r} takes a word, not {value!r}")
    return value


def _check_features(words: tuple[str, ...]) -> None:
    for w in words:
        if w[0] not in "+-" or len(w) < 2:
            raise TargetError(
                f"target option 'mattr': {w!r} says neither on nor off; write +{w} or -{w}"
            )


def option_words(name: str, value: Any) -> str:
    """An option as it stands in a target string."""
    if isinstance(value, bool):
        return f"-{name}" if value else f"-{name}=0"
    return f"-{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
