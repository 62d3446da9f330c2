"""The commands, each imported when it is called, and what every one of them has in common."""

import dataclasses
import importlib
import inspect
import signal
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import smelt

COMMANDS = {
    "compile": (
        "compile:compile_model",
        "Compile a model, for this machine or another one, and write it as a library.",
    ),
    "run": ("run:run", "Run a model once."),
    "check": (
        "check:check",
        "Say what of a model works, and compare its results with onnxruntime's or TFLite's.",
    ),
    "bench": ("run:bench", "Time a model."),
    "profile": (
        "profile:profile",
        "Time every kernel of a model: GFLOP/s, and the share of the machine's measured limit.",
    ),
    "show": (
        "show:show",
        "Print a model as it stands at some stage of the compiler, or write a page of all of it.",
    ),
    "convert": ("convert:convert", "Write a model as a standard ONNX model."),
    "quantize": (
        "quantize:quantize",
        "Quantize a model with samples of its inputs, and write it as an ONNX model.",
    ),
    "tune": (
        "tune:tune",
        "Look for faster schedules of a model's kernels by measuring, and keep them in a file.",
    ),
    "why": (
        "why:why",
        "Print how kernels are scheduled, what else fits and is predicted to take longer, and what "
        "was refused with its reason.",
    ),
    "records": (
        "records:records",
        "List the records of tuning, or carry them from one database to another.",
    ),
    "memory": (
        "memory:memory",
        "Print the memory that a model needs as C: step by step, its peak, its constants.",
    ),
    "micro": ("micro:micro", "Run a model on a board that QEMU emulates, or profile it there."),
    "targets": (
        "machine:targets",
        "List what smelt can compile for today, and describe this machine's CPU.",
    ),
    "devices": ("devices:devices", "Keep other machines under names, and ask them what they are."),
    "demo": (
        "demo:demo",
        "Build a ResNet-18, compile it, check it against onnxruntime, and time both.",
    ),
}
"""Name -> the function in this room, and the first sentence of what it says of itself."""

_FILES = (".onnx", ".tflite", ".so", ".tar", ".vm")
"""What models, and what was compiled of them, end in."""

_ALONE = {"tune": ("--page",)}
"""Options that may stand without their value, which is "" then."""


class Commands(TyperGroup):
    """The table above, which is enough for `--help`; the one that is called is loaded."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as it stands in the list of `--help`."""
        known = COMMANDS.get(cmd_name)
        return known and TyperCommand(cmd_name, help=known[1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, loaded; Ctrl-C is its own business from here on."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            is_file = args[0].endswith(_FILES)
            # Loaded for a mistake only: it brings numpy.
            nearest = importlib.import_module("smelt.runtime.errors").nearest
            near = f"; nearest: run {args[0]}" if is_file else nearest(args[0], COMMANDS)
            ctx.fail(f"no command {args[0]!r}{near}; commands: {', '.join(COMMANDS)}")
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = _loaded(name)
            rest = _filled(rest, _ALONE.get(name, ()))
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        return name, command, rest


def _filled(args: list[str], names: tuple[str, ...]) -> list[str]:
    """Arguments in which these options have a value: an option or a model behind one is none."""
    behind = [*args[1:], "-"]
    return [
        f"{a}=" if a in names and (b.startswith("-") or b.endswith(_FILES)) else a
        for a, b in zip(args, behind, strict=False)
    ]


def _loaded(name: str) -> Any:
    """A command with its arguments."""
    module, function = COMMANDS[name][0].split(":")
    one = typer.Typer(add_completion=False)
    one.command(name)(spread(getattr(importlib.import_module(f"smelt.cli.{module}"), function)))
    return typer.main.get_command(one)


def spread(command: Any) -> Any:
    """A command with an option for every field, where a parameter is a dataclass."""
    own = inspect.signature(command).parameters
    groups: dict[str, Any] = {
        n: p.annotation for n, p in own.items() if dataclasses.is_dataclass(p.annotation)
    }
    fields = {n: inspect.signature(group).parameters for n, group in groups.items()}

    def call(**given: Any) -> Any:
        for n, group in groups.items():
            given[n] = group(**{f: given.pop(f) for f in fields[n]})
        return command(**given)

    call.__doc__ = command.__doc__
    options = [o for n, p in own.items() for o in fields.get(n, {n: p}).values()]
    vars(call)["__signature__"] = inspect.Signature(options)
    return call


app = typer.Typer(
    name="smelt",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"smelt {smelt.__version__}")
        raise typer.Exit


@app.callback()
def group(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            show_default=False,
            help="Say on stderr what is done; -vv: every pass. Behind a command, too.",
        ),
    ] = 0,
) -> None:
    """Compile trained models to fast native code."""
    if verbose:
        importlib.import_module("smelt.cli.console").tell(verbose)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """A warning in one line, without the place in smelt that raises it."""
    print(f"smelt: warning: {message}", file=sys.stderr)


def run() -> None:
    """Run the command line; a mistake of the user is one message and exit code 2."""
    loud = [a for a in sys.argv[1:] if a in ("-v", "-vv", "--verbose")]
    quiet = [a for a in sys.argv[1:] if a not in loud]
    warnings.showwarning = _warn
    try:
        sys.exit(app([*loud, *quiet], prog_name="smelt", standalone_mode=False) or 0)
    except Exception as error:
        # Only what has been loaded by now can have raised, so nothing is imported for it in vain.
        sys.exit(importlib.import_module("smelt.cli.console").exit_code(error))
