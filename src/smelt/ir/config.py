"""The keys of `PassContext(config=...)`: one table, with what is legal and what each one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from smelt.runtime.errors import nearest

from .errors import CompileError
from .options import Options


@dataclass(frozen=True)
class ConfigKey:
    """One key.

    legal    the values it takes, in words
    default  what holds where the key is not given; a group's is that of its parts
    accepts  whether a value is legal
    parts    for a group, whose value is a mapping: its keys
    """

    name: str
    legal: str
    default: Any
    meaning: str
    accepts: Callable[[Any], bool]
    parts: tuple[ConfigKey, ...] = ()


def _flag(name: str, default: bool, meaning: str) -> ConfigKey:
    return ConfigKey(name, "True or False", default, meaning, lambda v: isinstance(v, bool))


def _count(name: str, default: int, meaning: str) -> ConfigKey:
    return ConfigKey(name, "an integer from 0", default, meaning, _is_count)


def _one_of(name: str, legal: tuple[int, ...], default: int, meaning: str) -> ConfigKey:
    text = f"one of {', '.join(map(str, legal))}"
    return ConfigKey(name, text, default, meaning, lambda v: _is_count(v) and v in legal)


def _is_count(v: object) -> bool:
    return isinstance(v, int) and not isinstance(v, bool) and v >= 0


def _group(name: str, meaning: str, *parts: ConfigKey) -> ConfigKey:
    legal = f"a mapping with any of {', '.join(p.name for p in parts)}"
    default = {p.name: p.default for p in parts}
    return ConfigKey(name, legal, default, meaning, lambda v: isinstance(v, Mapping), parts)


def _is_added(v: object) -> bool:
    if not isinstance(v, list | tuple):
        return False
    pairs = [x for x in v if isinstance(x, list | tuple) and len(x) == 2]
    return len(pairs) == len(v) and all(n in (0, 1, 2, 3) and callable(p) for n, p in pairs)


MEMORY_ALGORITHMS = (
    "greedy_by_size", "greedy_by_conflicts", "linear_scan", "hill_climb", "best",
)  # fmt: skip
"""The classic names of ways to place results in memory."""

OPTIONS: Mapping[str, str] = {
    "smelt." + f.name: f.name for f in fields(Options) if f.name != "opt_level"
}
"""The keys that stand for one of the Options, and its name."""

CONFIG: tuple[ConfigKey, ...] = (
    *[
        ConfigKey(key, f"see Options.{name}", None, f"Options({name}=...)", lambda v: True)
        for key, name in OPTIONS.items()
    ],
    _flag(
        "relay.ToMixedPrecision.keep_orig_output_dtype",
        False,
        "ToMixedPrecision leaves the types of results as they are",
    ),
    _flag(
        "relay.backend.use_auto_scheduler",
        False,
        "relay.build takes the schedules of the auto_scheduler.ApplyHistoryBest around it",
    ),
    ConfigKey(
        "tir.add_lower_pass",
        "a list of pairs (phase 0 to 3, pass)",
        (),
        "passes added to smelt.lower: phase 0 before all others, 1 behind FlattenBuffer, "
        "2 behind UnrollLoop, 3 behind all others",
        _is_added,
    ),
    _flag("tir.disable_vectorize", False, "vectorized loops become serial ones"),
    _flag("tir.disable_assert", False, "smelt.lower drops checks (SkipAssert)"),
    _flag("tir.disable_cse_tir", True, "False: smelt.lower ends with CommonSubexprElimTIR"),
    _flag(
        "tir.instrument_bound_checkers",
        False,
        "smelt.lower checks every access (InstrumentBoundCheckers) and vectorizes nothing",
    ),
    _flag(
        "tir.usmp.enable",
        False,
        'relay.build with Executor("aot"): memory is planned before the run (it always is)',
    ),
    ConfigKey(
        "tir.usmp.algorithm",
        f"one of {', '.join(MEMORY_ALGORITHMS)}",
        "greedy_by_size",
        "how results that are alive at different times share memory",
        lambda v: v in MEMORY_ALGORITHMS,
    ),
    ConfigKey(
        "tir.usmp.custom_algorithm",
        "a function, or NAME of one that is registered as tir.usmp.algo.NAME",
        None,
        "in place of those: what gives every block of memory its place",
        lambda v: v is None or callable(v) or isinstance(v, str),
    ),
    _flag("tir.usmp.use_workspace_io", False, "in C inputs and outputs stand in the workspace"),
    _group(
        "tir.UnrollLoop",
        "which loops UnrollLoop writes out without being asked by their kind",
        _count("auto_max_step", 0, "serial loops whose copies have at most so many statements"),
        _count("auto_max_depth", 8, "of these, those that hold at most so many unrolled loops"),
        _count("auto_max_extent", 0, "every serial loop of at most so many iterations"),
        _flag("explicit_unroll", True, "False: unrolled loops keep their kind instead"),
    ),
    _group(
        "tir.HoistExpression",
        "what HoistExpression moves out of loops",
        _one_of("hoisted_conditionals", (0, 1, 2, 3), 3, "a sum of HoistedConditionals"),
        _one_of("hoisted_let_bindings", (0, 2), 2, "one of HoistedLetBindings"),
    ),
)

_KEYS = {k.name: k for k in CONFIG}
MEMORY_KEYS = tuple([k for k in _KEYS if k.startswith("tir.usmp.")])
"""Those that say how memory is planned."""


def check_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all keys: those given, which must be legal, and the others' defaults."""
    values = {k.name: k.default for k in CONFIG if k.name not in OPTIONS}
    for name, value in config.items():
        key = _known(name, _KEYS, "PassContext has no config")
        _check(key, value, f"PassContext: config {name!r}")
        if key.parts:
            parts = {p.name: p for p in key.parts}
            for part, given in value.items():
                _check(
                    _known(part, parts, f"PassContext: config {name!r} has no"),
                    given,
                    f"PassContext: config {name!r}: {part}",
                )
            value = {**key.default, **value}
        values[name] = value
    return values


def _known(name: object, table: Mapping[str, ConfigKey], what: str) -> ConfigKey:
    if not isinstance(name, str) or name not in table:
        hint = nearest(str(name), table)
        raise CompileError(f"{what} {name!r}{hint}; configs: {', '.join(table)}")
    return table[name]


def _check(key: ConfigKey, value: Any, what: str) -> None:
    if not key.accepts(value):
        raise CompileError(f"{what} is {value!r}; legal: {key.legal}")
