"""A compiled model that is not loaded: made for any machine, then loaded here or written.

artifact = smelt.compile_artifact("resnet18.onnx", "llvm -mtriple=aarch64-linux-gnu")
artifact.export_library("resnet18.so")
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from smelt.codegen.cache import ObjectCache, cache_key
from smelt.codegen.llvm import is_native, link_in_process, object_code
from smelt.codegen.workers import default_pool
from smelt.ir.errors import CompileError
from smelt.ir.options import Options
from smelt.lowering.instrument import check_wanted, dump_folder
from smelt.runtime.archive import export
from smelt.runtime.errors import ExportError
from smelt.runtime.files import check_library, check_target, write_file
from smelt.runtime.linking import Linker, c_name, level_name
from smelt.runtime.native_executable import NativeExecutable
from smelt.runtime.web import export_package
from smelt.target import Target
from smelt.target.processor import architecture, features_of

from .host import ENTRY, PLAN

T = TypeVar("T")
_OBJECT = "smelt.codegen.llvm:object_code"
_ONE_OBJECT = "smelt.codegen.llvm:one_object"
OBJECT = (".o",), "model.o; export_library(...) writes libraries"
"""What an artifact is written as."""

HOST = "host"
"""What the text of the host program is called."""

_MARK = 32
"""Bytes of a mark in an object file at which data are put in."""

ELSEWHERE = (
    '; smelt.compile_artifact(...).export_library("model.so"), or smelt compile -o model.so, '
    'writes a library for it (of wasm a package, -o FOLDER), smelt.show(..., "asm") prints it'
)
"""What to do with a model for another machine."""


@dataclass(frozen=True)
class Artifact:
    """A compiled model that is not loaded: what a file of it consists of.

    target    what it is compiled for, which may be another machine than this one
    metadata  inputs, outputs, sizes, needed CPU features, kernels
    weights   the blob of constants, in bytes
    options   how it was compiled
    objects   object code
    texts     LLVM text of what is no object code yet, by name: the host program, the kernels
    """

    target: Target
    metadata: dict[str, Any]
    weights: np.ndarray
    options: Options
    objects: tuple[bytes, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model's name as the start of C identifiers."""
        return c_name(str(self.metadata["name"]))

    def write(self, path: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Write one object file with everything in it, and the header that declares what it has.

        path  ends in .o; the header stands beside it, under the same name, and ends in .h

        Gives both paths. Raises ExportError for another ending or what cannot be written, and
        CompileError for external functions, whose code is this machine's.
        """
        file = Path(path)
        check_target(file, *OBJECT)
        self.check_portable(file)
        if self.decides:
            raise ExportError(
                f"cannot write {file}: the model decides while it runs; legal: "
                'export_library("model.so")'
            )
        header = file.with_suffix(".h")
        check_target(file)
        data = {
            f"{self.name}_weights": self.weights.tobytes(),
            f"{self.name}_metadata": json.dumps(self.metadata).encode() + b"\0",
        }
        marks = {symbol: secrets.token_hex(_MARK // 2).encode() for symbol in data}
        texts = [_renamed(text, self.name) for text in self.texts.values()]
        texts.append(_placeholders({s: (marks[s], len(d)) for s, d in data.items()}))
        kept = [f"{self.name}_entry", f"{self.name}_plan", *data]
        pool = default_pool(self.options.worker_count)
        (code,) = pool.map(_ONE_OBJECT, [(self.target, texts, kept)], [str(file)])
        made = _filled(code, marks, data)
        write_file(file, lambda out: out.write(made))
        write_file(header, lambda out: out.write(self.header().encode()))
        return file, header

    def export_library(
        self,
        path: str | os.PathLike[str],
        fcompile: Linker | None = None,
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Write a shared library for the target's machine, with the runtime in it.

        path      "x.so", for Windows "x.dll", or "x.tar" with objects that are linked where they
                  are loaded
        fcompile  what links or packs in place of the C compiler, see smelt.contrib.cc
        cc        the C compiler for that machine, e.g. "aarch64-linux-gnu-gcc"; a .tar is then
                  linked already; None: one that is installed
        header    also write the C header beside it

        Raises ExportError where it cannot be written, or without a C compiler for that machine, and
        CompileError for external functions, whose code is this machine's.
        """
        check_library(path, "" if is_native(self.target) else self.target.mtriple)
        if not is_native(self.target):
            self.check_portable(Path(path))
        export(self.linkable(), path, cc=cc, fcompile=fcompile, header=header)

    def export_package(
        self, folder: str | os.PathLike[str], *, cc: str | Sequence[str] | None = None
    ) -> None:
        """Write a model for WebAssembly as a package of JavaScript, which npm can publish.

        A target with several cores, "wasm -num-cores=4", makes it a package with threads.

        folder  is made; index.mjs has `load`, package.json names the model
        cc      the C compiler; None: that of the package ziglang

        Raises ExportError where it cannot be written, for another target, or without a compiler.
        """
        if architecture(self.target) != "wasm":
            raise ExportError(
                f"{self.metadata['name']}: it is compiled for {self.target.mtriple}; packages are "
                'of models for WebAssembly: smelt.compile_artifact(model, "wasm")'
            )
        self.check_portable(Path(folder))
        threads = self.options.cores if "atomics" in features_of(self.target) else 1
        export_package(self.linkable(), folder, cc, threads)

    @property
    def decides(self) -> bool:
        """Whether the model decides while it runs."""
        return self.metadata.get("kind") == "vm"

    def code(self, level: int = 0, *, here: bool = False) -> list[bytes]:
        """Its object files.

        level  of several forms of a model in one library: their host programs have other names
        here   make them in this process: see `objects_of`
        """
        texts = {**self.texts}
        if level:
            texts[HOST] = _numbered(texts[HOST], level)
        return [*self.objects, *objects_of(texts, self.target, self.options, here=here)]

    def linkable(self, lesser: Sequence[Artifact] = ()) -> Linkable:
        """What a library of it is linked from.

        lesser  the same model for processors with fewer features
        """
        forms = [
            Linkable(
                a.metadata, str(a.metadata["name"]), a.code(n), a.weights, not a.decides,
                "" if is_native(a.target) else a.target.mtriple,
            )
            for n, a in enumerate((self, *lesser))
        ]  # fmt: skip
        return replace(forms[0], lesser=forms[1:])

    def check_portable(self, file: Path) -> None:
        """Raise a CompileError where a part of it is for this machine, or in Python."""
        segments = self.metadata.get("segments", (self.metadata,))
        kernels = [k["name"] for s in segments for k in s["kernels"] if k.get("compiler")]
        parts = ", ".join(kernels or self.metadata.get("python", ()))
        if parts:
            where = "has code of this machine only" if kernels else "runs in Python on this machine"
            raise CompileError(f"{file}: {parts} {where}")

    def header(self) -> str:
        """The C header of the object file."""
        guard, name = f"SMELT_{self.name.upper()}_H", self.name
        rows = [
            f" *   {role} {i}: {t['dtype']}[{', '.join(map(str, t['shape']))}]"
            for role in ("input", "output")
            for i, t in enumerate(self.metadata[role + "s"])
        ]
        tensors = len(rows)
        rows += [
            f" *   output {o} is the memory of input {i}, which a run updates"
            for i, o in self.metadata.get("updates", ())
        ]
        rows += [
            f" *   input {i} begins as the array at byte {at} of the constants"
            for i, _, at in self.metadata.get("starts", ())
        ]
        symbols = len(self.metadata["symbols"])
        workspace = self.metadata["workspace_bytes"]
        return f"""/* A model compiled by smelt for {self.target.mtriple}.
 * To be linked with smelt's runtime.
 *
{chr(10).join(rows)}
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {guard[:-2]}_ABI {self.metadata["abi"]}
#define {guard[:-2]}_TENSORS {tensors}
#define {guard[:-2]}_SIZES {symbols}
#define {guard[:-2]}_WEIGHTS_BYTES {self.weights.nbytes}
#define {guard[:-2]}_WORKSPACE_BYTES {-1 if workspace is None else workspace} /* -1: ask the plan */

/* The constants, aligned to 64 bytes; the description as JSON. */
extern const uint8_t {name}_weights[];
extern const char {name}_metadata[];

/* Runs the model: the addresses of inputs, then outputs; the symbolic sizes; the constants; scratch
 * memory. `host` is a smelt_host of smelt.h. Gives 0, or a smelt_status. */
int32_t {name}_entry(void *host, void **tensors, const int64_t *sizes, const void *weights,
                     void *workspace);

/* Evaluates the outputs' extents, and the bytes of scratch memory, for some sizes. */
int32_t {name}_plan(const int64_t *sizes, int64_t *extents, int64_t *workspace_bytes);

#ifdef __cplusplus
}}
#endif

#endif
"""


@dataclass(frozen=True)
class Linkable:
    """An artifact with its object code: see Exportable, whose fields these are."""

    metadata: Mapping[str, Any]
    name: str
    objects: Sequence[bytes]
    weights: np.ndarray
    has_plan: bool
    triple: str = ""
    lesser: Sequence[Linkable] = ()


def check_native(target: Target, instead: str = "") -> None:
    """Raise a CompileError where code for a (resolved) target cannot run here.

    instead  what can be done, for the message
    """
    if not is_native(target):
        raise CompileError(f"code for {target.mtriple} cannot run on this machine{instead}")


def load(artifact: Artifact) -> NativeExecutable:
    """An artifact linked into this process. Raises CompileError for another machine's code."""
    check_native(artifact.target, ELSEWHERE)
    objects = artifact.code()
    addresses, alive = link_in_process(objects, [ENTRY, PLAN])
    weights, threads = artifact.weights, artifact.options.threads
    entry, plan = addresses[ENTRY], addresses[PLAN]
    return NativeExecutable(entry, plan, artifact.metadata, weights, alive, threads, objects)


def objects_of(
    texts: Mapping[str, str], target: Target, options: Options, *, here: bool = False
) -> list[bytes]:
    """Object code by the workers, or from the cache: the texts are the keys.

    here  make it in this process: for texts that are not worth starting workers
    """

    def made(missing: Sequence[str]) -> list[bytes]:
        jobs = [(target, texts[n], n) for n in missing]
        if here or not jobs:
            return [object_code(*job) for job in jobs]
        return default_pool(options.worker_count).map(_OBJECT, jobs, missing)

    keys = {name: cache_key("object", ir, str(target)) for name, ir in texts.items()}
    return [*cached(options, keys, made, bytes, bytes).values()]


def cached(
    options: Options,
    keys: Mapping[str, str],
    make: Callable[[Sequence[str]], Sequence[T]],
    read: Callable[[bytes], T | None],
    write: Callable[[T], bytes],
) -> dict[str, T]:
    """Compiled things by name: from the cache, others made and kept there.

    There is no cache where it is switched off, or somebody watches the passes.
    keys  what the cache calls them
    read  gives None for what is damaged, which is made again
    """
    off = options.cache_dir == "" or dump_folder(options) or check_wanted()
    cache = None if off else ObjectCache(options.cache_dir)
    done: dict[str, T | None] = dict.fromkeys(keys)
    for name, key in keys.items():
        if cache is not None and (data := cache.get(key)) is not None:
            done[name] = read(data)
    missing = [name for name, thing in done.items() if thing is None]
    for name, thing in zip(missing, make(missing), strict=True):
        done[name] = thing
        if cache is not None:
            cache.put(keys[name], write(thing))
    return {name: thing for name, thing in done.items() if thing is not None}


def _renamed(text: str, name: str) -> str:
    """A text in which the host program's functions are called after the model."""
    return re.sub(rf'@"({ENTRY}|{PLAN})"', lambda m: f"@{name}_{m[1].removeprefix('smelt_')}", text)


def _numbered(text: str, level: int) -> str:
    """The text of a host program in which all that other files see has names of its own."""
    shown = re.findall(r'^define i32 @"([\w.]+)"|^@(\w+) = constant', text, re.M)
    names = "|".join([re.escape(f or c) for f, c in shown])
    return re.sub(rf'@("?)({names})\b(?!\.)', lambda m: f"@{m[1]}{level_name(m[2], level)}", text)


def _placeholders(data: Mapping[str, tuple[bytes, int]]) -> str:
    """LLVM text of constants that begin with a mark: their bytes are put in later."""
    lines = []
    for symbol, (mark, size) in data.items():
        rest = max(0, size - _MARK)
        kind = f"{{ [{_MARK} x i8], [{rest} x i8] }}"
        lines.append(
            f'@{symbol} = constant {kind} {{ [{_MARK} x i8] c"{mark.decode()}", '
            f"[{rest} x i8] zeroinitializer }}, align 64"
        )
    return "\n".join(lines) + "\n"


def _filled(code: bytes, marks: Mapping[str, bytes], data: Mapping[str, bytes]) -> bytearray:
    """An object file with the data in the places of their marks."""
    made = bytearray(code)
    for symbol, mark in marks.items():
        at = code.find(mark)
        if at < 0 or code.find(mark, at + 1) >= 0:
            raise CompileError(f"the object format of this target has no place for {symbol}")
        made[at : at + _MARK] = bytes(_MARK)
        made[at : at + len(data[symbol])] = data[symbol]
    return made
