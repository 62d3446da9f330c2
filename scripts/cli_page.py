"""Writes docs/cli.md from the commands: `python scripts/cli_page.py`.

What the page says of arguments and options is read from the functions that the commands call, so
that it does not depend on the width of a terminal. The rest stands here.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
import typing
from pathlib import Path

from typer.models import ArgumentInfo, OptionInfo

from smelt.cli.commands import COMMANDS, group, spread

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"

START = """\
<!-- Written by scripts/cli_page.py: change that, or the commands, and run it again. -->

# Command line

```sh
smelt compile model.onnx -o model.so
smelt run model.so --input x.npy --output y.npy
```

`smelt --help` lists the commands, `smelt compile --help` the options of one; `-h` is short for
`--help`. Wherever `MODEL` may be something compiled before, `smelt compile` or `export_library` has
written it: a library (`.so`, `.tar`), or a program that decides while it runs (`.vm`). What was
compiled before is loaded as it is, so options that say how to compile are refused with it.

Inputs are random numbers unless `--input` names a file: `.npy` for one input, `.npz` with an array
of each name for several. Symbolic sizes of random inputs are those of `--at`; without it the first
likely ones, or else the smallest from 1 on, which is said on stderr. Sizes have the names that the
file or `--shape` gives them: [symbolic sizes](dynamic.md).

"""

END = """\
## Results, mistakes, exit codes

Results go to stdout; progress, the log and mistakes to stderr. `--json` prints the result as JSON,
for programs.

A mistake is one line, `smelt: error: ...`, without a Python traceback. Some have a second line,
which says what was expected.

```text
$ smelt compil model.onnx
smelt: error: no command 'compil'; nearest: compile; commands: compile, run, check, ...
```

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | `smelt check` or `smelt demo` found results that differ, or operators that do not work |
| 2 | a mistake in the arguments, the model, the inputs or the surroundings |
| 70 | a bug of smelt (`InternalError`): please report it |
| 130 | interrupted by Ctrl-C |

## What it is doing

`-v` says on stderr what the compiler does (kernels from the cache, kernels to compile, the time it
took), `-vv` every pass. Both may stand in front of the command or behind it.

```sh
smelt -v compile model.onnx -o model.so
smelt compile model.onnx -o model.so -vv
```

The same [environment variables](python.md#environment-variables) count as in Python.

## Shell completion

`smelt --install-completion` installs completion of commands for the current shell;
`smelt --show-completion` prints what it would install.
"""

EXAMPLES = {
    "compile": """\
        smelt compile model.onnx -o model.so --header
        smelt compile model.onnx --range n=1..16 --likely n=1,8 -o model.so
        smelt compile model.onnx --target x86-64-v2,x86-64-v3 -o model.so
        smelt compile model.onnx --target "llvm -mtriple=aarch64-linux-gnu" -o model.o""",
    "run": """\
        smelt run model.onnx --at n=5
        smelt run model.so --input x.npy --output y.npy""",
    "check": """\
        smelt check model.onnx --at n=5
        smelt check model.onnx --operators
        smelt check model.so --model model.onnx --at n=5""",
    "bench": """\
        smelt bench model.onnx --at n=5 --against onnxruntime
        smelt bench model.so --at n=5 --seconds 1 --json""",
    "profile": """\
        smelt profile model.onnx --at n=5
        smelt profile model.so --at n=5 --html profile.html --trace profile.json""",
    "show": """\
        smelt show model.onnx --stage fused
        smelt show model.onnx --shape x=5,64 -o model.html""",
    "convert": """\
        smelt convert model.onnx -o plain.onnx
        smelt convert model.onnx --opset 17 -o older.onnx""",
    "quantize": """\
        smelt quantize model.onnx --data samples.npz -o model.int8.onnx
        smelt quantize model.onnx --data samples.npz --max-drop 0.5 --page report.html -o int8.onnx
        smelt quantize model.onnx --activations float32 --weights int4 -o model.int4.onnx""",
    "tune": """\
        smelt tune model.onnx --minutes 0.2
        smelt tune model.onnx --kernel fused_matmul_add --trials 100 --page report.html""",
    "why": """\
        smelt why model.onnx
        smelt why model.onnx fused_matmul_add --measure --threads 1""",
    "records": """\
        smelt records model.smelt.db list
        smelt records model.smelt.db best --unconfirmed --json
        smelt records model.smelt.db export records.jsonl
        smelt records other.db merge model.smelt.db
        smelt records model.smelt.db prune --keep 100""",
    "memory": """\
        smelt memory model.onnx --shape x=1,64
        smelt memory model.onnx --shape x=1,64 --ram 65536 --page memory.html""",
    "micro": """\
        smelt micro run model.onnx --board mps2-an386 --shape x=1,64 --check
        smelt micro profile model.onnx --board mps2-an386 --shape x=1,64 -O s""",
    "targets": """\
        smelt targets
        smelt targets --measure --json""",
    "devices": """\
        smelt devices add rpi4 192.168.0.7:9090
        smelt devices
        smelt devices remove rpi4""",
    "demo": "smelt demo --seconds 1",
}

MORE = {
    "compile": "`.so` and `.tar` need a C compiler, `.o` does not: [artifacts](artifacts.md). "
    "For another machine it is one that makes code for it, and `--runner` writes the program that "
    "runs the library there, `--server` the one that runs libraries for programs elsewhere: "
    "[models for other machines](devices.md), [RPC](rpc.md). A "
    "model that decides while it runs may be called `.vm`, too: [programs that decide](vm.md). "
    "[Models in C](c.md) says what the header is for.",
    "check": "Each output is compared by itself. Without `--tolerance` its largest error may be as "
    "large as the roundings of its element type add up to over the depth of the model; whole "
    "numbers must be equal.",
    "bench": "With `--against onnxruntime` both are timed in turns, in this process.",
    "devices": "[Models for other machines](devices.md#machines-by-name) says what they are for.",
    "profile": "[Looking at programs](looking.md#profiles) says what the numbers mean.",
    "show": "[Looking at programs](looking.md) describes stages and pages.",
    "convert": "[ONNX models](onnx.md#writing-onnx) says what can be written.",
    "tune": "The table shows what was found so far: times that were not confirmed are dim. The "
    "page has the same over time, how predictions compare with measurements, and of each winner "
    "the schedule and the program beside the default's.",
    "why": "[Schedules](schedules.md) says what sketches and their decisions are.",
    "memory": "[Microcontrollers](micro.md) says what the numbers mean.",
    "micro": "[Microcontrollers](micro.md#running-on-a-board) says what is needed, and what is "
    "counted.",
    "targets": "[Machines](machine.md) says what the figures mean, and what they are for.",
}

_VALUES = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "FILE"}


def page() -> str:
    """The whole page."""
    summary = [f"| [`{n}`](#smelt-{n}) | {about} |" for n, (_, about) in COMMANDS.items()]
    parts = [START + "\n".join(["| command | what it does |", "|---|---|", *summary])]
    parts += [
        _table("option of all commands", _options(group)),
        *[_command(name) for name in COMMANDS],
    ]
    return "\n\n".join([*parts, END])


def _command(name: str) -> str:
    module, function = COMMANDS[name][0].split(":")
    call = getattr(importlib.import_module(f"smelt.cli.{module}"), function)
    about = inspect.getdoc(call) or ""
    paragraphs = [textwrap.fill(p, 100, break_on_hyphens=False) for p in about.split("\n\n")]
    parts = [f"## smelt {name}", *paragraphs]
    parts += [f"```sh\n{textwrap.dedent(EXAMPLES[name])}\n```"]
    if name in MORE:
        parts.append(textwrap.fill(MORE[name], 100, break_on_hyphens=False, break_long_words=False))
    parts += [_table("argument or option", rows) for rows in [_options(call)] if rows]
    return "\n\n".join(parts)


def _table(head: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"| {head} | default | meaning |", "|---|---|---|"]
    return "\n".join([*lines, *[f"| {' | '.join(row)} |" for row in rows]])


def _options(call: object) -> list[tuple[str, str, str]]:
    """Name, default and meaning of what a command takes, in order."""
    rows = []
    for p in inspect.signature(spread(call)).parameters.values():
        kind, info = typing.get_args(p.annotation)
        meaning = (info.help or "").replace("|", "\\|")
        if isinstance(info, ArgumentInfo):
            needed = "needed" if p.default is p.empty else ""
            rows.append((f"`{p.name.upper()}`", needed, meaning))
        elif isinstance(info, OptionInfo):
            meaning = _limits(kind, info, meaning)
            rows.append((_names(p.name, kind, info), _default(p.default), meaning))
    return rows


def _names(name: str, kind: object, info: OptionInfo) -> str:
    # In an annotation typer takes the first of an option's names for its default.
    declared = [d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str)]
    names = declared or [f"--{name.replace('_', '-')}"]
    args = [k for k in typing.get_args(kind) or (kind,) if k is not type(None)]
    first = args[0]
    many = typing.get_origin(first) is list
    plain = typing.get_args(first)[0] if many else first
    if plain is bool or info.count:
        value = ""
    elif hasattr(plain, "__members__"):
        value = " NAME"
    else:
        value = f" {info.metavar or _VALUES[plain]}"
    shown = ", ".join(f"`{n}{value}`" for n in names)
    return f"{shown}, repeatable" if many else shown


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return "needed"
    return "" if value is None or value is False or value == 0 else f"`{value}`"


def _limits(kind: object, info: OptionInfo, meaning: str) -> str:
    for k in typing.get_args(kind):
        if hasattr(k, "__members__"):
            return f"{meaning} One of {', '.join(k.__members__)}."
    if info.min is None and info.max is None:
        return meaning
    if info.max is None:
        return f"{meaning} At least {info.min}."
    return f"{meaning} From {info.min} to {info.max}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
