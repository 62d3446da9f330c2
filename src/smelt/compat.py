"""smelt under the classic name: programs of the classic stack run without a changed line.

    import smelt.compat
    smelt.compat.as_tvm()
    import tvm                      # this is smelt
    from tvm import relay

`python -m smelt.compat program.py arguments...` runs a program that way.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType

import smelt

__all__ = ["as_tvm"]

CLASSIC = "tvm"


class _Loader(importlib.abc.Loader):
    """Gives smelt's module for a classic name: one module under two names."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        made = importlib.import_module(self.name)
        self.spec = made.__spec__
        return made

    def exec_module(self, module: ModuleType) -> None:
        # The import system has set the classic name's spec; the module keeps its own.
        module.__spec__ = self.spec


class _Finder(importlib.abc.MetaPathFinder):
    """Finds smelt.a.b where tvm.a.b is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """None where smelt has no such module: Python then says that there is none."""
        if fullname != CLASSIC and not fullname.startswith(CLASSIC + "."):
            return None
        ours = "smelt" + fullname.removeprefix(CLASSIC)
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, _Loader(ours), is_package=package)


def as_tvm() -> None:
    """Let `import tvm` give smelt, in this process. Refused where another tvm is loaded already."""
    loaded = sys.modules.get(CLASSIC)
    if loaded is not None and loaded is not smelt:
        place = getattr(loaded, "__file__", "no file")
        raise ImportError(
            f"{CLASSIC} is imported already, from {place}; call smelt.compat.as_tvm() first"
        )
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules[CLASSIC] = smelt


def main(arguments: Sequence[str]) -> None:
    """Run a program of the classic stack."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m smelt.compat program.py [arguments]\n\n"
              "Runs a program in which `import tvm` gives smelt.")  # fmt: skip
        return
    as_tvm()
    sys.argv = list(arguments)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
