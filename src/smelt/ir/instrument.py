"""Instruments: what watches, times, prints or leaves out the passes of a PassContext.

timing = PassTimingInstrument()
with PassContext(instruments=[timing]):
    smelt.lower(func)
    print(timing.render())
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import CompileError
from .transform import PassInfo

_METHODS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")


class PassInstrument:
    """What a context calls; override any of the methods. Modules must not be changed."""

    def enter_pass_ctx(self) -> None:
        """The `with` block of the context begins."""

    def exit_pass_ctx(self) -> None:
        """The `with` block of the context ends."""

    def should_run(self, mod: Any, info: PassInfo) -> bool:
        """Whether a pass may run; one that the context requires runs in any case."""
        return True

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """A pass is about to run."""

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """A pass has made `mod`."""


def pass_instrument(pi_cls: Any = None) -> Callable[..., Any]:
    """A decorator that makes a PassInstrument of a class with any of its methods."""

    def made(given: Any) -> Callable[..., Any]:
        if not inspect.isclass(given):
            raise CompileError(f"pass_instrument decorates a class, not {given!r}")
        if not any(hasattr(given, m) for m in _METHODS):
            raise CompileError(
                f"the class {given.__name__} has none of the methods {', '.join(_METHODS)}"
            )
        if issubclass(given, PassInstrument):
            return given
        bases = (given, PassInstrument)
        return functools.wraps(given, updated=())(type(given.__name__, bases, {}))

    return made if pi_cls is None else made(pi_cls)


# ------------------------------------------------------------------------------------- timing


class _Span:
    """One run of a pass: its name, its seconds, the passes that ran inside."""

    def __init__(self, name: str) -> None:
        self.name, self.seconds = name, 0.0
        self.inside: list[_Span] = []


class PassTimingInstrument(PassInstrument):
    """Times passes. `render()` gives a table while the context lasts; the next one starts anew."""

    def __init__(self) -> None:
        """Nothing has run."""
        self.enter_pass_ctx()

    def enter_pass_ctx(self) -> None:
        """Forget what was timed before."""
        self._root = _Span("all")
        self._open: list[tuple[_Span, float]] = []

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Start the clock."""
        span = _Span(info.name)
        (self._open[-1][0] if self._open else self._root).inside.append(span)
        self._open.append((span, time.perf_counter()))

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Stop it; passes inside that raised are left behind."""
        while self._open:
            span, start = self._open.pop()
            span.seconds = time.perf_counter() - start
            if span.name == info.name:
                break

    def render(self) -> str:
        """One line a pass: milliseconds, share of the whole, name; indented by nesting."""
        total = sum(s.seconds for s in self._root.inside)
        lines = [f"{total * 1e3:10.3f} ms  100.0 %  all passes"]
        stack = [(s, 1) for s in reversed(self._root.inside)]
        while stack:
            span, depth = stack.pop()
            share = span.seconds / total * 100 if total else 0.0
            lines.append(
                f"{span.seconds * 1e3:10.3f} ms  {share:5.1f} %  {'  ' * depth}{span.name}"
            )
            stack.extend((s, depth + 1) for s in reversed(span.inside))
        return "\n".join(lines)


# ----------------------------------------------------------------------------------- printing


class PassPrintingInstrument(PassInstrument):
    """Prints modules before and after the passes of some names; None: of all."""

    def __init__(
        self,
        print_before_pass_names: Sequence[str] | None = (),
        print_after_pass_names: Sequence[str] | None = (),
    ) -> None:
        """Names of passes; a text of its own is refused."""
        for names in (print_before_pass_names, print_after_pass_names):
            if isinstance(names, str):
                raise CompileError(f"give a list of names of passes, e.g. [{names!r}]")
        self.before, self.after = print_before_pass_names, print_after_pass_names

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Print what the pass gets."""
        self._print("Before", self.before, mod, info)

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print what the pass made."""
        self._print("After", self.after, mod, info)

    def _print(self, when: str, names: Sequence[str] | None, mod: Any, info: PassInfo) -> None:
        if names is None or info.name in names:
            sys.stdout.write(f"# {when} {info.name}\n{str(mod).rstrip()}\n\n")


class PrintBeforeAll(PassPrintingInstrument):
    """Prints the module before every pass."""

    def __init__(self) -> None:
        """All passes."""
        super().__init__(None, ())


class PrintAfterAll(PassPrintingInstrument):
    """Prints the module after every pass."""

    def __init__(self) -> None:
        """All passes."""
        super().__init__((), None)


class DumpIR(PassInstrument):
    """Writes the module after every pass to FOLDER/NNN_pass.py, counted from 000.

    refresh  remove the files of an earlier run where the context begins
    """

    def __init__(self, dump_dir: str | os.PathLike[str], refresh: bool = False) -> None:
        """The folder is made where it is not there."""
        self.folder, self.refresh, self.count = Path(dump_dir), refresh, 0

    def enter_pass_ctx(self) -> None:
        """Count from 000."""
        self.count = 0
        if self.refresh:
            for old in self.folder.glob("[0-9][0-9][0-9]_*.py"):
                old.unlink(missing_ok=True)

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Write the module."""
        name = re.sub(r"\W", "_", info.name)
        file = self.folder / f"{self.count:03d}_{name}.py"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(str(mod).rstrip() + "\n")
        except OSError as e:
            raise CompileError(f"cannot write dumps to {self.folder}: {e.strerror}") from e
        self.count += 1
