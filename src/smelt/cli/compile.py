"""The command `compile`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import smelt
from smelt.cli.console import UsageError, megabytes, notice, progress, say, say_json
from smelt.cli.results import memory_bytes
from smelt.codegen.llvm import is_native
from smelt.levels import Levels, is_list, level_targets
from smelt.micro import c_target, compile_c, is_c, with_cmsis_nn
from smelt.runtime.files import check_library, check_target, is_special, library_kind
from smelt.runtime.linking import export_runner, export_server
from smelt.runtime.web import check_folder
from smelt.target.processor import architecture

from . import options

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        show_default=False,
        help="Write a shared library here (.so, .dll for Windows, .tar; .vm if the model decides "
        "while it runs), or code and constants alone (.o, and a header beside it); for --target c "
        "a source (.c); for WebAssembly the folder of a package of JavaScript.",
    ),
]
Header = Annotated[bool, typer.Option("--header", help="Write a C header beside the library, too.")]
Compiler = Annotated[
    str | None,
    typer.Option(
        show_default=False,
        help="The C compiler that links the library, e.g. aarch64-linux-gnu-gcc; by default one "
        "that is installed, for another machine its cross compiler, or ziglang.",
    ),
]
Runner = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        help="Write the program smelt-run, too, which runs libraries on the target's machine "
        "without Python.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        show_default=False,
        help="Write the program smelt-server, too, which runs libraries on the target's machine "
        "for programs elsewhere, without Python.",
    ),
]


@dataclass(frozen=True)
class Source:
    """What the command says of a model as C."""

    name: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="With --target c: what names of C begin with; without it the model's name.",
        ),
    ] = None
    pool: options.Pools = None
    constant_pool: options.ConstantPools = None
    stream: options.Stream = True

    def check(self) -> None:
        """Refuse all of it for other targets."""
        for option, said in (("--name", self.name), ("--pool", self.pool),
                             ("--constant-pool", self.constant_pool),
                             ("--no-stream", not self.stream)):  # fmt: skip
            if said:
                raise UsageError(f"{option} belongs to C; give --target c, or leave it out")


@dataclass(frozen=True)
class Written:
    """What the command is asked to write."""

    output: Output = None
    header: Header = False
    cc: Compiler = None
    runner: Runner = None
    server: Server = None

    def check(self, target: smelt.Target) -> None:
        """Refuse what cannot be written, or would not be."""
        if self.output is not None and is_package(self.output, target):
            check_folder(Path(self.output))
            return
        if self.output is not None:
            native = is_native(target)
            triple = "" if native else target.mtriple
            check_library(self.output, triple, code=True, vm=native)
            if self.cc and self.output.endswith(".o"):
                legal = ", ".join(library_kind(triple)[0])
                raise UsageError(f"--cc links a library, and {self.output} is none; legal: {legal}")
        elif self.header or (self.cc and self.runner is None and self.server is None):
            asked = "--header writes a header beside" if self.header else "--cc links"
            raise UsageError(f"{asked} the library: give -o FILE.so too")

    def write_programs(self, target: smelt.Target) -> None:
        """Write smelt-run and smelt-server, if they are asked for."""
        triple = "" if is_native(target) else target.mtriple
        if self.runner is not None:
            export_runner(self.runner, triple, self.cc)
            run = Path(self.runner).name
            notice(f"wrote smelt-run to {self.runner}: ./{run} MODEL.so runs a library")
        if self.server is not None:
            export_server(self.server, triple, self.cc)
            run = Path(self.server).name
            notice(f"wrote smelt-server to {self.server}: ./{run} --help lists its options")


def is_package(output: str, target: smelt.Target) -> bool:
    """Whether what is written is a package for WebAssembly, which is a folder."""
    return architecture(target) == "wasm" and not output.endswith(".o")


def compile_model(
    model: options.Model,
    build: options.Build,
    written: Written,
    source: Source,
    json: options.Json = False,
) -> None:
    """Compile a model, for this machine or another one, and write it as a library."""
    options.needs_source(model)
    output = written.output
    listed = is_list(build.target) and not with_cmsis_nn(build.target)
    if not listed and is_c(build.target):
        _write_c(model, build, written, source, json)
        return
    source.check()
    target = level_targets(str(build.target))[0] if listed else build.resolved()
    written.check(target)
    endings, legal = library_kind(target.mtriple)
    if listed and (output is None or not output.endswith(endings)):
        raise UsageError(
            f"--target {build.target}: a library for several processors: give -o, {legal}"
        )
    written.write_programs(target)
    if output is not None and (listed or output.endswith(".o") or not is_native(target)):
        _write_artifact(model, build, written, output, json)
        return
    start = time.perf_counter()
    exe = build.load(model)
    if output is not None:
        exe.export_library(output, cc=written.cc, header=written.header)
    if output is not None and is_special(output):
        return  # standard output may be what was written to
    seconds, memory = time.perf_counter() - start, exe.memory
    if json:
        say_json({"model": model, "seconds": seconds, **memory_bytes(memory), "output": output})
        return
    live = "" if memory.live is None else f" (at least {megabytes(memory.live)} alive at once)"
    say(
        f"{model}: compiled in {seconds:.2f} s; weights {megabytes(memory.weights)}, "
        f"workspace {megabytes(memory.workspace)}{live}"
    )
    if output is None:
        say(f"nothing written: -o {Path(model).stem}.so writes a library, which smelt run takes")
        return
    beside = f" and {Path(output).with_suffix('.h')}" if written.header else ""
    say(f"written to {output}{beside}; smelt run {output} runs it")


def _write_c(
    model: str, build: options.Build, written: Written, source: Source, json: bool
) -> None:
    """Compile a model to C, for a microcontroller or any other C compiler."""
    output, target = written.output, c_target(str(build.target))
    for name, given in (("--cc", written.cc), ("--runner", written.runner),
                        ("--server", written.server), ("--header", written.header),
                        ("--state", build.state)):  # fmt: skip
        if given:
            raise UsageError(f"{name}: C is a source and a header beside it, and nothing more; "
                             "leave it out")  # fmt: skip
    if build.threads not in (None, 1):
        raise UsageError(f"--threads {build.threads}: C runs on one core; leave it out")
    if output is not None:
        check_target(output, (".c",), "C, model.c")
    start = time.perf_counter()
    with progress() as report:
        made = compile_c(model, str(build.target), shapes=build.shapes(model),
                         name=source.name or "", stream=source.stream, options=build.options(),
                         pools=options.pools(source.pool, source.constant_pool),
                         progress=report)  # fmt: skip
    if output is not None:
        made.save(output)
    seconds, header = time.perf_counter() - start, output and str(Path(output).with_suffix(".h"))
    if json:
        say_json({"model": model, "seconds": seconds, "output": output, "header": header,
                  "workspace_bytes": made.workspace_bytes,
                  "constant_bytes": made.constant_bytes})  # fmt: skip
        return
    say(
        f"{model}: C for {target.mcpu or 'any processor'} in {seconds:.2f} s; constants "
        f"{made.constant_bytes:,} bytes, workspace {made.workspace_bytes:,} bytes"
    )
    say("nothing written: -o model.c writes it" if output is None else
        f"written to {output}, declared in {header}")  # fmt: skip


def _write_artifact(
    model: str, build: options.Build, written: Written, output: str, json: bool
) -> None:
    """Compile a model for any target, and write its code and constants, as a library or not."""
    web = not is_list(build.target) and is_package(output, build.resolved())
    start = time.perf_counter()
    said = any(v is not None for v in (build.threads, build.opt_level, build.database))
    with progress() as report:
        targets = level_targets(str(build.target)) if is_list(build.target) else [build.target]
        made = [
            smelt.compile_artifact(
                model,
                target,
                shapes=build.shapes(model),
                state=build.states(),
                options=build.options() if said else None,
                progress=report,
            )
            for target in targets
        ]
    beside: Path | None = Path(output).with_suffix(".h")
    if output.endswith(".o"):
        made[0].write(output)
    elif web:
        made[0].export_package(output, cc=written.cc)
        beside = None
    else:
        Levels(tuple(made)).export_library(output, cc=written.cc, header=written.header)
        beside = beside if written.header else None
    if is_special(output):
        return
    seconds, machine = time.perf_counter() - start, made[0].target.mtriple
    weights = sum([a.weights.nbytes for a in made])
    if json:
        say_json({"model": model, "seconds": seconds, "target": machine, "output": output,
                  "header": None if beside is None else str(beside)})  # fmt: skip
        return
    declared = "" if beside is None else f", declared in {beside}"
    say(
        f"{model}: compiled for {machine} in {seconds:.2f} s; "
        f"weights {megabytes(weights)}\nwritten to {output}{declared}"
    )
