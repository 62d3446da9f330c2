"""Exporting: a model, its constants and the runtime as one shared library."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import string
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from smelt.runtime import abi
from smelt.runtime.compilers import find_compiler, find_static_compiler, machine_of, run_compiler
from smelt.runtime.dtypes import C_DTYPES
from smelt.runtime.errors import ExportError
from smelt.runtime.files import check_target, is_special, write_file
from smelt.runtime.metadata import c_tensors, update_numbers
from smelt.runtime.native import source_folder

FOOTER = abi.FOOTER.packed()
MAGIC = b"SMELTLIB"
SIDECAR_FLAG = 1
Linker = Callable[..., object]
"""(path of the library, files, options=[...])."""

_NAME = 100  # characters of a model's name in identifiers
_TAKEN = ("dbm", "malloc", "mq", "sem", "shm")  # mq_open and the like are other functions
_PAGE = 65536  # the largest page of the systems we know: an offset that any can map
_SIDECAR_BYTES = 2 << 30
_WINDOWS = ("x86_64-windows-gnu", "aarch64-windows-gnu")
_CODE, _INFO = ("smelt_entry", "smelt_plan", "smelt_program_code"), "smelt_model_descriptor"


class Exportable(Protocol):
    """What linking needs of a model.

    triple    of the machine it is for; "": this one
    has_plan  whether its code has the function `smelt_plan`
    lesser    the same model for processors with fewer features, the best first
    """

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The model's description."""

    @property
    def name(self) -> str:
        """As in the description."""

    @property
    def triple(self) -> str:
        """See the class."""

    @property
    def has_plan(self) -> bool:
        """See the class."""

    @property
    def lesser(self) -> Sequence[Exportable]:
        """See the class."""

    @property
    def objects(self) -> Sequence[bytes]:
        """Its object files."""

    @property
    def weights(self) -> npt.NDArray[Any] | None:
        """Its constants."""


def c_name(name: str) -> str:
    """A model's name as the start of C identifiers, other than those of smelt.h and POSIX."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)[:_NAME]
    free = re.match(r"(?!smelt)[A-Za-z]", text) and text not in _TAKEN
    return text if free else f"model_{text}"


def c_string(text: str) -> str:
    """A text as a C literal of its UTF-8 bytes, octal but for letters: no quote, backslash or
    trigraph can end it."""
    data = text.encode(errors="backslashreplace")
    plain = b"_. " + string.ascii_letters.encode() + string.digits.encode()
    return '"' + "".join([chr(b) if b in plain else f"\\{b:03o}" for b in data]) + '"'


def _comment(text: str) -> str:
    """A text that can neither end a C comment nor begin one; what is not plain is escaped."""
    unsafe = r"[^\w .,:;=+<>()\[\]*/-]|(?<=\*)/|(?<=/)\*"
    return re.sub(unsafe, lambda m: f"\\u{ord(m[0]):04x}", text, flags=re.ASCII)


# ---- the description in C --------------------------------------------------------------------


def _dim(dim: int | str, symbols: Sequence[str]) -> str:
    if isinstance(dim, int):
        return f"INT64_C({dim})"
    return f"~INT64_C({symbols.index(dim)})" if dim in symbols else "SMELT_COMPUTED_DIM"


def _strings(values: Sequence[str]) -> str:
    return "".join(f"{c_string(v)}, " for v in values)


def _tensor_table(role: str, tensors: Sequence[Mapping[str, Any]], symbols: Sequence[str]) -> str:
    shapes, rows = [], []
    for i, tensor in enumerate(tensors):
        dims = ", ".join(_dim(d, symbols) for d in tensor["shape"]) or "0"
        shapes.append(f"static const int64_t {role}_shape_{i}[] = {{{dims}}};")
        info = abi.TENSOR_INFO.initializer(
            name=c_string(tensor["name"]),
            dtype=C_DTYPES[tensor["dtype"]],
            rank=len(tensor["shape"]),
            shape=f"{role}_shape_{i}",
        )
        rows.append(f"    {info},")
    table = "\n".join(rows) or "    {0},"
    return "\n".join([*shapes, f"static const smelt_tensor_info {role}s[] = {{", table, "};"])


def level_name(name: str, level: int) -> str:
    """What a function of a model is called in its form for a lesser processor; 0: the best one."""
    return f"{name}_{level}" if level else name


def descriptor(
    metadata: Mapping[str, Any], has_plan: bool, export_id: int, level: int = 0, last: bool = True
) -> str:
    """The C source of a model's smelt_model_info: names are data in it, identifiers are ours.

    level  which it is of the forms for several processors; last: of them
    """
    entry, plan, program = [level_name(n, level) for n in _CODE]
    symbols = metadata.get("symbols", [])
    inputs, outputs = c_tensors(metadata).values()
    decides, updates = metadata.get("kind") == "vm", update_numbers(metadata)
    info = abi.MODEL_INFO.initializer(
        abi_version="SMELT_ABI_VERSION",
        reserved=0,
        id=f"UINT64_C({export_id})",
        entry=0 if decides else entry,
        plan=plan if has_plan else 0,
        name=c_string(metadata["name"]),
        features="features",
        input_count=len(inputs),
        inputs="inputs",
        output_count=len(outputs),
        outputs="outputs",
        symbol_count=len(symbols),
        symbols="symbols",
        weights_bytes=f"INT64_C({metadata.get('weights_bytes', 0)})",
        workspace_bytes=f"INT64_C({metadata.get('workspace_bytes') or 0})",
        program=f"&{program}" if decides else 0,
        updates="updates" if updates else 0,
        weights_offset=f"INT64_C({metadata.get('weights_offset', 0)})",
        lesser=0 if last else f"&{level_name(_INFO, level + 1)}",
    )
    name = c_name(metadata["name"])
    return f"""/* {name}: generated by smelt. */
#include "smelt.h"

extern int32_t {entry}(const smelt_host *host, void *const *tensors, const int64_t *sizes,
                       const void *weights, void *workspace);
extern int32_t {plan}(const int64_t *sizes, int64_t *extents, int64_t *workspace_bytes);
extern const smelt_program {program};
{"" if last else f"extern const smelt_model_info {level_name(_INFO, level + 1)};"}

static const char *const features[] = {{{_strings(metadata.get("features", []))}0}};
static const char *const symbols[] = {{{_strings(symbols)}0}};
{_tensor_table("input", inputs, symbols)}
{_tensor_table("output", outputs, symbols)}
static const int64_t updates[] = {{{", ".join(map(str, [*updates, -1]))}}};

#define INFO {info}

{_lesser(level) if level else _shown(name)}"""


def _shown(name: str) -> str:
    return f"""/* For programs that load the library, and by the model's name for those linked. */
SMELT_API extern const smelt_model_info {_INFO};
const smelt_model_info {_INFO} = INFO;
SMELT_API extern const smelt_model_info {name}_info;
const smelt_model_info {name}_info = INFO;
"""


def _lesser(level: int) -> str:
    name = level_name(_INFO, level)
    return f"extern const smelt_model_info {name};\nconst smelt_model_info {name} = INFO;\n"


def header_text(exe: Exportable) -> str:
    """One self-contained C header: smelt.h, then this model."""
    name = c_name(exe.name)
    lines = [
        " * "
        + _comment(f"{role[:-1]} {i}: {t['name']} {t['dtype']}[{', '.join(map(str, t['shape']))}]")
        for role, tensors in c_tensors(exe.metadata).items()
        for i, t in enumerate(tensors)
    ]
    lines += [f" * input {i} may become output {o} in place: give both the same data"
              for i, o in exe.metadata.get("updates", ())]  # fmt: skip
    rows = "\n".join(lines)
    text, classes = [(source_folder() / f).read_text() for f in ("smelt.h", "smelt.hpp")]
    return f"""{text}
/* Model {_comment(exe.name)}, compiled by smelt.
 *
{rows}
 */
#ifndef SMELT_MODEL_{name}_H
#define SMELT_MODEL_{name}_H

#ifdef __cplusplus
extern "C" {{
#endif

extern const smelt_model_info {name}_info;

/* NULL on failure: see smelt_last_error(). */
static inline smelt_model *{name}_open(void) {{ return smelt_model_open(&{name}_info); }}

#ifdef __cplusplus
}}
#endif

#endif

{classes}"""


# ---- linking ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """What a library is linked from.

    sources   C: the description as the code knows it, one for each processor
    objects   the model's code
    metadata  the description as JSON
    weights   the constants
    triple    of the machine; "": this one
    """

    name: str
    sources: Sequence[str]
    objects: Sequence[bytes]
    metadata: bytes
    weights: memoryview
    triple: str = ""

    def write(self, folder: Path) -> list[Path]:
        """The source and the objects as files."""
        sources = [folder / f"model{n or ''}.c" for n in range(len(self.sources))]
        for file, text in zip(sources, self.sources, strict=True):
            file.write_text(text, encoding="ascii")
        objects = [folder / f"model{i}.o" for i in range(len(self.objects))]
        for file, data in zip(objects, self.objects, strict=True):
            file.write_bytes(data)
        return [*sources, *objects]


def digest_of(metadata: bytes) -> int:
    """The id of an export: of everything in it, since the metadata hold a digest of the rest."""
    return int.from_bytes(hashlib.blake2b(metadata, digest_size=8).digest(), "little")


def parts_of(exe: Exportable) -> Parts:
    """What is linked to export an executable."""
    levels = [exe, *exe.lesser]
    weights, offsets = _joined([e.weights for e in levels])
    content = hashlib.blake2b(weights, digest_size=16)
    objects = [*dict.fromkeys([data for e in levels for data in e.objects])]
    for data in objects:
        content.update(data)
    described = [
        {**e.metadata, "content": content.hexdigest(),
         "weights_bytes": 0 if e.weights is None else e.weights.nbytes,
         **({"weights_offset": at} if exe.lesser else {})}
        for e, at in zip(levels, offsets, strict=True)
    ]  # fmt: skip
    whole: Any = {"levels": described} if exe.lesser else described[0]
    metadata = json.dumps(whole, sort_keys=True).encode()
    sources = [
        descriptor(one, e.has_plan, digest_of(metadata), n, n == len(levels) - 1)
        for n, (e, one) in enumerate(zip(levels, described, strict=True))
    ]
    return Parts(exe.name, sources, objects, metadata, weights, exe.triple)


def _joined(all_weights: Sequence[npt.NDArray[Any] | None]) -> tuple[memoryview, list[int]]:
    """The constants of all forms of a model, and where those of each begin: in a page of their own,
    so that a form's can be mapped without the others'."""
    found = [w if w is not None else np.empty(0, np.uint8) for w in all_weights]
    offsets, end = [], 0
    for w in found:
        offsets.append(-(-end // _PAGE) * _PAGE)
        end = offsets[-1] + w.nbytes
    if len(found) == 1:
        return found[0].data, offsets
    whole = np.zeros(end, np.uint8)
    for at, w in zip(offsets, found, strict=True):
        whole[at : at + w.nbytes] = w.reshape(-1).view(np.uint8)
    return whole.data, offsets


def _exported(name: str) -> list[str]:
    """What a model's library shows: what the runtime declares as SMELT_API, and the model."""
    text = "".join([f.read_text() for f in sorted(source_folder().glob("*.[ch]"))])
    found = set(re.findall(r"^SMELT_API [^;{]*?(smelt_\w+)\(", text, re.MULTILINE))
    return [*sorted(found), _INFO, f"{c_name(name)}_info"]


def _link(
    parts: Parts, command: list[str], fcompile: Linker | None, folder: Path, name: str
) -> Path:
    """Compiles the description and the runtime and links them with the model's objects.

    name  what the library will be called
    """
    sources = sorted(source_folder().glob("*.c"))
    machine = machine_of(parts.triple or f"this-{sys.platform}")
    result = folder / "library.so"
    flags = ["-shared", "-std=c11", "-O2", "-fPIC", "-fvisibility=hidden"]
    flags.append(f"-I{source_folder()}")
    libraries = []
    if machine.system == "windows":
        # It shows what is dllexport, and says by which name programs linked with it look for it.
        result = folder / (name if name.endswith(".dll") else "library.dll")
        flags.append("-s")
        libraries = ["-lm", "-lpthread", "-lapi-ms-win-core-synch-l1-2-0"]
    if machine.system == "linux":
        # Several exported models in one program must not see each other's functions.
        script = folder / "exports"
        script.write_text(f"{{ global: {'; '.join(_exported(parts.name))}; local: *; }};\n")
        flags += [f"-Wl,--version-script={script}", "-Wl,-z,noexecstack", "-Wl,--hash-style=gnu"]
        threads = [] if machine.environment.startswith("android") else ["-lpthread"]
        libraries = ["-lm", *threads, "-ldl"]
    files = [str(f) for f in [*parts.write(folder), *sources]]
    if fcompile is None:
        run_compiler(command, [*flags, *files, "-o", str(result), *libraries])
        who = f"the C compiler, {shlex.join(command)},"
    else:
        fcompile(str(result), files, options=[*flags[1:], *libraries])
        who = f"fcompile={fcompile!r}"
    if not result.exists():
        raise ExportError(f"{who} wrote no file {result.name}")
    return result


def link_kernel(code: bytes, triple: str = "") -> bytes:
    """Object code as a shared library by itself, without the runtime: what it needs is smelt_host
    and the C library. triple: of the machine; "": this one. Raises ExportError."""
    command = find_compiler(None, triple)
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(code)
        flags = ["-shared", "-Wl,-z,noexecstack", "-Wl,--hash-style=gnu"]
        run_compiler(command, [*flags, str(source), "-o", str(result), "-lm"])
        return result.read_bytes()


def compile_source(text: str, name: str, flags: Sequence[str] = ()) -> bytes:
    """Object code of a C source, position-independent; `name` stands in the compiler's messages."""
    command = find_compiler(None)
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        source, result = Path(folder, f"{c_name(name)}.c"), Path(folder, "code.o")
        source.write_text(f'#line 1 "{source.name}"\n{text}', encoding="utf-8")
        fixed = ["-c", "-O2", "-fPIC", "-Werror=implicit-function-declaration",
                 "-Werror=int-conversion", "-Werror=return-type"]  # fmt: skip
        run_compiler(command, [*fixed, *flags, str(source), "-o", str(result)])
        return result.read_bytes()


# ---- the file ----------------------------------------------------------------------------------


def _write_library(file: BinaryIO, parts: Parts, code: bytes, metadata: bytes, aside: bool) -> None:
    """Write code, constants unless they are aside, metadata, and where all of it stands."""
    start, size = -(-len(code) // _PAGE) * _PAGE, len(parts.weights)
    file.write(code)
    if not aside:
        file.write(bytes(start - len(code)))
        file.write(parts.weights)
    places = 0 if aside else start, size, file.tell(), len(metadata)
    file.write(metadata)
    flags, end = SIDECAR_FLAG if aside else 0, file.tell() + FOOTER.size
    export_id = digest_of(parts.metadata)
    file.write(FOOTER.pack(MAGIC, abi.ABI_VERSION, flags, *places, export_id, end))


def check_writable(exe: Exportable, target: Path) -> None:
    """Refuses to export what has no objects, or to a folder that cannot be written."""
    if not exe.objects:
        raise ExportError(
            f"{exe.name}: it has no object files to export; "
            "a model loaded from a library is exported by copying that file"
        )
    check_target(target)


def export_library(
    exe: Exportable,
    path: str | os.PathLike[str],
    *,
    cc: str | Sequence[str] | None = None,
    fcompile: Linker | None = None,
) -> None:
    """Writes the shared library of a model; constants over 2 GB go to PATH.weights beside it.

    fcompile: links in place of the C compiler: (path of the library, files, options=[...]), where
    the files are C sources and objects
    """
    target = Path(path)
    check_writable(exe, target)
    link_parts(parts_of(exe), target, cc, fcompile)


def link_parts(
    parts: Parts,
    target: Path,
    cc: str | Sequence[str] | None = None,
    fcompile: Linker | None = None,
) -> None:
    """Links a library and writes it; `cc` and `fcompile` as of `export_library`."""
    _check_system(parts.triple)
    command = find_compiler(cc, parts.triple) if fcompile is None else []
    aside = len(parts.weights) > _SIDECAR_BYTES
    if aside and is_special(target):
        raise ExportError(
            f"cannot write {target}: {len(parts.weights)} bytes of constants need a second file "
            "beside it"
        )
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        code = _link(parts, command, fcompile, Path(folder), target.name).read_bytes()
    if aside:
        sidecar = target.with_name(target.name + ".weights")
        write_file(sidecar, lambda file: _write_library(file, parts, b"", b"", False))
    write_file(target, lambda file: _write_library(file, parts, code, parts.metadata, aside), 0o777)


def _check_system(triple: str) -> None:
    """Refuses systems that the runtime does not know."""
    machine = machine_of(triple)
    if machine.system == "windows" and machine.zig not in _WINDOWS:
        raise ExportError(
            f"there are no libraries for {triple}; legal, of Windows: {', '.join(_WINDOWS)}, or an "
            "object file, model.o"
        )


def export_runner(
    path: str | os.PathLike[str], triple: str = "", cc: str | Sequence[str] | None = None
) -> None:
    """Writes the program `smelt-run`, which runs exported libraries on a machine without Python.

    It is a static program, which needs no libraries of that machine.

    triple  of that machine, which has Linux; "": this one
    cc      the C compiler for it; None: one that is installed

    Raises ExportError.
    """
    _export_program(path, ["smelt_run.c"], triple, cc)


def export_server(
    path: str | os.PathLike[str], triple: str = "", cc: str | Sequence[str] | None = None
) -> None:
    """Writes the program `smelt-server`, a server of smelt.rpc for a machine without Python.

    The arguments are those of `export_runner`. Raises ExportError.
    """
    _export_program(path, ["server/*.c"], triple, cc)


def _export_program(
    path: str | os.PathLike[str], sources: Sequence[str], triple: str,
    cc: str | Sequence[str] | None,
) -> None:  # fmt: skip
    """Writes a static program with the runtime inside; sources: patterns below native/tools."""
    command = find_static_compiler(cc, triple)
    folder = source_folder()
    wanted = ["*.c", "tools/library.c", *[f"tools/{s}" for s in sources]]
    files = [str(f) for pattern in wanted for f in sorted(folder.glob(pattern))]
    # sanitizers, which a cc may ask for, need shared libraries
    static = [] if any(w.startswith("-fsanitize") for w in command) else ["-s", "-static"]
    flags = ["-std=c11", "-Os", *static, "-DSMELT_ALONE", f"-I{folder}",
             f'-DSMELT_VERSION="{version("smelt")}"',
             "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="smelt-") as made:
        program = Path(made, "program")
        run_compiler(command, [*flags, *files, "-o", str(program), "-lm", "-lpthread"])
        data = program.read_bytes()
    write_file(path, lambda file: file.write(data), 0o777)


def write_header(exe: Exportable, path: str | os.PathLike[str]) -> None:
    """Writes the C header of a model."""
    text = header_text(exe).encode()
    write_file(path, lambda file: file.write(text))
