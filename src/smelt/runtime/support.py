"""Which kinds of target this installation can compile for and run."""

from __future__ import annotations

import importlib.util

# what can be compiled today, and the package that this needs
_PACKAGES = {"llvm": "llvmlite", "cpu": "llvmlite"}


def enabled(target: str) -> bool:
    """Whether code for a target of this kind can be made and run here; an unknown kind is not.

    target  a kind, or a target string that begins with one: "llvm -mcpu=native"
    """
    words = target.split()
    package = _PACKAGES.get(words[0]) if words else None
    return package is not None and importlib.util.find_spec(package) is not None
