"""Arduino sketches. Those of AVR boards are built with the real core, and run in simavr."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from smelt.micro.csource import CSource
from smelt.micro.errors import BuildError
from smelt.micro.project import TEMPLATES
from smelt.micro.project_api.server import ProjectOption
from smelt.micro.serial_port import SerialTransport
from smelt.micro.transport import ProcessTransport, Transport

from .base import Options, Platform, portable_objects, run_tool, served_files, template
from .example import example_files

_CORE = "/usr/share/arduino/hardware/arduino/avr"
"""Where the Debian package arduino-core-avr has it."""
_HERTZ = 16_000_000
_BOOT = 2.0
"""Seconds that the loader of an AVR takes, which starts anew when its port is opened."""
_STACK_BYTES = 256
"""Of an AVR's RAM: what is left at least."""
_SETUP = "make setup-edge installs it, or apt install"


@dataclass(frozen=True)
class Avr:
    """A board with an AVR: its processor, the core's names for it, memory in bytes."""

    fqbn: str
    cpu: str
    define: str
    variant: str
    ram: int
    flash: int


@dataclass(frozen=True)
class Arm:
    """A board with an Arm processor, whose core arduino-cli has."""

    fqbn: str
    cpu: str


BOARDS: dict[str, Avr | Arm] = {
    "nano33ble": Arm("arduino:mbed_nano:nano33ble", "cortex-m4"),
    "nicla": Arm("arduino:mbed_nicla:nicla_sense", "cortex-m4"),
    "portenta": Arm("arduino:mbed_portenta:envie_m7", "cortex-m7"),
    "giga": Arm("arduino:mbed_giga:giga", "cortex-m7"),
    "due": Arm("arduino:sam:arduino_due_x", "cortex-m3"),
    "teensy40": Arm("teensy:avr:teensy40", "cortex-m7"),
    "teensy41": Arm("teensy:avr:teensy41", "cortex-m7"),
    "uno": Avr("arduino:avr:uno", "atmega328p", "AVR_UNO", "standard", 2048, 32256),
    "mega": Avr("arduino:avr:mega", "atmega2560", "AVR_MEGA2560", "mega", 8192, 253952),
}


class Arduino(Platform):
    """A sketch: NAME.ino, and the model in src/."""

    platform_name = "arduino"
    boards = tuple(BOARDS)
    project_types = ("example_project", "host_driven")
    options = (
        ProjectOption("arduino_cli_cmd", None, None, "str", (), ("build", "flash"),
                      "The program arduino-cli, where it is not on PATH."),
        ProjectOption("port", None, None, "str", (), ("flash", "open_transport"),
                      "The serial port of the board: /dev/ttyACM0."),
        ProjectOption("arduino_core", None, _CORE, "str", (), ("build",),
                      "The folder of the core for AVR boards."),
    )  # fmt: skip

    def files(self, model: CSource, options: Options, name: str) -> dict[str, str]:
        """The sketch."""
        kind = options["project_type"]
        made = example_files(model) if kind == "example_project" else served_files(model)
        sketch = template("arduino", f"{kind}.ino")
        return {f"{name}.ino": sketch} | {f"src/{n}": text for n, text in made.items()}

    def compile(self, options: Options, build: Path) -> None:
        """A program, by arduino-cli or for an AVR; else objects of all but the sketch."""
        board, flags = BOARDS[options["board"]], self.definitions(options)
        shutil.copytree(self.folder / "src", build / "src")
        if cli := _cli(options):
            extra = [f"--build-property=compiler.c.extra_flags={' '.join(flags)}"] if flags else []
            run_tool([cli, "compile", "--fqbn", board.fqbn, *extra, "--output-dir", str(build),
                      str(self.folder)], build, self._what("cannot be compiled"))  # fmt: skip
        elif isinstance(board, Avr):
            self._compile_avr(board, build, Path(options["arduino_core"]), flags)
        else:
            portable_objects(build, board.cpu, flags)

    def _what(self, text: str) -> str:
        return f"the sketch {self.folder.name} {text}"

    def _compile_avr(self, board: Avr, build: Path, core: Path, flags: list[str]) -> None:
        """The core, the sketch and the model, linked; sizes are checked."""
        what = self._what("cannot be compiled")
        if shutil.which("avr-gcc") is None:
            raise BuildError(f"{what}: avr-gcc is missing; {_SETUP} gcc-avr avr-libc")
        if not (core / "cores" / "arduino").is_dir():
            raise BuildError(f"{what}: {core} holds no Arduino core; {_SETUP} arduino-core-avr")
        sketch = next(self.folder.glob("*.ino"))
        (build / "sketch.cpp").write_text(f'#include "{sketch}"\n')
        places = [core / "cores" / "arduino", core / "variants" / board.variant]
        shared = [f"-mmcu={board.cpu}", f"-DF_CPU={_HERTZ}L", "-DARDUINO=10819", "-Os",
                  f"-DARDUINO_{board.define}", "-DARDUINO_ARCH_AVR", "-ffunction-sections",
                  "-fdata-sections", *[f"-I{p}" for p in places], f"-I{self.folder}"]  # fmt: skip
        listed = sorted([*places[0].iterdir(), *(build / "src").iterdir(), build / "sketch.cpp"])
        # The core's texts print floats by a macro of newer compilers: -DDECIMAL_DIG.
        kinds = {".c": ("avr-gcc", "-std=gnu11"), ".S": ("avr-gcc", "-xassembler-with-cpp"),
                 ".cpp": ("avr-g++", "-std=gnu++11", "-fpermissive", "-fno-exceptions", "-w",
                          "-fno-threadsafe-statics", "-DDECIMAL_DIG=__DECIMAL_DIG__")}  # fmt: skip
        for suffix, (compiler, *own) in kinds.items():
            sources = [str(p) for p in listed if p.suffix == suffix]
            run_tool([compiler, *own, *shared, *flags, "-c", *sources], build, what)
        objects = sorted([p.name for p in build.glob("*.o")])
        # More memory than there is: what is too large links, so that its size can be told.
        large = [
            f"-Wl,--defsym=__{r}_REGION_LENGTH__=0x{n}"
            for r, n in (("DATA", "ff00"), ("TEXT", "ffffff"))
        ]
        command = ["avr-gcc", f"-mmcu={board.cpu}", "-Os", "-Wl,--gc-sections", *large, *objects]
        run_tool([*command, "-o", "program.elf", "-lm"], build, self._what("cannot be linked"))
        self._check_sizes(board, build)

    def _check_sizes(self, board: Avr, build: Path) -> None:
        """Raise a BuildError where a program does not fit. Constants are in RAM on an AVR, too."""
        table = run_tool(["avr-size", "program.elf"], build, self._what("has no sizes"))
        text, data, bss = map(int, table.splitlines()[1].split()[:3])
        for kind, needed, there in (("RAM", data + bss + _STACK_BYTES, board.ram),
                                    ("flash", text + data, board.flash)):  # fmt: skip
            if needed > there:
                raise BuildError(
                    f"{self._what('is too large')}: it needs {needed:,} bytes of {kind}, and its "
                    f"board has {there:,}"
                    + (f"; {_STACK_BYTES} of them are for the stack, and the model's constants are "
                       "in RAM, too, on an AVR" if kind == "RAM" else "")
                )  # fmt: skip

    def flash(self, options: Options) -> None:
        """Upload it by arduino-cli; without a port, an AVR's program runs in simavr."""
        board = BOARDS[options["board"]]
        if isinstance(board, Avr) and not options.get("port"):
            super().flash(options)
            return
        what = self._what(f"cannot be put on a {options['board']}")
        cli, core = _cli(options), board.fqbn.rpartition(":")[0]
        if cli is None:
            raise BuildError(
                f"{what}: arduino-cli is missing\n  install it, and by it the core: arduino-cli "
                f"core install {core}; the option arduino_cli_cmd names one that is not on PATH. "
                "The Arduino IDE takes the folder as it is"
            )
        if not options.get("port"):
            raise BuildError(f"{what}: the option port is missing; `{cli} board list` lists them")
        self.program("src")
        run_tool([cli, "upload", "--fqbn", board.fqbn, "--port", str(options["port"]),
                  "--input-dir", str(self.folder / "build"), str(self.folder)], self.folder,
                 what)  # fmt: skip

    def start(self, options: Options) -> Transport:
        """The port of a board; without one an AVR's program in simavr: the line is its Serial."""
        board, port = BOARDS[options["board"]], options.get("port")
        if port:
            return SerialTransport(str(port), settle=_BOOT if isinstance(board, Avr) else 0.0)
        if not isinstance(board, Avr):
            raise BuildError(
                f"{self._what('cannot be talked to')}: the option port is missing; it says where "
                "the board is: /dev/ttyACM0. Boards that simavr emulates need none: uno, mega"
            )
        program = self.program("program.elf")
        harness = program.with_name("simavr_serial")
        if not harness.exists():
            compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
            source = str(TEMPLATES / "arduino" / "simavr_serial.c")
            what = f"simavr cannot be used ({_SETUP} simavr libsimavr-dev libelf-dev)"
            fresh = f"simavr_serial.{os.getpid()}"
            run_tool([compiler, "-O2", source, "-o", fresh, "-lsimavr", "-lelf"], program.parent,
                     what)  # fmt: skip
            program.with_name(fresh).rename(harness)
        return ProcessTransport([harness, program, board.cpu, str(_HERTZ)])


def _cli(options: Options) -> str | None:
    """arduino-cli: the option, or what is on PATH."""
    given = options.get("arduino_cli_cmd")
    return str(given) if given else shutil.which("arduino-cli")
