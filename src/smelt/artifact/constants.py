"""What kernels want done with their constants: tensor programs, run here when a model is compiled.

A schedule's layouts of parameters ask for such programs; any other program will do as well.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from smelt import te
from smelt.codegen.llvm import object_code, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, ScheduleError
from smelt.ir.steps import Step
from smelt.ir.walk import substitute
from smelt.lowering.instrument import Check
from smelt.lowering.lower import for_target, lower
from smelt.rules.cpu import schedule
from smelt.target import Target, machine_of
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.rewrite import Rewriter
from smelt.tir.schedule import Schedule
from smelt.tir.schedule.state import Relaid


@dataclass(frozen=True)
class ConstantProgram:
    """`Preparation` as text.

    makes  the kernel's parameters that it makes, by position, and their bytes
    """

    text: str
    reads: tuple[int, ...]
    makes: tuple[tuple[int, int], ...]

    @property
    def symbol(self) -> str:
        """The name of its function, which tells programs apart."""
        return "c" + hashlib.blake2b(self.text.encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Preparation:
    """A program that makes parameters of a kernel from constants as the model has them.

    func   takes the constants, then its results
    reads  the positions of the constants among the kernel's parameters
    makes  those of the results
    """

    func: PrimFunc
    reads: tuple[int, ...]
    makes: tuple[int, ...]

    def program(self) -> ConstantProgram:
        """It as text: equal for programs that do the same."""
        sizes = map(_bytes, self.func.buffers[len(self.reads) :])
        makes = tuple(zip(self.makes, sizes, strict=True))
        return ConstantProgram(script(self.func), self.reads, makes)


@dataclass(frozen=True)
class ConstantCode:
    """A program over constants as object code for this machine.

    scratch  bytes of the scratch buffers that its function takes last
    """

    object: bytes
    scratch: tuple[int, ...]


def this_machine() -> Target:
    """What constants are prepared on, whatever machine the model is for."""
    return resolve(Target("llvm -mcpu=native"))


def preparations(sch: Schedule) -> tuple[Preparation, ...]:
    """What a schedule wants done with parameters: what it has laid out anew, or made of them."""
    relaid = sch.state.relaid
    place = {b.name: n for n, b in enumerate(sch.func.buffers)}
    return tuple([
        Preparation(_layout_program(sch.func.name, relaid[b.name], b),
                    (place[relaid[b.name].given.name],), (n,))
        for n, b in enumerate(sch.func.buffers)
        if b.name in relaid
    ])  # fmt: skip


def _layout_program(kernel: str, relaid: Relaid, b: Buffer) -> PrimFunc:
    """The program that moves a constant to the layout in which a kernel reads it as `b`."""
    if relaid.value is None:
        raise ScheduleError(
            f"{kernel}: transform_layout of the constant {b.name}: its index map cannot be inverted"
            "\n  legal: sums of digits, quotients and remainders"
        )
    given = te.placeholder(relaid.given.shape, relaid.given.type, "given")
    value = Rewriter(buffers={relaid.given: given}).expr(relaid.value)
    names = [v.name for v in relaid.at]
    made = te.compute(
        b.shape,
        lambda *i: substitute(value, dict(zip(relaid.at, i, strict=True))),
        "made",
        varargs_names=names,
    )
    return te.create_prim_func([given, made], "constants")


def build_constants(
    program: ConstantProgram, target: Target, cores: int, steps: Sequence[Step],
    check: bool = False, entry: bool = False,
) -> ConstantCode:  # fmt: skip
    """Schedule a program by the rules for kernels, lower and compile it.

    target  this machine
    cores   processors to divide the work among
    steps   the passes to flat loops
    check   whether the interpreter judges every lowering pass
    entry   whether it can be called as `smelt_entry`, too
    """
    func = for_target(parse(program.text).with_attrs(name=program.symbol), target)
    if all(_bytes(b) for b in func.buffers):  # rules divide by extents
        func = schedule(func, machine_of(target, cores)).func
    flat = lower(func, steps, Check(func) if check else None)
    text = emit_module([flat], target, entry)
    code = object_code(target, text, program.symbol, quick=True)
    return ConstantCode(code, tuple(map(_bytes, flat.buffers[len(func.buffers) :])))


def _bytes(b: Buffer) -> int:
    shape = b.fixed_shape()
    if shape is None:
        raise CompileError(f"the constant {b.name} has no fixed shape")
    return math.prod(shape) * dt.bytes_of(b.type)
