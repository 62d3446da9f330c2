"""PassContext: levels, names, instruments, config; and the lowering pipeline that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.codegen.llvm_text import emit_module
from smelt.ir.config import CONFIG, OPTIONS
from smelt.ir.errors import CompileError, InternalError, SmeltError, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.lowering.lower import lower
from smelt.pipeline import LOWER
from smelt.rules.cpu import schedule
from smelt.tir import transform as t
from smelt.tir.nodes import AssertStmt, BlockRealize, PrimFunc, walk
from smelt.tir.printer import script
from smelt.tir.verify import verify
from smelt.transform import (
    DumpIR,
    PassContext,
    PassInfo,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    Sequential,
    module_pass,
    pass_instrument,
)
from tests.lowering import programs as kernels

from .support import MACHINE, has, kinds, program
from .test_laws import SIZES


def small() -> IRModule:
    text = 'def main(A: T.Buffer((8,), "float32")):\n    for i in range(8):\n        A[i + 0] = 1.0'
    return IRModule({"main": program(text)})


@module_pass(opt_level=2)
def mark(mod: IRModule, context: PassContext) -> IRModule:
    """Counts how often it has run."""
    count = mod.attrs.get("count", 0)
    return IRModule(mod.functions, {"count": count + 1, "level": context.opt_level})


class Log(PassInstrument):
    """Writes down what it is told."""

    def __init__(self, refused: tuple[str, ...] = ()) -> None:
        self.seen: list[str] = []
        self.refused = refused

    def enter_pass_ctx(self) -> None:
        self.seen.append("enter")

    def exit_pass_ctx(self) -> None:
        self.seen.append("exit")

    def should_run(self, mod: Any, info: PassInfo) -> bool:
        assert isinstance(mod, IRModule)
        return info.name not in self.refused

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        self.seen.append(f"before {info.name}")

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        self.seen.append(f"after {info.name}")


# ------------------------------------------------------------------------- passes by decorator


def test_passes_of_functions_and_modules_are_made_by_decorators() -> None:
    @t.prim_func_pass(opt_level=1)
    def note(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        return func.with_attrs(level=context.opt_level, others=len(mod.functions))

    assert (note.info.name, note.info.opt_level) == ("note", 1)
    assert isinstance(note, t.PrimFuncPass)
    with PassContext(opt_level=3):
        assert note(small())["main"].attrs["level"] == 3
        assert note(small()["main"]).attrs["others"] == 1
        assert mark(small()).attrs == {"count": 1, "level": 3}
    with pytest.raises(CompileError) as caught:
        mark(small()["main"])
    assert str(caught.value) == (
        "mark is a pass on modules; PrimFunc is none: IRModule({name: function}) makes one"
    )


def test_classes_of_passes_are_made_by_decorators() -> None:
    class Attribute:
        """Sets an attribute."""

        def __init__(self, value: int) -> None:
            self.value = value

        def transform_function(self, func: PrimFunc, mod: Any, context: Any) -> PrimFunc:
            return func.with_attrs(value=self.value)

    Set = t.prim_func_pass(name="SetAttribute", required=["mark"])(Attribute)
    made = Set(7)
    assert made.info == PassInfo("SetAttribute", 0, ("mark",))
    assert made.value == 7
    assert (Set.__name__, Set.__doc__) == ("Attribute", "Sets an attribute.")
    assert made(small())["main"].attrs["value"] == 7
    assert Sequential([mark, Set(8)])(small())["main"].attrs["value"] == 8
    with pytest.raises(CompileError) as caught:
        Sequential([Set(8), mark])(small())
    assert str(caught.value) == (
        "sequential: the pass SetAttribute needs mark before it; so far: none"
    )


MAKE_ERRORS = [
    (lambda: t.prim_func_pass()(3), "a pass is made from a function or a class, not 3"),
    (lambda: t.prim_func_pass(required="Simplify")(print),
     "required is a list of names of passes, not 'Simplify'"),
    (lambda: module_pass(int), "the class int has no method transform_module"),
    (lambda: Sequential([3]), "Sequential: 3 is no pass; give passes or functions"),  # type: ignore[list-item]
    (lambda: pass_instrument()(3), "pass_instrument decorates a class, not 3"),
    (lambda: pass_instrument(int),
     "the class int has none of the methods enter_pass_ctx, exit_pass_ctx, should_run, "
     "run_before_pass, run_after_pass"),
    (lambda: PassPrintingInstrument("Simplify"),
     "give a list of names of passes, e.g. ['Simplify']"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), MAKE_ERRORS)
def test_the_texts_of_errors_of_decorators(make: Any, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        make()
    assert str(caught.value) == text


# -------------------------------------------------------------------------------- instruments


def test_instruments_are_told_everything_in_order() -> None:
    log = Log()
    with PassContext(opt_level=2, instruments=[log]):
        Sequential([mark, t.Simplify()])(small())
    inside = ["before mark", "after mark", "before Simplify", "after Simplify"]
    assert log.seen == ["enter", "before sequential", *inside, "after sequential", "exit"]


def test_an_instrument_may_refuse_a_pass_unless_it_is_required() -> None:
    log = Log(refused=("mark",))
    with PassContext(instruments=[log]):
        assert mark(small()).attrs == {}
    with PassContext(instruments=[log], required_pass=["mark"]):
        assert mark(small()).attrs["count"] == 1


def test_levels_and_names_decide_in_a_sequence() -> None:
    def count(**options: Any) -> int:
        with PassContext(**options):
            found: int = Sequential([mark, t.Simplify()])(small()).attrs.get("count", 0)
            return found

    assert [count(opt_level=n) for n in (0, 1, 2, 3)] == [0, 0, 1, 1]
    assert count(opt_level=0, required_pass=["mark"]) == 1
    assert count(opt_level=3, disabled_pass=["mark"]) == 0


class Broken(PassInstrument):
    """Refuses to be entered, or to be left."""

    def __init__(self, event: str) -> None:
        self.event = event

    def enter_pass_ctx(self) -> None:
        if self.event == "enter":
            raise ValueError("not entered")

    def exit_pass_ctx(self) -> None:
        if self.event == "exit":
            raise ValueError("not left")


def test_who_has_entered_leaves_whatever_happens() -> None:
    first, last = Log(), Log()
    with (
        pytest.raises(ValueError, match="not entered"),
        PassContext(instruments=[first, Broken("enter"), last]),
    ):
        pass
    assert (first.seen, last.seen) == (["enter", "exit"], [])
    with (
        pytest.raises(ValueError, match="not left"),
        PassContext(instruments=[Broken("exit"), last]),
    ):
        pass
    assert last.seen == ["enter", "exit"]
    assert PassContext.current().instruments == ()


def test_instruments_can_be_exchanged_inside() -> None:
    first, second = Log(), Log()
    with PassContext(instruments=[first]) as context:
        context.override_instruments([second])
        t.Simplify()(small())
        context.override_instruments(None)
        t.Simplify()(small())
    assert first.seen == ["enter", "exit"]
    assert second.seen == ["enter", "before Simplify", "after Simplify", "exit"]


def test_a_class_becomes_an_instrument() -> None:
    @pass_instrument
    class Count:
        """Counts."""

        def __init__(self) -> None:
            self.count = 0

        def run_after_pass(self, mod: Any, info: PassInfo) -> None:
            self.count += 1

    counter = Count()
    assert isinstance(counter, PassInstrument)
    with PassContext(instruments=[counter]):
        Sequential([mark, mark])(small())
    assert counter.count == 3
    assert Count.__doc__ == "Counts."


def test_times_are_nested_like_the_passes() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([mark, Sequential([t.Simplify()], name="inner")])(small())
        lines = timing.render().splitlines()
    assert [x.split("%")[1] for x in lines] == [
        "  all passes", "    sequential", "      mark", "      inner", "        Simplify",
    ]  # fmt: skip
    assert all(" ms " in x for x in lines)
    assert lines[0].split()[2] == "100.0"
    with PassContext(instruments=[timing]):
        assert timing.render() == "     0.000 ms  100.0 %  all passes"


def test_a_pass_that_raises_does_not_stop_the_clock_of_the_others() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        with pytest.raises(CompileError):
            Sequential([t.CompactBufferAllocation(), t.StorageRewrite()], name="bad")(
                IRModule({"main": kernels.BUILDERS["matmul"](4, 4, 4)})
            )
        t.Simplify()(small())
        names = [x.split("%")[1].strip() for x in timing.render().splitlines()]
    assert "Simplify" in names


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    text = str(small()).rstrip()
    with PassContext(instruments=[PrintBeforeAll()]):
        t.RemoveNoOp()(small())
    assert capsys.readouterr().out == f"# Before RemoveNoOp\n{text}\n\n"
    with PassContext(instruments=[PrintAfterAll()]):
        t.RemoveNoOp()(small())
    assert capsys.readouterr().out == f"# After RemoveNoOp\n{text}\n\n"
    chosen = PassPrintingInstrument(["Simplify"], ["RemoveNoOp"])
    with PassContext(instruments=[chosen]):
        Sequential([t.Simplify(), t.RemoveNoOp()])(small())
    heads = [x for x in capsys.readouterr().out.splitlines() if x.startswith("# ")]
    assert heads == ["# Before Simplify", "# After RemoveNoOp"]


def test_dumps_are_numbered_files(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    with PassContext(instruments=[DumpIR(folder)]):
        Sequential([t.Simplify(), mark], name="all")(small())
    assert sorted(p.name for p in folder.iterdir()) == [
        "000_Simplify.py", "001_mark.py", "002_all.py",
    ]  # fmt: skip
    assert "A[i] = 1.0" in (folder / "000_Simplify.py").read_text()
    with PassContext(instruments=[DumpIR(folder, refresh=True)]):
        t.Simplify()(small())
    assert [p.name for p in folder.iterdir()] == ["000_Simplify.py"]
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CompileError, match=r"cannot write dumps to .*file"),
        PassContext(instruments=[DumpIR(tmp_path / "file")]),
    ):
        t.Simplify()(small())


# ------------------------------------------------------------------------------------- config


def test_the_table_of_keys_is_complete() -> None:
    names = [k.name for k in CONFIG]
    assert len(set(names)) == len(names)
    assert set(OPTIONS.values()) == {f.name for f in fields(Options)} - {"opt_level"}
    for key in CONFIG:
        assert key.meaning
        assert key.legal
        if key.name not in OPTIONS:
            assert PassContext().setting(key.name) == key.default
            assert PassContext(config={key.name: key.default}).setting(key.name) == key.default


CONFIG_ERRORS = [
    ({"tir.disable_vectorise": True},
     "PassContext has no config 'tir.disable_vectorise'; nearest: tir.disable_vectorize, "
        "tir.disable_cse_tir, "
     "tir.disable_assert; configs: "),
    ({"tir.disable_vectorize": 1},
     "PassContext: config 'tir.disable_vectorize' is 1; legal: True or False"),
    ({"tir.UnrollLoop": 16},
     "PassContext: config 'tir.UnrollLoop' is 16; legal: a mapping with any of auto_max_step, "
     "auto_max_depth, auto_max_extent, explicit_unroll"),
    ({"tir.UnrollLoop": {"auto_max_steps": 16}},
     "PassContext: config 'tir.UnrollLoop' has no 'auto_max_steps'; nearest: auto_max_step, "
     "auto_max_depth, auto_max_extent; configs: auto_max_step, auto_max_depth, auto_max_extent, "
     "explicit_unroll"),
    ({"tir.UnrollLoop": {"auto_max_step": -1}},
     "PassContext: config 'tir.UnrollLoop': auto_max_step is -1; legal: an integer from 0"),
    ({"tir.HoistExpression": {"hoisted_conditionals": 8}},
     "PassContext: config 'tir.HoistExpression': hoisted_conditionals is 8; legal: one of 0, 1, "
     "2, 3"),
    ({"tir.add_lower_pass": [(4, print)]},
     "PassContext: config 'tir.add_lower_pass' is [(4, <built-in function print>)]; legal: a list "
     "of pairs (phase 0 to 3, pass)"),
    ({3: True}, "PassContext has no config 3; configs: "),
]  # fmt: skip


@pytest.mark.parametrize(("config", "text"), CONFIG_ERRORS)
def test_the_texts_of_errors_of_configs(config: Any, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        PassContext(config=config)
    assert str(caught.value).startswith(text)


def test_a_part_of_a_group_keeps_the_others_defaults() -> None:
    context = PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}})
    assert context.setting("tir.UnrollLoop") == {
        "auto_max_step": 16, "auto_max_depth": 8, "auto_max_extent": 0, "explicit_unroll": True,
    }  # fmt: skip


def test_who_does_not_follow_a_config_says_so() -> None:
    context = PassContext(config={"tir.usmp.enable": True, "smelt.threads": 1})
    context.refuse("relay.", "somebody", "nobody")
    with context, pytest.raises(CompileError) as caught:
        smelt.compile(small())
    assert str(caught.value) == (
        "smelt.compile does not follow the config 'tir.usmp.enable'; "
        'relay.build with Executor("aot") does'
    )


# ------------------------------------------------------------------------------ smelt.lower's steps


def run(func: PrimFunc, context: PassContext) -> PrimFunc:
    """The flat program that a context makes."""
    return lower(func, t.lowering_steps(context), None, context)


KERNELS = ["matmul", "conv", "softmax", "concat", "transposed"]


@pytest.mark.parametrize("name", KERNELS)
def test_a_plain_context_changes_nothing(name: str) -> None:
    func = schedule(kernels.BUILDERS[name](*SIZES[name]), MACHINE).func
    assert script(run(func, PassContext())) == script(lower(func, LOWER))


def test_every_step_has_a_name_that_a_context_knows() -> None:
    assert t.lowering_steps(PassContext()) == LOWER
    for step in LOWER:
        assert step.name[0].isupper()
        assert step.why


REQUIRED = {
    "LowerOpaqueBlock": "code is made from loops, not from blocks",
    "FlattenBuffer": "code is made from buffers of one dimension",
    "LiftWorkspaces": "large buffers do not fit on a thread's stack",
}
OPTIONAL = sorted({s.name for s in t.lowering_steps(PassContext())} - REQUIRED.keys())


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_step_can_be_left_out(name: str) -> None:
    """By its name, or by an instrument: the result stays, and code can be made from it."""
    for kernel in KERNELS:
        plain = kernels.BUILDERS[kernel](*SIZES[kernel])
        given = kernels.arrays(plain, {})
        expected = kernels.result(plain, given)
        func = schedule(plain, MACHINE).func
        log = Log(refused=(name,))
        with PassContext(instruments=[log]) as context:
            refused = run(func, context)
        for new in (run(func, PassContext(disabled_pass=[name])), refused):
            kernels.close(kernels.result(new, given), expected, name)
            assert emit_module([new])
        assert f"before {name}" not in log.seen
    if name == "VectorizeLoop":
        assert "vectorized" not in kinds(run(func, PassContext(disabled_pass=[name])))


def test_instruments_see_every_step() -> None:
    func = schedule(kernels.BUILDERS["matmul"](4, 4, 4), MACHINE).func
    log = Log(refused=("FlattenBuffer",))
    with PassContext(instruments=[log]) as context:
        run(func, context)
    assert [x[7:] for x in log.seen if x.startswith("before")] == [
        s.name for s in t.lowering_steps(PassContext())
    ], "FlattenBuffer runs whatever an instrument says"


def test_configs_of_the_pipeline() -> None:
    func = program(
        """
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), n: T.int64):
            assert n > 0, "n is positive"
            for i in range(4):
                for j in T.vectorized(8):
                    B[i, j] = A[i, j] + A[(i + n) % 4, j]
        """
    )
    given = [np.arange(32, dtype="float32").reshape(4, 8), np.zeros((4, 8), "float32"), 3]
    expected = kernels.result(func, given)
    cases: list[tuple[dict[str, Any], Callable[[PrimFunc], bool]]] = [
        ({}, lambda f: has(f, AssertStmt) and "ramp" in script(f)),
        ({"tir.disable_vectorize": True}, lambda f: "ramp" not in script(f)),
        ({"tir.disable_assert": True}, lambda f: not has(f, AssertStmt)),
        ({"tir.disable_cse_tir": False}, lambda f: "cse_var" in script(f)),
        ({"tir.UnrollLoop": {"auto_max_step": 64}}, lambda f: "range" not in script(f)),
        ({"tir.instrument_bound_checkers": True}, lambda f: "ramp" not in script(f)),
    ]
    for config, check in cases:
        new = run(func, PassContext(config=config))
        kernels.close(kernels.result(verify(new), given), expected, str(config))
        assert check(new), f"{config}\n{script(new)}"


def test_bound_checkers_find_what_is_outside() -> None:
    func = program(
        'def main(A: T.Buffer((4, 4), "float32"), n: T.int64):\n    for j in T.vectorized(4):\n'
        "        A[0, j + n] = 1.0"
    )
    new = run(func, PassContext(config={"tir.instrument_bound_checkers": True}))
    kernels.result(new, [np.zeros((4, 4), "float32"), 0])
    with pytest.raises(SmeltError, match=r"index 1 of A\[0, j \+ n\] is not in 0 \.\.\. 4 - 1"):
        kernels.result(new, [np.zeros((4, 4), "float32"), 1])


def test_passes_come_in_at_their_phases() -> None:
    seen: list[tuple[int, bool, set[int], set[str]]] = []

    def look(phase: int) -> Any:
        def note(func: PrimFunc) -> PrimFunc:
            blocks = any(isinstance(s, BlockRealize) for s in walk(func.body))
            seen.append((phase, blocks, {b.rank for b in func.buffers}, kinds(func)))
            return func

        return note

    @module_pass
    def whole(mod: IRModule, context: PassContext) -> IRModule:
        return mod

    func = schedule(kernels.BUILDERS["matmul"](9, 21, 6), MACHINE).func
    added = [(n, t.Apply(look(n)) if n % 2 else look(n)) for n in (3, 1, 0, 2)]
    context = PassContext(config={"tir.add_lower_pass": [*added, (3, whole)]})
    names = [s.name for s in t.lowering_steps(context)]
    assert (names[0], names[-1]) == ("note", "whole")
    run(func, context)
    assert [(phase, blocks) for phase, blocks, _, _ in seen] == [
        (0, True), (1, False), (2, False), (3, False),
    ]  # fmt: skip
    assert [ranks for _, _, ranks, _ in seen] == [{2}, {1}, {1}, {1}]
    assert "vectorized" in seen[1][3]
    assert not {"vectorized", "unrolled"} & seen[2][3]


def refused(**options: Any) -> Any:
    return lambda: t.lowering_steps(PassContext(**options))


LOWER_ERRORS = [
    (refused(disabled_pass=["VectoriseLoop"]), Unsupported,
     "PassContext: smelt.lower has no pass 'VectoriseLoop'; nearest: VectorizeLoop; passes: "),
    (refused(required_pass=["FuseOp"]), Unsupported,
     "PassContext: smelt.lower has no pass 'FuseOp'; nearest: FuseOps"),
    *[(refused(disabled_pass=[n]), Unsupported,
       f"PassContext: smelt.lower cannot leave out {n}: {why}") for n, why in REQUIRED.items()],
    (refused(disabled_pass=["CompactBufferAllocation"]), Unsupported,
     "PassContext: smelt.lower cannot leave out CompactBufferAllocation: code is made from loops"),
    (lambda: run(small()["main"], PassContext(config={"tir.add_lower_pass": [(0, lambda f: 3)]})),
     CompileError,
     "smelt.lower: the pass <lambda> gave a int for main; legal: a PrimFunc"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), LOWER_ERRORS)
def test_the_texts_of_errors_of_the_pipeline(make: Any, error: type[SmeltError], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value).startswith(text)


def test_a_users_pass_that_breaks_is_named() -> None:
    def broken(func: PrimFunc) -> PrimFunc:
        raise KeyError("oops")

    with pytest.raises(InternalError, match=r"main: the pass broken failed: KeyError: 'oops'"):
        run(small()["main"], PassContext(config={"tir.add_lower_pass": [(3, broken)]}))


def test_smelt_transform_is_found_lazily() -> None:
    assert smelt.transform.PassContext is PassContext
