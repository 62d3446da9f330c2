"""Options of a compilation, and the environment variables behind some of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self, TypedDict

from smelt.runtime.errors import nearest
from smelt.runtime.native import check_environment, cores

from .errors import CompileError


class OptionValues(TypedDict, total=False):
    """The fields of `Options` as keywords."""

    opt_level: int
    threads: int | None
    cache_dir: str | os.PathLike[str] | None
    workers: int | None
    verify: int
    dump_dir: str | os.PathLike[str] | None
    database: object


@dataclass(frozen=True)
class Options:
    """How to compile. All of it is part of every cache key that it can influence.

    opt_level  0: one plain kernel an operator; 1: fusion and default schedules; 2: constants
               folded, graph simplified; 3 (the default): attention recognised, operators by
               the fastest algorithm, which may round otherwise
    threads    processors to use; None: all that the process may use, or SMELT_NUM_THREADS
    cache_dir  folder of compiled kernels; None: SMELT_CACHE_DIR or the user's cache folder;
               "" switches the cache off
    workers    worker processes that compile; None: one a processor; 0: compile in this process
    verify     0: trust the passes; 1: verify imported graphs and scheduled programs; 2: every step
    dump_dir   folder for a text file a stage; None: SMELT_DUMP or nowhere
    database   of tuned schedules: the path of a file, a URL, or a `search` Database; kernels
               that have a winner there are scheduled by it
    """

    opt_level: int = 3
    threads: int | None = None
    cache_dir: str | os.PathLike[str] | None = None
    workers: int | None = None
    verify: int = 1
    dump_dir: str | os.PathLike[str] | None = None
    database: object = None

    def __new__(cls, *_: object, **named: object) -> Self:
        """Raises CompileError for a name there is not."""
        _check_names("smelt.Options", named)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, low, high in (("opt_level", 0, 3), ("verify", 0, 2)):
            value = getattr(self, name)
            if not _is_number(value) or not low <= value <= high:
                raise CompileError(f"Options.{name} is {value!r}; legal: {low} to {high}")
        if self.threads is not None and (not _is_number(self.threads) or self.threads < 1):
            raise CompileError(
                f"Options.threads is {self.threads!r}; legal: a positive integer, or None for all"
            )
        if self.workers is not None and (not _is_number(self.workers) or self.workers < 0):
            raise CompileError(f"Options.workers is {self.workers!r}; legal: 0 or more, or None")
        for name, none in (("cache_dir", "'' for no cache, "), ("dump_dir", "")):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str | os.PathLike):
                raise CompileError(
                    f"Options.{name} is {value!r}; legal: the path of a folder, {none}or None"
                )

    def updated(self, who: str, values: Mapping[str, object]) -> Options:
        """These options with some of them changed. Raises CompileError for a name there is not.

        who  asks, for the message
        """
        _check_names(who, values)
        return replace(self, **values)  # type: ignore[arg-type]

    @property
    def worker_count(self) -> int:
        """The worker processes that compile."""
        return self.workers if self.workers is not None else cores()

    @cached_property  # one compilation is for one number, though the process may be moved
    def cores(self) -> int:
        """The processors that the code will use."""
        if self.threads is not None:
            return self.threads
        have = cores()
        return min(check_environment() or have, have)

    def describe(self) -> str:
        """One line per option, for `smelt options` and dumps."""
        return "\n".join(f"{f.name} = {getattr(self, f.name)!r}" for f in fields(self))


_ARGUMENTS = {
    "smelt.compile": ("target", "shapes", "values", "operators", "options", "progress"),
    "smelt.compile_artifact": ("target", "shapes", "options", "progress"),
}
"""What else functions take by name."""


def _check_names(who: str, names: Collection[str]) -> None:
    known, arguments = [*Options.__dataclass_fields__], _ARGUMENTS.get(who, ())
    for name in names:
        if name not in known:
            more = f"; arguments: {', '.join(arguments)}" if arguments else ""
            raise CompileError(
                f"{who}: no option {name!r}{nearest(name, [*arguments, *known])}; "
                f"options: {', '.join(known)}{more}"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
