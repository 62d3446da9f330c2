"""Packages for browsers and node: a model in WebAssembly, its constants, an ES module that runs it.

index.mjs, index.d.mts   `load`, and its types
model.mjs                what the model takes and gives
model.wasm, model.bin    code with smelt's runtime, and constants
system.mjs               the functions of WASI that the code may call
threads.mjs, worker.mjs  of a model with threads: how they are started, and what each of them does
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
_FILES = ("index.mjs", "index.d.mts", "system.mjs")
_THREADS = ("threads.mjs", "worker.mjs")
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "bfloat16", "float32", "float64")  # fmt: skip
_STACK = 1 << 20
_PAGES, _MOST_PAGES = 256, 65535
"""Of 64 KiB, of memory that is shared: it is made before the code is there, and grows."""
_SHARED = ("-matomics", "-mbulk-memory", "-mmutable-globals",
           "-Wl,--shared-memory", "-Wl,--import-memory", "-Wl,--export-memory",
           f"-Wl,--initial-memory={_PAGES << 16}", f"-Wl,--max-memory={_MOST_PAGES << 16}",
           "-Wl,--export=__stack_pointer", "-Wl,--export=__wasm_init_tls",
           "-Wl,--export=__tls_size")  # fmt: skip
"""What the compiler is told of code with threads."""


def export_package(
    exe: Exportable,
    folder: str | os.PathLike[str],
    cc: str | Sequence[str] | None = None,
    threads: int = 1,
) -> None:
    """Write the package of a model whose objects are WebAssembly. Raises ExportError.

    threads  how many its code is divided among; more than one: the objects must have atomics
    """
    place = Path(folder)
    check_folder(place)
    described = _description(exe, threads)
    shared = threads > 1
    command = find_web_compiler(cc, shared)
    parts = parts_of(exe)
    with tempfile.TemporaryDirectory(prefix="smelt-") as made:
        code = Path(made, "model.wasm")
        sources = [str(source_folder() / s) for s in (*_RUNTIME, *(("pool.c",) if shared else ()))]
        flags = ["-std=c11", "-Oz", "-mexec-model=reactor", "-fvisibility=hidden",
                 "-Wl,--strip-all", f"-Wl,-z,stack-size={_STACK}",
                 f"-I{source_folder()}", *(_SHARED if shared else ())]  # fmt: skip
        files = [*map(str, parts.write(Path(made))), *sources]
        run_compiler(command, [*flags, *files, "-o", str(code), "-lm"])
        files_of = {
            **{name: (source_folder() / "web" / name).read_bytes()
               for name in (*_FILES, *(_THREADS if shared else ()))},
            "model.mjs": described.encode(),
            "model.wasm": code.read_bytes(),
            "model.bin": bytes(parts.weights),
            "package.json": _package(exe.name).encode(),
        }  # fmt: skip
    place.mkdir(exist_ok=True)
    for name in {*_THREADS} - files_of.keys():
        (place / name).unlink(missing_ok=True)
    for name, data in files_of.items():
        write_file(place / name, lambda out, data=data: out.write(data))  # type: ignore[misc]


def check_folder(place: Path) -> None:
    """Raise an ExportError where no package can be written."""
    if place.suffix in (".so", ".dll", ".tar", ".o", ".vm", ".wasm"):
        raise ExportError(f"cannot write {place}: a package is a folder, e.g. {place.stem}")
    if place.exists() and not place.is_dir():
        raise ExportError(f"cannot write {place}: it is a file, and a package is a folder")
    check_target(place / "model.wasm" if place.is_dir() else place)


def _description(exe: Exportable, threads: int) -> str:
    """model.mjs: what index.mjs has to know, and what starts threads."""
    weights = 0 if exe.weights is None else exe.weights.nbytes
    roles = {role: [_tensor(exe.name, t) for t in found]
             for role, found in c_tensors(exe.metadata).items()}  # fmt: skip
    told = {"name": exe.name, "weights": weights, "threads": threads, **roles}
    parallel = "export const parallel = undefined;"
    if threads > 1:
        told["memory"] = {"pages": _PAGES, "most": _MOST_PAGES, "stack": _STACK}
        parallel = 'export * as parallel from "./threads.mjs";'
    return f"export const description = {json.dumps(told, indent=1)};\n{parallel}\n"


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
