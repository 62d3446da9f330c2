"""Zephyr applications: built by west where there is one, else compiled against stand-ins."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from smelt.micro.csource import CSource
from smelt.micro.errors import BuildError
from smelt.micro.project import TEMPLATES
from smelt.micro.project_api.server import ProjectOption
from smelt.micro.serial_port import SerialTransport
from smelt.micro.transport import Transport

from .base import Options, Platform, portable_objects, run_tool, served_files, template
from .example import example_files

_IMAGE = "west"
"""Where west builds: it keeps paths, so that this folder stays in its place."""

BOARDS = {
    "nucleo_l4r5zi": "cortex-m4",
    "nucleo_f746zg": "cortex-m7",
    "nucleo_h743zi": "cortex-m7",
    "stm32f746g_disco": "cortex-m7",
    "mimxrt1050_evk": "cortex-m7",
    "nrf52840dk_nrf52840": "cortex-m4",
    "mps2_an385": "cortex-m3",
    "mps3_an547": "cortex-m55",
    "qemu_cortex_m3": "cortex-m3",
}
"""Board -> processor. Which boards there are is Zephyr's to say; these are tried."""


class Zephyr(Platform):
    """An application: CMakeLists.txt, prj.conf and src/."""

    platform_name = "zephyr"
    boards = tuple(BOARDS)
    project_types = ("example_project", "host_driven")
    options = (
        ProjectOption("west_cmd", None, None, "str", (), ("build", "flash"),
                      "The program west, where it is not on PATH."),
        ProjectOption("zephyr_base", None, None, "str", (), ("build", "flash"),
                      "Zephyr's sources; else what ZEPHYR_BASE says."),
        ProjectOption("port", None, None, "str", (), ("open_transport",),
                      "The serial port of the board: /dev/ttyACM0."),
    )  # fmt: skip

    def files(self, model: CSource, options: Options, name: str) -> dict[str, str]:
        """The application."""
        kind = options["project_type"]
        made = example_files(model) if kind == "example_project" else served_files(model)
        own = {"main.c": template("zephyr", f"{kind}.c")}
        whole = {n: template("zephyr", n) for n in ("CMakeLists.txt", "prj.conf")}
        return whole | {f"src/{n}": text for n, text in (made | own).items()}

    def compile(self, options: Options, build: Path) -> None:
        """An image by west; without it objects, compiled against smelt's stand-ins."""
        flags, found = self.definitions(options), _west(options)
        if found is not None:
            self._west(found, "cannot be built", "build", "-b", str(options["board"]), "-d", _IMAGE,
                       ".", "--", f"-DEXTRA_CFLAGS={' '.join(flags)}")  # fmt: skip
            return
        shutil.copytree(self.folder / "src", build / "src")
        stand_in = TEMPLATES / "zephyr" / "stand_in"
        portable_objects(build, BOARDS[options["board"]], [f"-I{stand_in}", *flags])

    def flash(self, options: Options) -> None:
        """Flash by west."""
        found = _west(options)
        if found is None:
            what = f"{self.folder.name} cannot be put on a {options['board']}"
            raise BuildError(
                f"{what}: west or ZEPHYR_BASE is missing\n  install west (pip install west), get "
                "Zephyr by it (west init, west update), and let ZEPHYR_BASE or the option "
                "zephyr_base name its folder; the option west_cmd names a west that is not on PATH"
            )
        self._west(found, f"cannot be put on a {options['board']}", "flash", "-d", _IMAGE)

    def _west(self, found: tuple[str, str], what: str, *words: str) -> None:
        west, base = found
        command = ["env", f"ZEPHYR_BASE={base}", west, *words]
        run_tool(command, self.folder, f"{self.folder.name} {what}")

    def start(self, options: Options) -> Transport:
        """The port of the board."""
        if port := options.get("port"):
            return SerialTransport(str(port))
        raise BuildError(
            f"{self.folder.name} cannot be talked to: the option port is missing; it says where "
            "the board is: /dev/ttyACM0"
        )


def _west(options: Options) -> tuple[str, str] | None:
    """The program west and Zephyr's folder, where both are there."""
    west = options.get("west_cmd") or shutil.which("west")
    base = options.get("zephyr_base") or os.environ.get("ZEPHYR_BASE")
    return (str(west), str(base)) if west and base else None
