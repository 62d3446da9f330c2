"""Whether code that needs instruction sets may be made for a target.

LLVM ends the process where it cannot select an instruction, so IR text says what it needs in
comments at its head (`needs_line`), and objects are made of it only for targets that have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from smelt.ir.errors import CompileError
from smelt.target import Target
from smelt.target.processor import architecture, features_of

_MARK = "; needs "
_CALLS = "; calls "


def needs_line(arch: str, features: Sequence[str], name: str) -> str:
    """A comment of IR text: an instruction of `name` stands in it."""
    return f"{_MARK}{arch} {','.join(features) or '-'} {name}"


def calls_line(name: str) -> str:
    """A comment of IR text: an LLVM intrinsic of which only LLVM knows whether it exists."""
    return f"{_CALLS}{name}"


def unknown_calls(ir: str, code: bytes) -> list[str]:
    """The intrinsics that LLVM has taken for functions of somebody else: it does not know them."""
    return [name for name in _comments(ir, _CALLS) if name.encode() in code]


def _comments(ir: str, mark: str) -> Iterator[str]:
    """What comments at the head of IR text say behind a mark."""
    for line in takewhile(lambda line: line.startswith(";"), ir.splitlines()):
        if line.startswith(mark):
            yield line.removeprefix(mark)


def check_needs(ir: str, target: Target, kernel: str) -> None:
    """Raise where IR text of a kernel needs what a target has not."""
    for said in _comments(ir, _MARK):
        arch, features, name = said.split(" ", 2)
        needed = () if features == "-" else tuple(features.split(","))
        require(name, arch, needed, target, kernel)


def require(name: str, arch: str, features: Sequence[str], target: Target, kernel: str) -> None:
    """Raise a CompileError unless a target has what an instruction of that name needs."""
    own = architecture(target)
    if own != arch:
        raise CompileError(
            f"{kernel}: {name} is an instruction of {arch}, the target is {own or 'unknown'}: "
            f"{_without_features(target)}"
        )
    on = features_of(target)
    missing = [f for f in features if f not in on]
    if missing:
        raise CompileError(
            f"{kernel}: {name} needs {' and '.join(missing)}, which the target lacks: "
            f"{_without_features(target)}\n"
            f"  legal: a target that has it (-mattr={','.join('+' + f for f in missing)}), or a "
            "schedule without this instruction"
        )


def _without_features(target: Target) -> str:
    """A target as text; the long list that -mcpu=native stands for is left out."""
    if len(target.mattr) < 8:
        return str(target)
    return str(Target({k: v for k, v in target.export().items() if k != "mattr"}))
