"""Packages for browsers and node: a model in WebAssembly, its constants, an ES module that runs it.

index.mjs, index.d.mts   `load`, and its types
model.mjs                what the model takes and gives
model.wasm, model.bin    code with smelt's runtime, and constants
package.json             for npm
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.runtime.compilers import find_web_compiler, run_compiler
from smelt.runtime.dtypes import DTYPE_CODES
from smelt.runtime.errors import ExportError
from smelt.runtime.files import check_target, write_file
from smelt.runtime.linking import Exportable, parts_of
from smelt.runtime.metadata import c_tensors
from smelt.runtime.native import source_folder

_RUNTIME = ("web/host.c", "bind.c", "error.c", "module.c", "program.c", "system.c", "cpuinfo.c")
_FILES = ("index.mjs", "index.d.mts")
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "bfloat16", "float32", "float64")  # fmt: skip
_STACK = 1 << 20


def export_package(
    exe: Exportable, folder: str | os.PathLike[str], cc: str | Sequence[str] | None = None
) -> None:
    """Write the package of a model whose objects are WebAssembly. Raises ExportError."""
    place = Path(folder)
    check_folder(place)
    described = _description(exe)
    command = find_web_compiler(cc)
    parts = parts_of(exe)
    with tempfile.TemporaryDirectory(prefix="smelt-") as made:
        code = Path(made, "model.wasm")
        sources = [str(source_folder() / s) for s in _RUNTIME]
        flags = ["-std=c11", "-Oz", "-mexec-model=reactor", "-fvisibility=hidden",
                 "-Wl,--strip-all", f"-Wl,-z,stack-size={_STACK}",
                 f"-I{source_folder()}"]  # fmt: skip
        files = [*map(str, parts.write(Path(made))), *sources]
        run_compiler(command, [*flags, *files, "-o", str(code), "-lm"])
        files_of = {
            **{name: (source_folder() / "web" / name).read_bytes() for name in _FILES},
            "model.mjs": f"export const description = {described};\n".encode(),
            "model.wasm": code.read_bytes(),
            "model.bin": bytes(parts.weights),
            "package.json": _package(exe.name).encode(),
        }
    place.mkdir(exist_ok=True)
    for name, data in files_of.items():
        write_file(place / name, lambda out, data=data: out.write(data))  # type: ignore[misc]


def check_folder(place: Path) -> None:
    """Raise an ExportError where no package can be written."""
    if place.suffix in (".so", ".tar", ".o", ".vm", ".wasm"):
        raise ExportError(f"cannot write {place}: a package is a folder, e.g. {place.stem}")
    if place.exists() and not place.is_dir():
        raise ExportError(f"cannot write {place}: it is a file, and a package is a folder")
    check_target(place / "model.wasm" if place.is_dir() else place)


def _description(exe: Exportable) -> str:
    """What index.mjs has to know, as JSON."""
    weights = 0 if exe.weights is None else exe.weights.nbytes
    roles = {role: [_tensor(exe.name, t) for t in found]
             for role, found in c_tensors(exe.metadata).items()}  # fmt: skip
    return json.dumps({"name": exe.name, "weights": weights, **roles}, indent=1)


def _tensor(model: str, tensor: Mapping[str, Any]) -> dict[str, Any]:
    dtype = tensor["dtype"]
    if dtype not in _DTYPES:
        raise ExportError(
            f"{model}: {tensor['name']!r} is {dtype}, which JavaScript has no arrays for; "
            f"legal: {', '.join(_DTYPES)}"
        )
    return {"name": tensor["name"], "dtype": dtype, "code": DTYPE_CODES[dtype],
            "dims": list(tensor["shape"])}  # fmt: skip


def _package(model: str) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", model.lower()).strip("-._") or "model"
    package = {"name": name, "version": "1.0.0", "type": "module", "main": "index.mjs",
               "types": "index.d.mts", "exports": {".": {"types": "./index.d.mts",
                                                         "default": "./index.mjs"}},
               "files": ["*.mjs", "*.mts", "model.wasm", "model.bin"]}  # fmt: skip
    return json.dumps(package, indent=2) + "\n"
