"""Passes, and the context they run in.

    with PassContext(opt_level=3, instruments=[PassTimingInstrument()]):
        mod = Sequential([first, second])(mod)

The context is read once, where a public function starts; the compiler itself takes Options.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

from .config import CONFIG, OPTIONS, check_config
from .errors import CompileError
from .module import IRModule
from .options import Options


@dataclass(frozen=True)
class PassInfo:
    """What a pass says of itself.

    opt_level  the lowest level at which a Sequential runs it
    required   names of passes that must have run before it in a Sequential
    """

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()


class PassContext:
    """How to compile, for the `with` block around a call.

    opt_level      0 to 3, see Options
    required_pass  names of passes to run whatever their level is
    disabled_pass  names of passes not to run
    instruments    objects with any of the methods of PassInstrument
    config         values by key; the keys are those of `smelt.ir.config.CONFIG`
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
        self._values = check_config(self.config)
        self._tokens: list[Token[PassContext | None]] = []
        given = {OPTIONS[k]: v for k, v in self.config.items() if k in OPTIONS}
        self.options = Options(opt_level=opt_level, **given)

    @staticmethod
    def current() -> PassContext:
        """The innermost context, or smelt's defaults (opt_level 3) where there is none."""
        return _CURRENT.get() or PassContext(opt_level=Options().opt_level)

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """By key of `config`: what is legal ("type") and what it does ("meaning")."""
        return {k.name: {"type": k.legal, "meaning": k.meaning} for k in CONFIG}

    @staticmethod
    def with_options(options: Options | None) -> PassContext:
        """The context around a call, with the options that the call was given, if any."""
        context = PassContext.current()
        if options is None:
            return context
        made = copy.copy(context)
        made.options, made.opt_level = options, options.opt_level
        return made

    def setting(self, key: str) -> Any:
        """The value of a config key; its default where none is given."""
        return self._values[key]

    def refuse(self, prefix: str, who: str, instead: str, follows: Sequence[str] = ()) -> None:
        """Raise where a config key is given that `who` does not follow; instead: what does."""
        for key in self.config:
            if key.startswith(prefix) and key not in follows:
                raise CompileError(f"{who} does not follow the config {key!r}; {instead} does")

    def __enter__(self) -> PassContext:
        self._tokens.append(_CURRENT.set(self))
        try:
            self._enter(self.instruments)
        except BaseException:
            _CURRENT.reset(self._tokens.pop())
            raise
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.reset(self._tokens.pop())
        self._leave(self.instruments)

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Exchange the instruments of a context that has been entered."""
        old, self.instruments = self.instruments, ()
        self._leave(old)
        self._enter(tuple(instruments or ()))
        self.instruments = tuple(instruments or ())

    @staticmethod
    def _enter(instruments: Sequence[Any]) -> None:
        """Tell all; where one refuses, those that had entered leave again."""
        for n, i in enumerate(instruments):
            try:
                _call(i, "enter_pass_ctx")
            except BaseException:
                PassContext._leave(instruments[:n])
                raise

    @staticmethod
    def _leave(instruments: Sequence[Any]) -> None:
        """Tell all, whatever one of them raises; the first error counts."""
        first: BaseException | None = None
        for i in instruments:
            try:
                _call(i, "exit_pass_ctx")
            except BaseException as e:
                first = first or e
        if first is not None:
            raise first

    def wanted(self, mod: Any, info: PassInfo) -> bool:
        """Whether the instruments let a pass run; one of required_pass runs in any case."""
        answers = [_call(i, "should_run", mod, info) for i in self.instruments]
        return info.name in self.required_pass or all(a is None or a for a in answers)

    def tell(self, event: str, *args: Any) -> None:
        """Call a method of the instruments that have it."""
        for i in self.instruments:
            _call(i, event, *args)

    def enabled(self, info: PassInfo) -> bool:
        """Whether a Sequential runs this pass."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def __repr__(self) -> str:
        return f"PassContext(opt_level={self.opt_level}, config={self.config})"


_CURRENT: ContextVar[PassContext | None] = ContextVar("smelt.ir.PassContext", default=None)


def _call(instrument: Any, event: str, *args: Any) -> Any:
    method = getattr(instrument, event, None)
    return None if method is None else method(*args)


def _names(what: str, given: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(given, str):
        raise CompileError(f"PassContext: {what} is a list of names, e.g. [{given!r}]")
    return tuple(given or ())


class Pass:
    """A function from a module to a module, with a name."""

    def __init__(self, fn: Callable[..., Any], info: PassInfo) -> None:
        """Name a function."""
        self.fn, self.info = fn, info

    def __call__(self, mod: Any) -> Any:
        """Run it, under the instruments of the current context."""
        return self.run(mod, PassContext.current())

    def run(self, mod: Any, context: PassContext) -> Any:
        """Run it under the instruments of a context."""
        if not self.wanted(mod, context):
            return mod
        context.tell("run_before_pass", mod, self.info)
        made = self.apply(mod, context)
        context.tell("run_after_pass", made, self.info)
        return made

    def wanted(self, mod: Any, context: PassContext) -> bool:
        """Whether the instruments let it run."""
        return context.wanted(mod, self.info)

    def apply(self, mod: Any, context: PassContext) -> Any:
        """The function on a module; instruments are not asked."""
        return self.fn(mod)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.name}, opt_level={self.info.opt_level})"


class Sequential(Pass):
    """Passes one after the other; the current context decides which of them run."""

    def __init__(
        self, passes: Sequence[Callable[[Any], Any]], opt_level: int = 0,
        name: str = "sequential", required: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """passes: Pass objects, or plain functions from a module to a module."""
        self.passes = tuple(passes)
        for p in self.passes:
            if not callable(p):
                raise CompileError(f"Sequential: {p!r} is no pass; give passes or functions")
        super().__init__(self, PassInfo(name, opt_level, tuple(required)))

    def apply(self, mod: Any, context: PassContext) -> Any:
        """Run the passes that the context enables."""
        done: list[str] = []
        for step in self.passes:
            if not isinstance(step, Pass):
                mod = _called(step, mod)
            elif context.enabled(step.info):
                missing = [n for n in step.info.required if n not in done]
                if missing:
                    raise CompileError(
                        f"{self.info.name}: the pass {step.info.name} needs {', '.join(missing)} "
                        f"before it; so far: {', '.join(done) or 'none'}"
                    )
                mod = step.run(mod, context)
                done.append(step.info.name)
        return mod


def _called(step: Callable[[Any], Any], mod: Any) -> Any:
    """A plain function among passes; one that takes no module makes passes, and is to be called."""
    try:
        inspect.signature(step).bind(mod)
    except TypeError as e:
        name = getattr(step, "__name__", repr(step))
        raise CompileError(f"Sequential: {name} is no pass: {e}; is {name}() meant?") from None
    except ValueError:  # no signature: a built-in
        pass
    return step(mod)


def make_pass(
    given: Any, kind: type[Pass], method: str, opt_level: int, name: str | None,
    required: Sequence[str] | None,
) -> Any:  # fmt: skip
    """A pass from a function, or a class of passes from a class with a method of that name.

    The function (or the method) is called with what `kind` runs it on and with the context.
    """
    if isinstance(required, str) or not all(isinstance(r, str) for r in required or ()):
        raise CompileError(f"required is a list of names of passes, not {required!r}")
    own = name or str(getattr(given, "__name__", "pass"))
    info = PassInfo(own, opt_level, tuple(required or ()))
    if not inspect.isclass(given):
        if not callable(given):
            raise CompileError(f"a pass is made from a function or a class, not {given!r}")
        return kind(given, info)
    if not hasattr(given, method):
        raise CompileError(f"the class {given.__name__} has no method {method}")

    @functools.wraps(given, updated=())
    class Made(kind):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            self.inner = given(*args, **options)
            super().__init__(getattr(self.inner, method), info)

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "inner":
                raise AttributeError(attribute)
            return getattr(self.inner, attribute)

    return Made


class ModulePass(Pass):
    """A pass on whole modules."""

    def apply(self, mod: Any, context: PassContext) -> Any:
        """The function on a module and the context."""
        if not isinstance(mod, IRModule):
            raise CompileError(
                f"{self.info.name} is a pass on modules; {type(mod).__name__} is none: "
                "IRModule({name: function}) makes one"
            )
        found = self.fn(mod, context)
        if not isinstance(found, IRModule):
            raise CompileError(
                f"{self.info.name} gave {type(found).__name__}; a pass on modules returns the "
                "IRModule that comes after it"
            )
        return found


def pass_decorator(
    name: str, kind: type[Pass], method: str, arguments: str
) -> Callable[..., Callable[..., Any]]:
    """A decorator that makes passes of a kind, e.g. `module_pass`.

    method     what a class has that becomes a class of passes
    arguments  of the functions and methods, for the documentation
    """

    def decorator(
        pass_func: Any = None, opt_level: int = 0, name: str | None = None,
        required: Sequence[str] | None = None, traceable: bool = False,
    ) -> Callable[..., Any]:  # fmt: skip
        def made(given: Any) -> Any:
            return make_pass(given, kind, method, opt_level, name, required)

        return made if pass_func is None else made(pass_func)

    decorator.__name__ = decorator.__qualname__ = name
    decorator.__doc__ = f"""A decorator that makes a pass of a function {arguments}.

    A class with a method {method}{arguments.partition(" ->")[0]} becomes a class of passes.

    opt_level  the lowest level at which a Sequential runs it
    name       that of the function where it is None
    required   names of passes that must have run before it in a Sequential
    traceable  there for the classic signature
    """
    return decorator


module_pass = pass_decorator("module_pass", ModulePass, "transform_module", "(mod, context) -> mod")
