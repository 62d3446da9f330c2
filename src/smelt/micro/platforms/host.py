"""Programs of this machine, and of boards that QEMU emulates."""

from __future__ import annotations

import shutil
from pathlib import Path

from smelt.micro.board import BOARDS
from smelt.micro.csource import CSource
from smelt.micro.program import program_files
from smelt.micro.session import start
from smelt.micro.toolchain import build
from smelt.micro.transport import Transport

from .base import Options, Platform


class Served(Platform):
    """A program that serves its model over a serial line."""

    def files(self, model: CSource, options: Options, name: str) -> dict[str, str]:
        """The program's sources, in src/."""
        made = program_files(model, BOARDS[options["board"]])
        return {f"src/{n}": text for n, text in made.items()}

    def compile(self, options: Options, build_folder: Path) -> None:
        """Sources and program, with the C compiler of the board."""
        shutil.copytree(self.folder / "src", build_folder, dirs_exist_ok=True)
        build(build_folder, BOARDS[options["board"]], flags=self.definitions(options))

    def start(self, options: Options) -> Transport:
        """Start the program, or the emulator."""
        board = BOARDS[options["board"]]
        return start(self.program("program" if board.is_host else "program.elf"), board)


class Host(Served):
    """This machine: the line is the program's standard input and output."""

    platform_name = "host"
    boards = tuple([b.name for b in BOARDS.values() if b.is_host])


class Qemu(Served):
    """Boards that QEMU emulates: the line is the first serial line of the board."""

    platform_name = "qemu"
    boards = tuple([b.name for b in BOARDS.values() if not b.is_host])
