"""The Model Library Format: models as C in one tar, with what their memory comes to.

metadata.json               version 7; what smelt knows besides stands under "smelt"
codegen/host/src/NAME.c     codegen/host/include/NAME.h
executor-config/graph/MODULE.graph  for the graph executor: the graph
parameters/MODULE.params    its parameters; else none: the constants are in the source
src/MODULE.relay            what was compiled, where it is known
runtime/README.txt          and the graph executor, where a model needs it
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import io
import json
import math
import os
import re
import tarfile
import time
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from smelt.ir.dtype import bytes_of
from smelt.ir.errors import SmeltError
from smelt.runtime.errors import kind_of, unknown
from smelt.runtime.files import check_target, write_file

from .csource import CSource, CTensor
from .errors import ModelLibraryFormatError, UnsupportedInModelLibraryFormatError

VERSION = 7
_OURS = 2
"""The version of the part under "smelt"."""

_MEMBER = re.compile(
    r"metadata\.json|runtime/(README\.txt|smelt_graph\.[ch])|src/\w+\.relay"
    r"|codegen/host/(src/\w+\.c|include/\w+\.h)|executor-config/graph/\w+\.graph"
    r"|parameters/\w+\.params"
)
_MOST_BYTES = 1 << 30
"""Of an archive: more than any microcontroller's flash as text."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_README = (
    "The sources under codegen/ need no runtime: they call the C library's <math.h> alone. Those\n"
    "of models with a graph are compiled with smelt_graph.c, which is here then.\n"
)


def code_of(module: object) -> CSource:
    """The C of a module: a CSource, or what relay.build gives for a target of the kind "c"."""
    code = getattr(module, "code", module)
    if not isinstance(code, CSource):
        raise UnsupportedInModelLibraryFormatError(
            f"{kind_of(module)} is no model as C; legal: what relay.build gives for a target "
            'such as "c -mcpu=cortex-m4", and what smelt.micro.compile_c gives'
        )
    return code


def export_model_library_format(
    mods: object | Sequence[object], file_name: str | os.PathLike[str]
) -> Path:
    """Write one or several models as C into a tar.

    mods       CSource, what relay.build gives for a target of the kind "c", or a list of them with
               different names
    file_name  *.tar. SOURCE_DATE_EPOCH (seconds) makes the time in it a fixed one

    Gives the file. Raises UnsupportedInModelLibraryFormatError, ExportError.
    """
    several = list(mods) if isinstance(mods, list | tuple) else [mods]
    check_target(file_name, (".tar",), "model.tar")
    members: dict[str, bytes] = {}
    modules: dict[str, Any] = {}
    when = _now()
    for module in several:
        code, name = code_of(module), _module_name(module)
        if name in modules or f"codegen/host/src/{code.name}.c" in members:
            raise UnsupportedInModelLibraryFormatError(
                f"two models are called {name}; compile_c(..., name=) and relay.build(..., "
                "mod_name=) name them"
            )
        modules[name] = _described(module, code, name, when)
        members |= _files(module, code, name)
    if not modules:
        raise UnsupportedInModelLibraryFormatError("there is no model to write; legal: one or more")
    members["metadata.json"] = _json({"version": VERSION, "modules": modules})
    members["runtime/README.txt"] = _README.encode()
    write_file(file_name, lambda file: _pack(file, members, int(when.timestamp())))
    return Path(file_name)


def _module_name(module: object) -> str:
    return re.sub(r"\W", "_", getattr(module, "libmod_name", "") or code_of(module).name)


def _now() -> datetime.datetime:
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = float(text) if text.isdecimal() else time.time()
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"


def _described(module: object, code: CSource, name: str, when: datetime.datetime) -> dict[str, Any]:
    """A model in metadata.json."""
    report = code.memory
    tensors = {
        kind: {t.name: {"dtype": t.dtype, "shape": list(t.shape), "size": tensor_bytes(t)}
               for t in listed}
        for kind, listed in (("inputs", code.inputs), ("outputs", code.outputs))
    }  # fmt: skip
    main = {
        "device": 1,
        "workspace_size_bytes": code.workspace_bytes,
        "constants_size_bytes": code.constant_bytes,
        "io_size_bytes": report.inputs + report.outputs,
        **tensors,
    }
    operators = [
        {"function_name": kernel, "workspace": [{"device": 1, "workspace_size_bytes": step.live}]}
        for kernel, step in zip(code.kernels, report.steps, strict=True)
    ]
    texts = {kind: _digest(_bytes(getattr(code, kind))) for kind in _paths(code.name, name)}
    ours = dataclasses.asdict(code) | texts | {"version": _OURS}
    sizes = json.loads(code.graph)["attrs"]["storage_bytes"][1] if code.graph else []
    sids = [{"storage_id": n, "size_bytes": size, "input_binding": ""}
            for n, size in enumerate(sizes)]  # fmt: skip
    return {
        "model_name": name,
        "export_datetime": when.strftime("%Y-%m-%d %H:%M:%SZ"),
        "memory": {"sids": sids, "functions": {"main": [main], "operator_functions": operators}},
        "target": [str(getattr(module, "target", "c"))],
        "executors": ["graph" if code.graph else "aot"],
        "style": "full-model",
        "external_dependencies": [],
        "smelt": ours,
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _paths(code: str, module: str) -> dict[str, str]:
    """The files of fields of a CSource; code, module: the names of both."""
    return {
        "source": f"codegen/host/src/{code}.c",
        "header": f"codegen/host/include/{code}.h",
        "parameters": f"parameters/{module}.params",
        "graph": f"executor-config/graph/{module}.graph",
    }


def _bytes(field: str | bytes) -> bytes:
    return field if isinstance(field, bytes) else field.encode()


def _files(module: object, code: CSource, name: str) -> dict[str, bytes]:
    """The files of one model."""
    texts = {path: _bytes(getattr(code, kind)) for kind, path in _paths(code.name, name).items()}
    found = {path: data for path, data in texts.items() if data}
    found |= {f"runtime/{n}": text.encode() for n, text in code.runtime.items()}
    program = getattr(module, "ir_mod", None)
    if program is not None:
        found[f"src/{name}.relay"] = program.astext(show_meta_data=False).encode()
    return found


def _pack(file: BinaryIO, members: Mapping[str, bytes], when: int) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), when, 0o644
            tar.addfile(entry, io.BytesIO(data))


def tensor_bytes(t: CTensor) -> int:
    """The bytes of an input or output."""
    return math.prod(t.shape) * bytes_of(t.dtype)


# ---------------------------------------------------------------------------------------- reading


def read_model_library_format(path: str | os.PathLike[str], module: str = "") -> CSource:
    """The model in an archive that `export_model_library_format` wrote, equal to what was written.

    module  which one; "": the only one

    Every member is checked before it counts. Raises ModelLibraryFormatError.
    """
    members = _unpack(Path(path))
    try:
        return _model(members, module)
    except ModelLibraryFormatError as e:
        raise ModelLibraryFormatError(f"{path}: {e}") from None
    except (KeyError, TypeError, ValueError, RecursionError, SmeltError) as e:
        said = f"{e.args[0]} is missing" if isinstance(e, KeyError) else str(e)
        raise ModelLibraryFormatError(f"{path}: it is damaged: {said}") from None


def _unpack(path: Path) -> dict[str, bytes]:
    """The members of an archive: known names, plain files, none twice, no more than the file."""
    found: dict[str, bytes] = {}
    try:
        limit = path.stat().st_size
        if limit > _MOST_BYTES:
            raise ModelLibraryFormatError(f"{path}: it has {limit:,} bytes; legal: {_MOST_BYTES:,}")
        with tarfile.open(path, mode="r:") as tar:
            for member in tar:
                plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()
                known = _MEMBER.fullmatch(member.name) and member.name not in found
                source = tar.extractfile(member) if plain and known else None
                if source is None or not 0 <= member.size <= limit:
                    raise ModelLibraryFormatError(
                        f"{path}: it holds {member.name[:100]!r}, which is no file of a Model "
                        "Library Format that smelt writes"
                    )
                limit -= member.size
                found[member.name] = source.read()
                if len(found[member.name]) != member.size:
                    raise tarfile.ReadError("unexpected end of data")
    except OSError as e:
        raise ModelLibraryFormatError(f"cannot read {path}: {e.strerror or e}") from None
    except tarfile.TarError as e:
        raise ModelLibraryFormatError(f"{path}: it is no whole tar: {e}") from None
    return found


def _model(members: Mapping[str, bytes], wanted: str) -> CSource:
    metadata = json.loads(members["metadata.json"])
    if metadata["version"] != VERSION:
        raise ModelLibraryFormatError(
            f"it is of version {metadata['version']!r}; smelt reads version {VERSION}"
        )
    modules = metadata["modules"]
    if not wanted and len(modules) != 1:
        raise ModelLibraryFormatError(
            f"it has {len(modules)} models; name one: {', '.join(modules)}"
        )
    if wanted and wanted not in modules:
        raise ModelLibraryFormatError(f"it has {unknown('model', wanted, modules)}")
    module = wanted or next(iter(modules))
    if "smelt" not in modules[module]:
        raise ModelLibraryFormatError("smelt did not write it, and reads its own")
    ours = dict(modules[module]["smelt"])
    if (version := ours.pop("version", None)) != _OURS:
        raise ModelLibraryFormatError(f"another smelt wrote it: {version!r}; legal: {_OURS}")
    for kind, path in _paths(ours["name"], module).items():
        held = b"" if ours[kind] == _digest(b"") else members[path]
        if ours[kind] != _digest(held):
            raise ValueError(f"{path} is not what was written")
        ours[kind] = held if kind == "parameters" else held.decode()
    code = _typed(CSource, ours, "model")
    assert isinstance(code, CSource)
    _check(code)
    return code


def _check(code: CSource) -> None:
    """What has to agree in a model. Raises ValueError."""
    report = code.memory
    for t in (*code.inputs, *code.outputs):
        if min(t.shape, default=1) < 0:
            raise ValueError(f"{t} is no tensor")
    fields = [t.name for t in (*code.inputs, *code.outputs)]
    for name in (code.name, *code.kernels, *fields, *[p.name for p in report.pools]):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for C")
    sizes = [sum(map(tensor_bytes, listed)) for listed in (code.inputs, code.outputs)]
    told = code.workspace_bytes, code.constant_bytes, len(code.kernels), *sizes
    planned = (report.workspace, report.constants, len(report.steps), report.inputs, report.outputs)
    if told != planned:
        raise ValueError(f"sizes {told} and the plan of its memory {planned} differ")


def _typed(kind: Any, value: object, where: str) -> object:
    """What JSON holds, as a dataclass, a tuple of one kind, or as it is. Raises ValueError."""
    if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
        of = typing.get_args(kind)[0]
        return tuple([_typed(of, v, f"{where}[{n}]") for n, v in enumerate(value)])
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        fields = dataclasses.fields(kind)
        value = {f.name: f.default for f in fields if f.default is not dataclasses.MISSING} | value
        if hints.keys() != value.keys():
            odd = ", ".join(sorted(hints.keys() ^ value.keys()))
            raise ValueError(f"{where} has not the fields that it should: {odd}")
        made: Any = kind
        return made(**{n: _typed(t, value[n], f"{where}.{n}") for n, t in hints.items()})
    legal = (str, bytes, bool, int, int | None)
    if type(value) in (typing.get_args(kind) or (kind,)) and kind in legal:
        return value
    raise ValueError(f"{where} is {str(value)[:60]!r}")
