"""What all of smelt's templates share: projects from archives, folders, compilers, transports."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smelt.micro.board import BOARDS
from smelt.micro.csource import NATIVE, CSource
from smelt.micro.errors import BuildError, TemplateProjectError
from smelt.micro.model_library_format import read_model_library_format
from smelt.micro.program import program_files
from smelt.micro.project import TEMPLATES, checked_options
from smelt.micro.project_api import client, server
from smelt.micro.toolchain import cross_compiler, excerpt, run
from smelt.micro.transport import Transport
from smelt.runtime.errors import MicroError

MODEL = "model.tar"
_STATE = "project.json"
_LONGEST = 30.0
"""Seconds of a transport's wait where none are given."""

Options = Mapping[str, Any]


class Platform(server.ProjectAPIHandler):
    """A template, or a project that was made of it.

    platform_name  what it is called; options: besides those of all templates
    boards         the names that are legal; the first is the default
    project_types  example_project: runs the model on numbers of its own, and prints results;
                   host_driven: serves the model over its serial line
    """

    platform_name = ""
    boards: Sequence[str] = ()
    project_types: Sequence[str] = ("host_driven",)
    options: tuple[server.ProjectOption, ...] = ()

    def __init__(self, server_file: str) -> None:
        """server_file: the file of the server, which is in the template's or project's folder."""
        self.folder = Path(server_file).resolve().parent
        self.line: Transport | None = None

    # ---- what a template says ---------------------------------------------------------------

    @abstractmethod
    def files(self, model: CSource, options: Options, name: str) -> dict[str, str]:
        """The files of a project, name -> text; name: of its folder."""

    @abstractmethod
    def compile(self, options: Options, build: Path) -> None:
        """Compile a project into an empty folder. Raises BuildError, MicroError."""

    @abstractmethod
    def start(self, options: Options) -> Transport:
        """The line to the program that was built, at a board, or started for it. Raises BuildError,
        MicroError."""

    # ---- the Project API --------------------------------------------------------------------

    def _state(self) -> dict[str, Any] | None:
        """What the project was made with; None: this is the template."""
        path = self.folder / _STATE
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _listed(self) -> list[server.ProjectOption]:
        """The options; a project's board and type are those that it was made for."""
        state = self._state()
        legal = {"board": self.boards, "project_type": self.project_types}
        if state is not None:
            legal = {name: (state[name],) for name in legal}
        fixed = {n: {"choices": tuple(c), "default": c[0]} for n, c in legal.items()}
        own = [o.replace({"default": (state or {}).get(o.name, o.default)}) for o in self.options]
        return [*server.default_project_options(**fixed), *own]

    def server_info_query(self, tvm_version: str) -> server.ServerInfo:
        """What this is."""
        made = self._state() is not None
        model = str(self.folder / MODEL) if made else None
        return server.ServerInfo(self.platform_name, not made, model, self._listed())

    def generate_project(
        self, model_library_format_path: Path, standalone_crt_dir: Path, project_dir: Path,
        options: Options,
    ) -> None:  # fmt: skip
        """Make a project: all of its folder, or nothing."""
        given = checked_options(options, self._listed(), "generate_project")
        model = read_model_library_format(model_library_format_path)
        state = {k: v for k, v in given.items() if k != "verbose"}
        texts = self.files(model, given, project_dir.name)
        texts |= {_STATE: json.dumps(state, indent=2) + "\n",
                  client.SERVER_FILE: template(self.platform_name, client.SERVER_FILE)}  # fmt: skip
        with whole_folder(project_dir) as fresh:
            write_texts(fresh, texts)
            shutil.copyfile(model_library_format_path, fresh / MODEL)

    def build(self, options: Options) -> None:
        """Compile the project into its folder build/, which is there whole or not at all."""
        with whole_folder(self.folder / "build", replaces=True) as fresh:
            self.compile(options, fresh)

    def flash(self, options: Options) -> None:
        """Start the program."""
        self.close_transport()
        self.line = self.start(options)

    def open_transport(self, options: Options) -> server.TransportTimeouts:
        """The line to the program; an emulator starts it where it does not run."""
        if self.line is None:
            self.line = self.start(options)
        return server.TransportTimeouts(2.0, 20.0, 10.0)

    def close_transport(self) -> None:
        """Close the line: the program ends, too."""
        line, self.line = self.line, None
        if line is not None:
            line.close()

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        """What the program writes."""
        found = self._open_line().read(n, _LONGEST if timeout_sec is None else timeout_sec)
        if not found:
            raise server.IoTimeoutError(f"nothing to read in {timeout_sec} s")
        return found

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        """What it reads."""
        self._open_line().write(data, _LONGEST if timeout_sec is None else timeout_sec)

    def _open_line(self) -> Transport:
        if self.line is None:
            raise server.TransportClosedError("the transport is not open")
        return self.line

    # ---- for the templates ------------------------------------------------------------------

    def definitions(self, options: Options) -> list[str]:
        """The arguments of the C compiler that the user gives."""
        return shlex.split(str(options.get("compile_definitions", "")))

    def program(self, name: str) -> Path:
        """A file that was built. Raises BuildError."""
        path = self.folder / "build" / name
        if not path.exists():
            raise BuildError(f"{self.folder.name} is not built yet; build() does that")
        return path


def served_files(model: CSource) -> dict[str, str]:
    """A program that serves a model without what its platform gives; it begins at smelt_main."""
    made = program_files(model, BOARDS["host"])
    names = ("net.c", "net.h", "smelt_serial.c", "smelt_serial.h", *model.runtime)
    files = {n: made[n] for n in names}
    begin = "int smelt_main(void)"
    # Not main.c: a platform may have a file of that name, and its object would take the place.
    return files | {"served.c": made["main.c"].replace("int main(void)", f"{begin};\n\n{begin}")}


def portable_objects(build: Path, cpu: str, flags: Sequence[str]) -> None:
    """Compile the C files of build/src for a processor, without an operating system's headers."""
    board = next(b for b in BOARDS.values() if b.target == f"c -mcpu={cpu}")
    sources = sorted([str(p.relative_to(build)) for p in (build / "src").rglob("*.c")])
    command = [*cross_compiler(board, str(NATIVE / "include")), "-std=c11", "-Os", "-Wall", "-Isrc"]
    run_tool(
        [*command, "-Wextra", *flags, "-c", *sources],
        build,
        f"the sources cannot be compiled for a {cpu}",
    )
    (build / "README.md").write_text(
        f"Objects of the sources in src/ for a {cpu}. They show that these compile; a program for "
        "the board is made by its own tools.\n"
    )


def template(platform: str, name: str) -> str:
    """A text of a template."""
    return (TEMPLATES / platform / name).read_text(encoding="utf-8")


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files; their names may have folders in front."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@contextmanager
def whole_folder(folder: Path, replaces: bool = False) -> Iterator[Path]:
    """A fresh folder, which is in its place when all went well, and gone when not.

    replaces  whether one that is there goes away; else it has to be empty
    """
    if not replaces and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TemplateProjectError(f"{folder} is there already; legal: a folder that is not, or "
                                   "that is empty")  # fmt: skip
    mark = secrets.token_hex(6)
    fresh, old = [folder.with_name(f".{folder.name}.{mark}.{end}") for end in ("tmp", "old")]
    try:
        fresh.mkdir()
        yield fresh
        if replaces and folder.exists():
            os.rename(folder, old)
        try:
            os.rename(fresh, folder)
        except OSError:
            if old.exists():
                os.rename(old, folder)
            raise
    except OSError as e:
        raise TemplateProjectError(f"cannot write {folder}: {e.strerror or e}") from None
    finally:
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)


def run_tool(command: Sequence[str], folder: Path, what: str) -> str:
    """What a tool prints. what: "uno cannot be compiled". Raises BuildError."""
    print(shlex.join(command), file=sys.stderr)  # seen with the option verbose
    try:
        done = run(command, folder, f"{what}: the tool")
    except MicroError as e:
        raise BuildError(str(e)) from None
    if done.returncode != 0:
        said = excerpt(done.stderr + done.stdout)
        raise BuildError(f"{what}; {Path(command[0]).name} says:\n{said}")
    return done.stdout
