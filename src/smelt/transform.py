"""Passes and the context they run in, under the classic names.

with smelt.transform.PassContext(opt_level=3):
    lib = smelt.relay.build(mod, target="llvm -mcpu=native")

The context is read once, where a public function starts; the compiler itself takes Options.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.options import Options

__all__ = ["Pass", "PassContext", "PassInfo", "Sequential"]

_PREFIX = "smelt."
_CONFIG = {_PREFIX + f.name: f.name for f in fields(Options) if f.name != "opt_level"}


@dataclass(frozen=True)
class PassInfo:
    """What a pass says of itself. opt_level: the lowest level at which a Sequential runs it."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()


class PassContext:
    """How to compile, for the `with` block around a call.

    opt_level      0 to 3, see Options
    required_pass  names of passes to run whatever their level is
    disabled_pass  names of passes not to run
    instruments    objects with any of enter_pass_ctx(), exit_pass_ctx(), should_run(mod, info),
                   run_before_pass(mod, info), run_after_pass(mod, info)
    config         "smelt." and the name of one of the Options, e.g. {"smelt.threads": 1}
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Check what is given."""
        self.opt_level = opt_level
        self.required_pass = _names("required_pass", required_pass)
        self.disabled_pass = _names("disabled_pass", disabled_pass)
        self.instruments = tuple(instruments or ())
        self.config = dict(config or {})
        self._tokens: list[Token[PassContext | None]] = []
        self.options = Options(opt_level=opt_level, **_options(self.config))

    @staticmethod
    def current() -> PassContext:
        """The innermost context, or smelt's defaults (opt_level 3) where there is none."""
        return _CURRENT.get() or PassContext(opt_level=Options().opt_level)

    @property
    def plain(self) -> bool:
        """Whether nothing but Options was asked for."""
        return not (self.required_pass or self.disabled_pass or self.instruments)

    def __enter__(self) -> PassContext:
        self._tokens.append(_CURRENT.set(self))
        self.tell("enter_pass_ctx")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _CURRENT.reset(self._tokens.pop())
        self.tell("exit_pass_ctx")

    def tell(self, event: str, *args: Any) -> list[Any]:
        """Call a method of the instruments that have it."""
        return [getattr(i, event)(*args) for i in self.instruments if hasattr(i, event)]

    def enabled(self, info: PassInfo) -> bool:
        """Whether a Sequential runs this pass."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def __repr__(self) -> str:
        return f"PassContext(opt_level={self.opt_level}, config={self.config})"


_CURRENT: ContextVar[PassContext | None] = ContextVar("smelt.transform.PassContext", default=None)


def _names(what: str, given: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(given, str):
        raise CompileError(f"PassContext: {what} is a list of names, e.g. [{given!r}]")
    return tuple(given or ())


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    for key in config:
        if key not in _CONFIG:
            near = difflib.get_close_matches(key, _CONFIG, 3)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise CompileError(
                f"PassContext has no config {key!r}{hint}; configs: {', '.join(_CONFIG)}"
            )
    return {_CONFIG[key]: value for key, value in config.items()}


class Pass:
    """A function from a module to a module, with a name."""

    def __init__(self, fn: Callable[[Any], Any], info: PassInfo) -> None:
        """Name a function."""
        self.fn, self.info = fn, info

    def __call__(self, mod: Any) -> Any:
        """Run it, under the instruments of the current context."""
        context = PassContext.current()
        if not all(context.tell("should_run", mod, self.info)):
            return mod
        context.tell("run_before_pass", mod, self.info)
        made = self.fn(mod)
        context.tell("run_after_pass", made, self.info)
        return made

    def __repr__(self) -> str:
        return f"Pass({self.info.name}, opt_level={self.info.opt_level})"


class Sequential(Pass):
    """Passes one after the other; the current context decides which of them run."""

    def __init__(
        self, passes: Sequence[Callable[[Any], Any]], opt_level: int = 0,
        name: str = "sequential", required: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """passes: of relay.transform, or plain functions from a module to a module."""
        self.passes = tuple(passes)
        super().__init__(self._all, PassInfo(name, opt_level, tuple(required)))

    def _all(self, mod: Any) -> Any:
        context = PassContext.current()
        for step in self.passes:
            if not isinstance(step, Pass) or context.enabled(step.info):
                mod = step(mod)
        return mod
