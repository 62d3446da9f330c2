"""The way in: commands, exit codes, mistakes."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import smelt
from smelt.auto_scheduler import HardwareParams
from smelt.cli.console import tell
from smelt.cli.main import INTERRUPTED
from smelt.ir.errors import InternalError, SmeltError
from smelt.relay.backend import Executor, Runtime

from . import arguments
from .autotuner import tune_model
from .compiler import compile_model
from .micro import micro_options, run_project
from .model import TVMCException, TVMCPackage, load_model
from .runner import read_inputs, run_module, top_text

Asked = argparse.Namespace


def drive_compile(asked: Asked) -> None:
    """Carry out `tvmc compile`."""
    model, given = load_model(asked.FILE, asked.model_format, asked.input_shapes), _rest(asked)
    name, options = given.pop("executor"), given.pop("executor_options")
    runtime = arguments.chosen(Runtime, given.pop("runtime"), given.pop("runtime_options"))
    if name == "vm" and options:
        raise TVMCException("--executor vm has no options; leave --executor-... out")
    executor = None if name == "vm" else arguments.chosen(Executor, name, options)
    compile_model(model, executor=executor, runtime=runtime, use_vm=name == "vm", **given)


def drive_tune(asked: Asked) -> None:
    """Carry out `tvmc tune`; Ctrl-C loses nothing."""
    model, given = load_model(asked.FILE, asked.model_format, asked.input_shapes), _rest(asked)
    said = {n: given.pop(n) for n in ("num_cores", "vector_unit_bytes", "cache_line_bytes")}
    given["hardware_params"] = HardwareParams(**said) if any(said.values()) else None
    given["hostname"], given["port"] = given.pop("rpc_tracker")
    try:
        tune_model(model, **given)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; {asked.tuning_records} has what was measured: the same command goes on"
        )
        raise


def drive_run(asked: Asked) -> None:
    """Carry out `tvmc run`."""
    for name in ("repeat", "number", "end_to_end"):
        if getattr(asked, name) not in (None, False) and not asked.print_time:
            raise TVMCException(f"--{name.replace('_', '-')} belongs to --print-time: give it, too")
    repeat, number = [1 if n is None else n for n in (asked.repeat, asked.number)]
    inputs = {} if asked.inputs is None else read_inputs(asked.inputs)
    host, port = asked.rpc_tracker
    if _on_board(asked):
        result = run_project(asked.PATH, inputs, asked.fill_mode, asked.project_option)
    else:
        result = run_module(
            TVMCPackage(asked.PATH), asked.device, host, port, asked.rpc_key, inputs,
            asked.fill_mode, asked.print_time, repeat, number, asked.profile, asked.end_to_end,
        )  # fmt: skip
    if asked.print_time:
        print(result.format_times())
    if asked.print_top is not None:
        print(top_text(result.get_output("output_0"), asked.print_top))
    if asked.outputs is not None:
        result.save(asked.outputs)


def _on_board(asked: Asked) -> bool:
    """Whether PATH is a project. Raises TVMCException for options that are not for those."""
    if asked.device == "micro" and (asked.print_time or asked.profile or asked.rpc_tracker[0]):
        raise TVMCException("--device micro: --print-time, --profile and --rpc-tracker are of "
                            "packages; smelt.micro.Session tells what a board needs")  # fmt: skip
    if asked.project_option and asked.device != "micro":
        raise TVMCException("--project-option is of projects: give --device micro, too")
    return bool(asked.device == "micro")


def _rest(asked: Asked) -> dict[str, Any]:
    """The options that are arguments of a function of the same names."""
    used = ("FILE", "model_format", "input_shapes", "command", "verbose")
    return {n: v for n, v in vars(asked).items() if n not in used}


def parser() -> arguments.Parser:
    """All commands and their options."""
    made = arguments.Parser(prog="tvmc", description="Compiles, runs and tunes models.",
                            fromfile_prefix_chars="@", allow_abbrev=False)  # fmt: skip
    made.add_argument("--version", action="version", version=smelt.__version__)
    arguments.common(made, arguments.CONFIG_FILE)
    commands = made.add_subparsers(title="commands", parser_class=arguments.Parser)
    rows: list[tuple[str, str, Callable[[Asked], None], list[Callable[[Any], object]]]] = [
        ("compile", "compile a model", drive_compile,
         [arguments.compile_options, arguments.model_options]),
        ("run", "run a package", drive_run, [arguments.run_options]),
        ("tune", "look for faster schedules of a model's kernels", drive_tune,
         [arguments.tune_options, arguments.model_options]),
    ]  # fmt: skip
    for name, about, command, parts in rows:
        one = commands.add_parser(name, help=about, description=about)
        for add in [*parts, arguments.common]:
            add(one)
        one.set_defaults(command=command)
    about = "make, build and flash projects for microcontrollers"
    micro_options(commands.add_parser("micro", help=about, description=about))
    return made


def run() -> None:
    """The command, once all of it is loaded."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def main(words: Sequence[str] | None = None) -> None:
    """Run a command, and end the process: 0, 1 for mistakes, 130 for Ctrl-C."""
    made, code = parser(), 0
    try:
        asked = made.parse_args(words)
        if getattr(asked, "verbose", 0):
            tell(asked.verbose)
        if "command" in asked:
            asked.command(asked)
        else:
            made.print_help()
            code = 1
    except InternalError:
        raise
    except (SmeltError, MemoryError, OSError) as e:
        named = f"{e.filename}: {e.strerror}" if isinstance(e, OSError) and e.filename else str(e)
        print(f"Error: {named or type(e).__name__}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)
