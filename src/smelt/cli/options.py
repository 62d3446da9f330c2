"""The arguments that several commands take, and what they say of a compilation."""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import typer

import smelt
from smelt.cli.console import UsageError, progress
from smelt.cli.inputs import given_inputs
from smelt.cli.results import Array
from smelt.cli.sizes import Shapes, SizeOptions
from smelt.codegen.llvm import resolve
from smelt.frontend.source import load_model
from smelt.ir.memory_pools import Pool
from smelt.pipeline import as_target
from smelt.rpc.devices import find_device, target_for
from smelt.rpc.executable import RemoteExecutable, send
from smelt.runtime import Executable
from smelt.runtime.module import read_metadata

Model = Annotated[str, typer.Argument(help="A model file (.onnx, .tflite).", show_default=False)]
Loadable = Annotated[
    str,
    typer.Argument(
        help="A model file (.onnx, .tflite), or what was compiled before (.so, .tar, .vm).",
        show_default=False,
    ),
]
Target = Annotated[
    str | None, typer.Option(help="What to compile for, such as 'llvm -mcpu=native'.")
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="The shape of an input: NAME=1,3,224,224 or NAME=n,3,224,224; once for each input.",
    ),
]
Range = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        help="The values a size may have, by its name in --shape or in the file: n=1..16, n=0.. "
        "or n=..512.",
    ),
]
Likely = Annotated[
    list[str] | None,
    typer.Option("--likely", help="Values of a symbolic size that get code of their own: n=1,8."),
]
State = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        help="An input that is an output of the call before, which the model keeps: "
        "past=present, once for each; a * in both stands for the same part.",
    ),
]
At = Annotated[
    list[str] | None, typer.Option("--at", help="A symbolic size of the random inputs: n=4.")
]
Input = Annotated[
    str | None, typer.Option("--input", help="A .npy or .npz file; random inputs without one.")
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="Another machine, which `smelt devices add` has made known: the model is compiled for "
        "it, sent there and run there.",
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, show_default=False, help="Cores to use; all without it.")
]
OptLevel = Annotated[
    int | None,
    typer.Option(
        "--opt-level",
        min=0,
        max=3,
        show_default=False,
        help="0: a kernel an operator; 1: fusion; 2: simplification; 3: the fastest algorithms "
        "(the default).",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Schedule kernels as `smelt tune` has found it best: the file, or the URL, that it "
        "has written.",
        show_default=False,
    ),
]
_POOL = "the fastest first, once each: NAME=BYTES, NAME=64K, or NAME where any size will do."
Pools = Annotated[list[str] | None, typer.Option("--pool", help=f"Memories for results, {_POOL}")]
ConstantPools = Annotated[
    list[str] | None, typer.Option("--constant-pool", help=f"Memories for constants, {_POOL}")
]
Stream = Annotated[
    bool,
    typer.Option("--stream/--no-stream", help="Run kernels row by row where that saves memory."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

_POOL_TEXT = re.compile(r"(\w+)(?:=(\d+)([KM]?))?")
COMPILED = (".so", ".tar", ".vm")
"""The endings of what was compiled before."""


@dataclass(frozen=True)
class Build:
    """What a command says of how a model is compiled, as its options."""

    target: Target = None
    shape: Shape = None
    range_: Range = None
    likely: Likely = None
    state: State = None
    threads: Threads = None
    opt_level: OptLevel = None
    database: Database = None

    @property
    def given(self) -> bool:
        """Whether anything is said of the compilation."""
        return any(getattr(self, f.name) is not None for f in fields(Build))

    def options(self) -> smelt.Options:
        """The options of the compilation."""
        check_database(self.database)
        known = {n: getattr(self, n) for n in ("threads", "opt_level", "database")}
        return smelt.Options().updated("smelt", {k: v for k, v in known.items() if v is not None})

    def shapes(self, model: str) -> Shapes | None:
        """The shapes of the model's inputs, where the options say something of them."""
        sizes = SizeOptions(self.shape, self.range_, self.likely)
        return sizes.shapes(lambda: load_model(model).graph.inputs) or None

    def states(self) -> dict[str, str]:
        """The inputs that the model keeps, and the outputs that they are."""
        found: dict[str, str] = {}
        for text in self.state or ():
            name, there, output = text.partition("=")
            if not (name and there and output) or name in found:
                raise UsageError(f"--state {text}: an input and an output, once each: past=present")
            found[name] = output
        return found

    def resolved(self) -> smelt.Target:
        """What is compiled for."""
        return resolve(as_target(self.target))

    def leaves(self, model: str) -> None:
        """Refuse to change what was compiled before."""
        if self.given:
            raise UsageError(
                f"{model} is compiled already: --target, --shape, --range, --likely, "
                "--state, --threads, --opt-level and --database cannot change it"
            )

    def load(self, model: str) -> Executable:
        """A compiled model: what was compiled before is loaded, anything else is compiled."""
        if model.endswith(COMPILED):
            self.leaves(model)
            return smelt.load(model)
        shapes, states = self.shapes(model), self.states()
        with progress() as report:
            return smelt.compile(
                model, self.target, shapes=shapes, state=states, options=self.options(),
                progress=report,
            )  # fmt: skip


@dataclass(frozen=True)
class Run(Build):
    """What a command says of how a model is compiled and run."""

    input_file: Input = None
    at: At = None
    device: Device = None

    def ready(self, model: str) -> tuple[Executable, list[Array]]:
        """The compiled model and its inputs."""
        exe = self.load(model) if self.device is None else self.sent(model, self.device)
        return exe, given_inputs(model, exe, self.input_file, self.at)

    def sent(self, model: str, name: str) -> RemoteExecutable:
        """The model on a device, compiled for it unless it was before."""
        device = find_device(name)
        session = device.open()
        if model.endswith(COMPILED):
            self.leaves(model)
            return RemoteExecutable(session, model, read_metadata(model))
        target = as_target(self.target) if self.target else target_for(device, session.about)
        cores = self.threads or int(session.about.get("cores") or 1)
        with progress() as report:
            artifact = smelt.compile_artifact(
                model, target, shapes=self.shapes(model), state=self.states(),
                options=replace(self.options(), threads=cores), progress=report,
            )  # fmt: skip
        return send(session, artifact, f"{Path(model).stem}.so")


def pools(results: Pools, constants: ConstantPools) -> list[Pool]:
    """The memories that options tell of."""
    found = []
    for option, texts in (("--pool", results), ("--constant-pool", constants)):
        for text in texts or ():
            given = _POOL_TEXT.fullmatch(text)
            if given is None:
                raise UsageError(f"{option} {text}: legal: sram, sram=65536, sram=64K, sram=1M")
            name, size, unit = given.groups()
            count = None if size is None else int(size) << {"": 0, "K": 10, "M": 20}[unit]
            found.append(Pool(name, count, constants=option != "--pool"))
    return found


def needs_source(model: str) -> None:
    """Refuse what was compiled before, where the model itself is needed."""
    if model.endswith(COMPILED):
        raise UsageError(f"{model} is compiled already: this command needs the model itself")


def keeps_source(model: str, output: str) -> None:
    """Refuse to write over the model that is read: what is written cannot give it back."""
    if Path(model).is_file() and Path(output).is_file() and Path(model).samefile(output):
        raise UsageError(f"--output {output} is the model itself; give another file")


def check_database(database: str | None) -> None:
    """Refuse a database that is not there, which would be made and say nothing."""
    if database is not None and "://" not in database and not Path(database).exists():
        raise UsageError(
            f"--database {database}: there is no such file; smelt tune MODEL --database {database} "
            "writes it"
        )
