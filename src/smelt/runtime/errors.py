"""Errors of the runtime, and the base of all of smelt's errors."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


class SmeltError(Exception):
    """The base of every error that smelt raises on purpose."""


class InputError(SmeltError):
    """A call that does not fit the model: a wrong count, name, dtype, shape or device."""


class LoadError(SmeltError):
    """A library that cannot be loaded: missing, damaged, of another version, for another CPU."""


class ExportError(SmeltError):
    """A library that cannot be written: no compiler, no permission, nothing to export."""


class MicroError(SmeltError):
    """A board that is not known, cannot be started, does not answer, or says what is wrong."""


class RuntimeFailure(SmeltError):
    """A model that was called rightly and failed: out of memory, a failing kernel."""


@contextmanager
def system_errors(kind: type[SmeltError], what: str) -> Iterator[None]:
    """What the operating system refuses inside is an error of smelt's, with its reason."""
    try:
        yield
    except OSError as e:
        raise kind(f"{what}: {e.strerror or e}") from None


def at_least(least: int, who: str, whole: bool = True, **numbers: Any) -> None:
    """Refuse what is below the least, or no number: who asks names it and its value."""
    for name, n in numbers.items():
        kind: Any = Integral if whole else Real
        if isinstance(n, bool) or not isinstance(n, kind) or not least <= n < math.inf:
            legal = f"{'whole ' if whole else ''}numbers from {least}"
            raise InputError(f"{who}: {name} is {n!r}; legal: {legal}")


def not_picklable(thing: object) -> ExportError:
    """The error for compiled code that is pickled, copied or saved like plain data."""
    return ExportError(
        f"{type(thing).__name__} holds machine code and cannot be pickled or saved as data; "
        "export_library(path) writes it to a file, which smelt.load reads"
    )


def kind_of(thing: object) -> str:
    """The type of a thing for a message: "a list", "an int"."""
    name = type(thing).__name__
    return f"an {name}" if name[0] in "AEIOaeio" else f"a {name}"


def closest(name: object, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that are spelt most like a name, in any case; the closest first."""
    lower: dict[str, str] = {}
    for k in known:
        lower.setdefault(k.lower(), k)
    return [lower[n] for n in difflib.get_close_matches(str(name).lower(), lower, most)]


def nearest(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: "; nearest: ..." or nothing."""
    near = closest(name, known)
    return f"; nearest: {', '.join(near)}" if near else ""


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """What says that a name is not there: "no output 'x'; nearest: y; outputs: y, z"."""
    names = list(known)
    return f"no {kind} {name!r}{nearest(name, names)}; {kind}s: {', '.join(names) or 'none'}"
