"""`tvmc compile`: a model as a package."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

import smelt
from smelt import auto_scheduler, autotvm, relay
from smelt.artifact.vm_construct import vm_construct
from smelt.codegen.llvm import is_native, resolve
from smelt.ir.module import IRModule
from smelt.micro import export_model_library_format, is_c, with_cmsis_nn
from smelt.pipeline import GRAPH, LOWER, VM
from smelt.relay.backend import Executor, Runtime, check_forms
from smelt.relay.build_module import bind_params
from smelt.relay.transform import LEVELS, ConvertLayout, FoldConstant, InferType, ToMixedPrecision
from smelt.runtime.compilers import find_compiler
from smelt.runtime.errors import nearest
from smelt.runtime.files import check_library, check_target, write_file
from smelt.target import Target
from smelt.transform import PassContext, PassPrintingInstrument, PassTimingInstrument

from . import arguments
from .model import PathLike, TVMCException, TVMCModel, TVMCPackage

STAGES = {"relay": "", "tir": "lowered", "ll": "llvm", "asm": "asm"}
"""What --dump-code knows, and what `smelt.stage_text` calls it."""

LAYOUT_OPS = ("nn.conv2d", "nn.conv2d_transpose", "qnn.conv2d")


class Transforms(TypedDict, total=False):
    """What is done to a module before it is compiled or tuned; see the options of these names."""

    desired_layout: str | Sequence[str] | None
    desired_layout_ops: Sequence[str] | None
    mixed_precision: bool
    mixed_precision_calculation_type: str | None


def compile_model(
    tvmc_model: TVMCModel,
    target: str | Target | None = None,
    opt_level: int = 3,
    executor: Executor | None = None,
    runtime: Runtime | None = None,
    tuning_records: PathLike | None = None,
    package_path: PathLike | None = None,
    cross: str | None = None,
    cross_options: str | None = None,
    output_format: str = "so",
    dump_code: str | Sequence[str] | None = None,
    target_host: str | Target | None = None,
    disabled_pass: str | Sequence[str] | None = None,
    pass_context_configs: Sequence[str] | None = None,
    additional_target_options: arguments.Options | None = None,
    use_vm: bool = False,
    mod_name: str = "default",
    print_pass_times: bool = False,
    print_ir_before: str | Sequence[str] | None = None,
    print_ir_after: str | Sequence[str] | None = None,
    instruments: Sequence[Any] = (),
    **transforms: Unpack[Transforms],
) -> TVMCPackage:
    """Compile a model, and write it as a package.

    executor, runtime  as of relay.build; use_vm: for a model that decides while it runs
    package_path       .tar, .so or .dll; None: a file that lives as long as the model
    cross              the C compiler that links, and cross_options: its further arguments

    The others are those of the command. Raises TVMCException, and what relay.build does.
    """
    path = package_path or tvmc_model.default_package_path()
    dumps = _known("--dump-code", "format", dump_code, STAGES)
    made = arguments.chosen_target(target, target_host, additional_target_options)
    cc = _linker(path, output_format, made, cross, cross_options)
    timing = PassTimingInstrument()
    watching = [*instruments, *_printing(print_ir_before, print_ir_after)]
    watching += [timing] if print_pass_times else []
    config = arguments.pass_configs(pass_context_configs)
    if tuning_records:
        config["relay.backend.use_auto_scheduler"] = True
    context = partial(PassContext, opt_level, None, arguments.names(disabled_pass), config=config)
    history = face_of(tuning_records).ApplyHistoryBest if tuning_records else nullcontext
    with history(tuning_records):
        with context(instruments=watching):
            mod = transformed(tvmc_model.mod, transforms)
            if mod_name != "default" or is_c(made):
                mod = IRModule(mod.functions, {**mod.attrs, "name": mod_name})
            bound = bind_params(mod, tvmc_model.params)
            form = None if use_vm else executor or Executor("graph")
            lib = _built(bound, made, form, runtime, with_cmsis_nn(target))
            if print_pass_times:
                print(timing.render())
        with context():
            for kind in dumps:
                _dump(f"{path}.{kind}", STAGES[kind], bound, made)
    _written(lib, path, output_format, cc)
    return TVMCPackage(path, model=tvmc_model)


def _printing(*given: str | Sequence[str] | None) -> list[PassPrintingInstrument]:
    """What prints modules before and after some passes, where there are any."""
    steps = dict.fromkeys([*LEVELS, *[n for s in (*GRAPH, *VM, *LOWER) for n in s.names]])
    both = [_known(f"--print-ir-{when}", "pass", names, steps)
            for when, names in zip(("before", "after"), given, strict=True)]  # fmt: skip
    return [PassPrintingInstrument(*both)] if any(both) else []


def transformed(mod: IRModule, asked: Transforms) -> IRModule:
    """A module in the layouts and types asked for. Raises TVMCException, TypeMismatch."""
    given, ops = asked.get("desired_layout") or [], asked.get("desired_layout_ops")
    layouts = [given] if isinstance(given, str) else [*given]
    if layouts:
        ops = ops or LAYOUT_OPS
        layouts = layouts * len(ops) if len(layouts) == 1 else layouts
        if len(layouts) != len(ops):
            raise TVMCException(f"--desired-layout: {len(layouts)} layouts for {len(ops)} operators"
                                "; legal: one, or one for each")  # fmt: skip
        pairs = [f"{text}:default".split(":")[:2] for text in layouts]
        mod = FoldConstant()(ConvertLayout(dict(zip(ops, pairs, strict=True)))(InferType()(mod)))
    elif ops:
        raise TVMCException("--desired-layout-ops: give --desired-layout, too")
    narrow = asked.get("mixed_precision_calculation_type")
    if asked.get("mixed_precision"):
        mod = ToMixedPrecision(narrow or "float16")(InferType()(mod))
    elif narrow:
        raise TVMCException("--mixed-precision-calculation-type: give --mixed-precision, too")
    return mod


def _built(
    mod: IRModule, target: Target, executor: Executor | None, runtime: Runtime | None, cmsis: bool
) -> Any:
    """What has export_library; executor: None for the virtual machine; cmsis: whether CMSIS-NN
    computes what it can."""
    check_forms(executor or Executor("graph"), runtime or Runtime("cpp"), target.kind.name)
    if executor is None and is_c(target):
        raise TVMCException("--executor vm: C has no virtual machine; legal: aot, graph")
    if executor is not None:
        if found := vm_construct(mod):
            raise TVMCException(f"the model decides while it runs, by {found}; give --executor vm")
        name = str(mod.attrs.get("name", "default"))
        wanted = f"cmsis-nn,{target}" if cmsis else target
        return relay.build(mod, wanted, executor=executor, runtime=runtime, mod_name=name)
    if is_native(resolve(target)):
        return relay.vm.compile(mod, target)
    return smelt.compile_artifact(mod, target, options=PassContext.current().options)


def _written(lib: Any, path: PathLike, output_format: str, cc: list[str] | None) -> None:
    """Write what _built gives."""
    if output_format == "mlf":
        export_model_library_format(lib, path)
    else:
        lib.export_library(path, cc=cc)


def face_of(records: PathLike) -> Any:
    """The tuner that wrote a log: autotvm or auto_scheduler. Raises OSError, TVMCException."""
    text = Path(records).read_text(encoding="utf-8", errors="replace").lstrip()
    if not text:
        raise TVMCException(f"--tuning-records {records}: it is empty; tvmc tune writes records")
    return auto_scheduler if text.startswith('{"i":') else autotvm


def _linker(
    path: PathLike, output_format: str, target: Target, cross: str | None, options: str | None
) -> list[str] | None:
    """The command that links a package; None: it holds objects."""
    if (output_format == "mlf") != is_c(target):
        raise TVMCException(f"--output-format {output_format} and --target {target}: mlf is C, and "
                            "C is mlf\n  legal: -f mlf --target \"c -mcpu=cortex-m4\", and so or "
                            "tar with other targets")  # fmt: skip
    if output_format == "mlf":
        check_target(path, (".tar",), "model.tar")
        return None
    triple = "" if is_native(resolve(target)) else target.mtriple
    check_library(path, triple)
    if output_format == "so":
        return [*find_compiler(cross or None, triple), *shlex.split(options or "")]
    if Path(path).suffix != ".tar" or cross or options:
        raise TVMCException(f"--output-format tar: objects are in a .tar (--output: {path}), "
                            "linked where they are loaded, without --cross-compiler")  # fmt: skip
    return None


def _known(option: str, what: str, given: str | Sequence[str] | None, known: Any) -> list[str]:
    """Names that an option lists. Raises TVMCException for one that is not known."""
    for name in arguments.names(given):
        if name not in known:
            raise TVMCException(f"{option} {name}: no such {what}{nearest(name, known)}; legal: "
                                f"{', '.join(known)}")  # fmt: skip
    return arguments.names(given)


def _dump(path: str, stage: str, mod: IRModule, target: Target) -> None:
    """Write a form of a model beside its package."""
    text = (
        smelt.stage_text(mod, stage, target=target) if stage else mod.astext(show_meta_data=False)
    )
    write_file(path, lambda file: file.write(text.encode()))
