"""LLVM through llvmlite, imported here only: IR text to objects, objects to addresses."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from smelt.ir.errors import CompileError, InternalError, TargetError
from smelt.runtime.compilers import machine_of
from smelt.runtime.errors import nearest
from smelt.runtime.native import missing_features
from smelt.target import Target, processor

from .features import check_needs, unknown_calls


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def host_cpu() -> tuple[str, tuple[str, ...]]:
    """This machine's CPU in LLVM's words: its name and the features that are on; and how long
    vectors of SVE are, which only the system knows."""
    on = [f for f, there in llvm.get_host_cpu_features().items() if there]
    if "sve" in on:
        on += {*processor.SVE_LENGTHS}.difference(missing_features([*processor.SVE_LENGTHS]))
    return llvm.get_host_cpu_name(), tuple(sorted(on))


def cpu_features(target: Target) -> tuple[str, ...]:
    """The features that code for a (resolved) target may use, as far as rules need to know."""
    return tuple(sorted(processor.features_of(target)))


def resolve(target: Target) -> Target:
    """A target with `native` replaced by this machine's CPU name and features, and checked."""
    if target.kind.name != "llvm":
        return target
    triple = target.mtriple or llvm.get_process_triple()
    full = target.with_attrs(mtriple=triple)
    _check_features(full)
    if target.mcpu == "native":
        if not is_native(full):
            raise TargetError(
                f"-mcpu=native is this machine's CPU, which is none of {triple}; name another"
            )
        name, on = host_cpu()
        name = processor.told_by_features(full.with_attrs(mcpu=name), on)
        off = [f for f in processor.implied(full.with_attrs(mcpu=name)) if f not in on]
        own = (*[f"+{f}" for f in on], *[f"-{f}" for f in off])
        return target.with_attrs(mcpu=name, mattr=(*own, *target.mattr), mtriple=triple)
    cpu = target.mcpu or ("x86-64" if triple.startswith("x86_64") else "generic")
    _check_cpu(cpu, full)
    return _with_system(target.with_attrs(mcpu=cpu, mtriple=triple))


def _with_system(target: Target) -> Target:
    """A target with what its system takes for granted: libraries of Linux on RISC-V are those of
    RV64GC, and code that passes floats otherwise cannot be linked with them; threads of WebAssembly
    share their memory, which all code of a module has to be compiled for."""
    given = target.attrs
    if processor.architecture(target) == "wasm" and given.get("num-cores", 1) > 1:
        needed = ("+atomics", "+bulk-memory")
        return target.with_attrs(mattr=tuple(dict.fromkeys((*target.mattr, *needed))))
    if not target.mtriple.startswith("riscv64") or "linux" not in target.mtriple or "mabi" in given:
        return target
    named = [f.lstrip("+-") for f in target.mattr]
    usual = [f"+{f}" for f in "mafdc" if f not in named and target.mcpu.startswith("generic")]
    return target.with_attrs(mabi="lp64d", mattr=(*usual, *target.mattr))


def _check_cpu(cpu: str, target: Target) -> None:
    """LLVM falls back silently on names that it does not know; we do not, where they are listed."""
    if "," in cpu:
        raise TargetError(
            f"-mcpu={cpu}: code is for one CPU; a library for several: smelt.compile_levels, or "
            "smelt compile -o model.so"
        )
    names = processor.known_cpus(target)
    if names and cpu not in names and not (is_native(target) and cpu == llvm.get_host_cpu_name()):
        listed = ", ".join(["native", *processor.LEVELS, *sorted({*names} - {*processor.LEVELS})])
        legal = listed if processor.architecture(target) == "x86" else ", ".join(sorted(names))
        raise TargetError(f"unknown CPU {cpu!r} for {target.mtriple}; known: {legal}")


def _check_features(target: Target) -> None:
    """LLVM ignores features that it does not know; we do not, where they are listed."""
    family = processor.architecture(target)
    if family not in processor.INSTRUCTIONS:
        return
    known = {*processor.INSTRUCTIONS[family], *_OTHERS.get(family, ())}
    if is_native(target):
        known.update(llvm.get_host_cpu_features())
    for f in target.mattr:
        if f.lstrip("+-") not in known:
            hint = nearest(f.lstrip("+-"), sorted(known))
            raise TargetError(f"unknown CPU feature {f!r} for {target.mtriple}{hint}")


def is_native(target: Target) -> bool:
    """Whether code for a (resolved) target is code for this kind of machine and its system."""
    own = machine_of(llvm.get_process_triple())
    made = machine_of(target.mtriple)
    return made == own or (made.arch == own.arch and not made.system)


def _with_vendor(triple: str) -> str:
    """A triple as LLVM reads it. Of "armv7-linux-gnueabihf" it would take Linux for the vendor and
    know no ABI, and pass floats in other registers than the system's libraries do."""
    arch, *rest = triple.split("-")
    if len(rest) == 1 and rest[0].startswith(("macos", "darwin")):  # else objects would be Linux's
        return "-".join([arch, "apple", *rest])
    without = len(rest) == 2 and rest[0] in ("linux", "none", "windows")
    return "-".join([arch, "unknown", *rest]) if without else triple


_OTHERS = {
    "x86": ("prefer-128-bit", "prefer-256-bit", "fast-gather", "soft-float", "x87", "64bit", "mmx",
            "sse", "sse2", "cx8", "cx16", "fxsr", "sahf", "aes", "pclmul", "sha", "adx", "crc32"),
    "aarch64": ("strict-align", "outline-atomics"),
    "arm": ("dsp", "d32", "strict-align", "thumb-mode", "thumb2", "vfp2", "vfp4d16sp"),
    "riscv": ("relax", "zve32x", "zve32f", "zve64d", "zvl128b", "zicsr", "zifencei"),
    "wasm": ("simd128", "relaxed-simd", "bulk-memory", "nontrapping-fptoint", "sign-ext",
             "atomics", "fp16", "multivalue", "mutable-globals", "tail-call"),
}  # fmt: skip
"""Features that a loader need not ask the CPU for: how to use it, and what no kernel holds."""


def _scheduled(target: Target) -> tuple[str, ...]:
    """The feature by which LLVM orders instructions of 32-bit Arm so that they need few registers:
    its usual way for these loads all of a loop's operands first, and then has no place for them."""
    arm = processor.architecture(target) == "arm" and "neon" in processor.features_of(target)
    return ("+use-misched",) if arm else ()


def _llvms(features: Sequence[str]) -> list[str]:
    """Features without lengths of vectors, which are an attribute of functions."""
    return [f for f in features if f.lstrip("+-") not in processor.SVE_LENGTHS]


class ObjectCompiler:
    """Turns IR text into object code for one (resolved) target."""

    def __init__(self, target: Target, quick: bool = False) -> None:
        """Make LLVM's machine for the target; `quick`: code that is soon made, not soon run."""
        triple = target.mtriple or llvm.get_process_triple()
        if triple.split("-")[0] == platform.machine():
            _initialize()
        else:
            _initialize_all()
        self.triple = _with_vendor(triple)
        self._target = target
        # half of LLVM's time goes into a search for induction variables. The text has them; other
        # processors' loads take an index or an offset, not both, and need more
        own = processor.architecture(target) == "x86"
        search = f"-disable-lsr={str(own).lower()}"
        # sums of integers would be added in another order, by more registers than there are
        combine = f"-x86-machine-combiner={str(not own).lower()}"
        self._options = search, combine
        on = processor.features_of(target)
        counts = [int(f[3:-1]) // 128 for f in processor.SVE_LENGTHS if f in on]
        self._length = "".join([f" vscale_range({n},{n})" for n in counts[-1:]])
        self._level = int(target.attrs.get("opt-level", 0))
        if not 0 <= self._level <= 3:
            raise TargetError(f"opt-level is {self._level}; legal: 0 (our own text) to 3")
        try:
            self._machine: Any = llvm.Target.from_triple(self.triple).create_target_machine(
                cpu=target.mcpu,
                features=",".join([*_llvms(target.mattr), *_scheduled(target)]),
                opt=0 if quick else 2,
                reloc="static" if processor.architecture(target) == "wasm" else "pic",
                codemodel="default",
                abiname=str(target.attrs.get("mabi", "")),
            )
        except RuntimeError as e:
            raise TargetError(f"LLVM has no target {triple!r}: {e}") from None

    def object(self, ir: str, name: str = "") -> bytes:
        """Object code of a module."""
        module = self._module(ir, name)
        data: bytes = self._machine.emit_object(module)
        for unknown in unknown_calls(ir, data):
            raise CompileError(f"{name}: LLVM knows no intrinsic {unknown}")
        return data

    def joined(self, texts: Sequence[str], kept: Collection[str]) -> bytes:
        """Object code of several modules as one; names that are not kept are its own."""
        first, *others = [self._module(ir, f"part {n}") for n, ir in enumerate(texts)]
        for module in others:
            first.link_in(module)
        for value in (*first.functions, *first.global_variables):
            if not value.is_declaration and value.name not in kept:
                value.linkage = "internal"
        data: bytes = self._machine.emit_object(first)
        return data

    def assembly(self, ir: str) -> str:
        """Assembly text of a module, for people."""
        text: str = self._machine.emit_assembly(self._module(ir, "show"))
        return text

    def _module(self, ir: str, name: str) -> Any:
        check_needs(ir, self._target, name)
        for option in self._options:
            llvm.set_option("smelt", option)  # of the process, which may have other targets
        layout = self._machine.target_data
        head = f'target triple = "{self.triple}"\ntarget datalayout = "{layout}"\n'
        try:
            module = llvm.parse_assembly(
                f"{head}{ir}\nattributes #0 = {{ nounwind{self._length} }}\n"
            )
        except RuntimeError as e:
            raise InternalError(f"kernel {name}: LLVM refuses the generated code: {e}") from None
        if self._level:  # our texts come out without need, but targets may ask for it
            tuning = llvm.create_pipeline_tuning_options(speed_level=self._level)
            builder = llvm.create_pass_builder(self._machine, tuning)
            builder.getModulePassManager().run(module, builder)
        elif "alloca" in ir:
            functions = llvm.create_new_function_pass_manager()
            functions.add_sroa_pass()
            builder = llvm.create_pass_builder(self._machine, llvm.PipelineTuningOptions())
            for f in module.functions:
                if not f.is_declaration:
                    functions.run(f, builder)
        return module


_compilers: dict[tuple[str, bool], ObjectCompiler] = {}


def object_code(target: Target, ir: str, name: str, quick: bool = False) -> bytes:
    """The object of an IR text for a resolved target.

    name   for messages
    quick  spend little time on it: for what runs once
    """
    key = str(target), quick
    if key not in _compilers:
        _compilers[key] = ObjectCompiler(target, quick)
    return _compilers[key].object(ir, name)


def one_object(target: Target, texts: Sequence[str], kept: Sequence[str]) -> bytes:
    """One object of several IR texts, in which nothing but the names kept can be seen."""
    return ObjectCompiler(target).joined(texts, kept)


def link_in_process(objects: Iterable[bytes], symbols: Iterable[str]) -> tuple[dict[str, int], Any]:
    """Load objects into this process; the addresses of some symbols, and what keeps them alive."""
    _initialize()
    jit = llvm.create_lljit_compiler(use_jit_link=True)
    builder = llvm.JITLibraryBuilder()
    for o in objects:
        builder.add_object_img(o)
    builder.add_current_process()
    for s in symbols:
        builder.export_symbol(s)
    library = builder.link(jit, "smelt.model")
    return {s: library[s] for s in symbols}, (jit, library)
