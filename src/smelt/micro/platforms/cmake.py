"""A CMake project: the model as a library target, for programs of your own."""

from __future__ import annotations

import shutil
from pathlib import Path

from smelt.micro.csource import CSource
from smelt.micro.errors import BuildError
from smelt.micro.transport import ProcessTransport, Transport

from .base import Options, Platform, run_tool, template
from .example import example_files


class CMake(Platform):
    """CMakeLists.txt with the library net and the program example."""

    platform_name = "cmake"
    boards = ("host",)
    project_types = ("example_project",)

    def files(self, model: CSource, options: Options, name: str) -> dict[str, str]:
        """The project."""
        made = {**example_files(model), "main.c": template("cmake", "main.c")}
        lists = {"CMakeLists.txt": template("cmake", "CMakeLists.txt")}
        return lists | {f"src/{n}": text for n, text in made.items()}

    def compile(self, options: Options, build: Path) -> None:
        """Both targets, by the machine's CMake."""
        what = f"{self.folder.name} cannot be built"
        cmake = shutil.which("cmake")
        if cmake is None:
            raise BuildError(f"{what}: cmake is missing; apt install cmake")
        flags = " ".join(self.definitions(options))
        run_tool([cmake, "-S", str(self.folder), "-B", str(build), f"-DCMAKE_C_FLAGS={flags}",
                  "-DCMAKE_BUILD_TYPE=Release"], build, what)  # fmt: skip
        run_tool([cmake, "--build", str(build)], build, what)

    def start(self, options: Options) -> Transport:
        """Run the example; the line is its output."""
        return ProcessTransport([self.program("example")])
