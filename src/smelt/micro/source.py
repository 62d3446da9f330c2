"""A compiled graph as a C99 source and its header: kernels, constants, and what runs it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from smelt.artifact.graph import Place, Storage, number_of
from smelt.artifact.host import KernelCall
from smelt.artifact.memory import C_ALIGNMENT, aligned
from smelt.artifact.model import ModelCode
from smelt.artifact.placing import BY_SIZE, Lifetime
from smelt.artifact.pools import Allocating
from smelt.artifact.tight import touched
from smelt.codegen.c import c_functions
from smelt.codegen.c_helpers import RESERVED, STORED
from smelt.codegen.c_parts import SHARES
from smelt.ir import dtype as dt
from smelt.ir.expr import IntImm
from smelt.ir.memory_pools import Pool
from smelt.ir.types import TensorType
from smelt.relax.nodes import tensor_type_of
from smelt.runtime.linking import c_name
from smelt.runtime.params import save_param_dict
from smelt.target import Target
from smelt.tir.names import unique_name
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse

from .csource import CSource, CTensor
from .memory import Block, MemoryReport, PoolUse, Step, live_at

OF_CPP = """alignas alignof and asm bool catch class compl concept constexpr delete explicit export
false friend mutable namespace new noexcept not nullptr operator or private protected public
requires template this throw true try typeid typename using virtual xor"""
"""Further keywords of C++, whose programs include a model's header, too."""

_WORDS = """#ifdef __GNUC__
__attribute__((aligned(4)))
#endif
"""
_ROW = 96
"""Characters of a line of constants."""


class Writer:
    """Writes one model; graph, parameters: as of CSource."""

    graph, parameters = "", bytes(save_param_dict({}))

    def __init__(
        self, model: ModelCode, target: Target, weights: np.ndarray, places: Mapping[Storage, int],
        name: str, packed: bool, constant_pools: Sequence[Pool],
    ) -> None:  # fmt: skip
        """The arguments are those of `c_model`."""
        self.model, self.target, self.weights, self.places = model, target, weights, places
        self.name = c_name(name or str(model.mod.attrs.get("name", "model")))
        self.packed, self.constant_pools = packed, constant_pools
        self.homes: dict[tuple[int, str], Pool] = {}
        used, offsets = model.memory.bytes, model.memory.offsets
        self.pools = [*used] if len(used) > 1 else []
        self.io = any(s in offsets for s in (*model.plan.inputs, *model.plan.outputs))
        self.given = "pools" if self.pools else "space"
        kind = f"const struct {self.name}_workspace_pools" if self.pools else "void"
        self.space = f"{kind} *{self.given}"
        self.taken = {self.name}
        self.constants: dict[tuple[int, str], str] = {}
        self.functions: dict[str, str] = {}
        self.programs: dict[str, PrimFunc] = {}
        main = model.mod["main"]
        names = main.attrs.get("output_names") or ()
        results = main.results()
        if len(names) != len(results):
            names = [f"output{n}" for n in range(len(results))]
        self.inputs = self._fields([p.name for p in main.params])
        self.outputs = self._fields(names)
        self.types = [*map(tensor_type_of, main.params)], [*map(tensor_type_of, results)]

    @staticmethod
    def _fields(names: Sequence[str]) -> list[str]:
        taken = {*RESERVED, *OF_CPP.split()}
        return [unique_name(re.sub(r"\W", "_", n) or "x", taken) for n in map(c_field, names)]

    # ---- names ------------------------------------------------------------------------------

    def function(self, call: KernelCall) -> str:
        """The name of a kernel's function; that of another back end has its name already."""
        if call.launch.external:
            self.taken.add(call.symbol)
            return call.symbol
        if call.symbol not in self.functions:
            own = re.sub(r"\W", "_", call.launch.name)[:60]
            self.functions[call.symbol] = unique_name(f"{self.name}_{own}", self.taken)
        return self.functions[call.symbol]

    def constant(self, s: Storage, dtype: str) -> str:
        """The name of the array that holds a constant; dtype: as which a kernel reads it."""
        key = self.places[s], dtype
        if key not in self.constants:
            named = "" if s.made else s.name  # made for a kernel: it has that one's name
            own = re.sub(r"\W", "_", named or "constant")[:40]
            self.constants[key] = unique_name(f"{self.name}_{own}", self.taken)
        return self.constants[key]

    # ---- pieces -----------------------------------------------------------------------------

    def pointer(self, p: Place, dtype: str) -> str:
        """An operand of a call, of elements of a type."""
        s, offset = p.storage, number_of(p.view.offset)
        if s in self.model.memory.offsets:
            return self.at(s, STORED[s.dtype], offset * dt.bytes_of(s.dtype))
        if s.kind == "constant":
            base = self.constant(s, dtype)
        else:
            field = (self.inputs if s.kind == "input" else self.outputs)[s.index]
            base = f"{s.kind}s->{field}"
        return f"{base} + {offset}" if offset else base

    def at(self, s: Storage, kind: str, offset: int = 0) -> str:
        """A pointer into the workspace."""
        memory = self.model.memory
        base = f"workspace_{memory.pool[s].name}" if self.pools else "workspace"
        return f"({kind} *)({base} + {number_of(memory.offsets[s]) + offset})"

    @property
    def step(self) -> str:
        """The macro that is expanded after each kernel."""
        return f"{self.name.upper()}_STEP_DONE"

    def call(self, step: int, c: KernelCall) -> str:
        """A kernel's lines of the function that runs the model."""
        scratch = [self.at(w, "void") for w in c.workspaces]
        given = ", ".join([*map(self.pointer, c.places, self.kinds(c)), *scratch])
        return (
            f"    if ((status = {self.function(c)}({given})) != 0) return status;\n"
            f"    {self.step}({step});\n"
        )

    def kinds(self, c: KernelCall) -> list[str]:
        """The types as which a kernel reads and writes its places."""
        program = self.programs.get(c.symbol)  # another back end's function has none
        kinds = [p.storage.dtype for p in c.places]
        return kinds if program is None else [b.type for b in program.buffers[: len(kinds)]]

    def workspace_bytes(self) -> int:
        """What a run works in."""
        return number_of(self.model.memory.total)

    def constant_bytes(self) -> int:
        """What the arrays of constants hold."""
        each = self.sizes()
        return sum([each[place] for place, _ in self.constants])

    def declared(self) -> str:
        """What the header declares besides."""
        return ""

    def arrays(self) -> Iterator[str]:
        """The constants, as they are read."""
        sizes = self.sizes()
        for p in self.constant_pools:
            yield (f"/* In front of the constants in {p.name}: a section of yours. */\n"
                   f"#ifndef {self.section(p)}\n#define {self.section(p)}\n#endif\n")  # fmt: skip
        for key, name in self.constants.items():
            text = array_text(name, key[1], self.weights[key[0] : key[0] + sizes[key[0]]])
            if key[1] == "int16":  # instructions take two of them at a time
                text = f"{_WORDS}{text}"
            yield f"{self.section(self.homes[key])} {text}" if self.homes else text

    def sizes(self) -> dict[int, int]:
        """The bytes of the constants, by where they begin."""
        return {self.places[s]: s.fixed_bytes for s in self.model.constants()}

    def section(self, pool: Pool) -> str:
        """The macro in front of the constants in a pool."""
        return f"{self.name}_SECTION_{pool.name}".upper()

    def spread_constants(self) -> dict[tuple[int, str], Pool]:
        """The pool of each constant. Raises CompileError."""
        model, heat, sizes = self.model, defaultdict[int, int](int), self.sizes()
        for s, count in touched(model.calls, model.artifacts).items():
            heat[self.places.get(s, -1)] += count
        steps = [c.launch.name for c in model.calls]
        places, names = [at for at, _ in self.constants], [*self.constants.values()]
        blocks = [Lifetime(aligned(sizes[at], C_ALIGNMENT), 0, len(steps) - 1) for at in places]
        hot = [heat[at] for at in places]
        placing = Allocating(blocks, {}, self.constant_pools, names, hot, steps, C_ALIGNMENT)
        found = [at.pool_info for at in placing.allocated(BY_SIZE)]
        return dict(zip(self.constants, found, strict=True))

    def runner(self, calls: str) -> str:
        """The function that runs the model."""
        return (
            f"{self.signature()} {{\n{self.opened(calls)}    int32_t status = 0;\n{calls}"
            "    return status;\n}\n"
        )

    def opened(self, body: str) -> str:
        """The lines in front of a function's body: pointers to the memory that it works in."""
        known = {f"workspace_{p.name}": f"pools->{p.name}" for p in self.pools}
        used = [f"    uint8_t *const {name} = {value};\n"
                for name, value in (known or {"workspace": "space"}).items()
                if f"({name} + " in body]  # fmt: skip
        return "".join(used) or f"    (void){self.given};\n"

    def maps(self) -> Iterator[tuple[str, str]]:
        """What says where inputs and outputs stand in the workspace: heads of functions, bodies."""
        plan = self.model.plan
        for kind, storages in (("inputs", plan.inputs), ("outputs", plan.outputs)):
            places = ", ".join([self.at(s, STORED[s.dtype]) for s in storages])
            body = f"    return (struct {self.name}_{kind}){{{places}}};\n"
            yield f"struct {self.name}_{kind} {self.name}_map_{kind}({self.space})", body

    def table_runner(self) -> str:
        """The function that takes all tensors in one table."""
        given = [
            f"{{{', '.join([f'tensors[{n}]' for n in range(start, start + len(names))])}}}"
            for start, names in ((0, self.inputs), (len(self.inputs), self.outputs))
        ]
        return (
            f"\n{self.table_signature()} {{\n"
            f"    const struct {self.name}_inputs inputs = {given[0]};\n"
            f"    const struct {self.name}_outputs outputs = {given[1]};\n"
            f"    return {self.name}_run(&inputs, &outputs, {self.given});\n}}\n"
        )

    def table_signature(self) -> str:
        """Of that function."""
        return f"int32_t {self.name}_run_packed(void *const *tensors, {self.space})"

    def signature(self) -> str:
        """Of that function."""
        tensors = (
            f"const struct {self.name}_inputs *inputs, const struct {self.name}_outputs *outputs,\n"
            "    "
        )
        return f"int32_t {self.name}_run({'' if self.io else tensors}{self.space})"

    def header(self, workspace: int, constants: int) -> str:
        """The header."""
        upper = self.name.upper()
        table = (
            f"""
/* The same, with a table of all inputs and then all outputs. */
{self.table_signature()};
"""
            if self.packed
            else ""
        )
        given = "pools: of the sizes above." if self.pools else f"space: {upper}_WORKSPACE_BYTES."
        maps = "".join([f"{head};\n" for head, _ in self.maps()]) if self.io else ""
        if self.io:
            maps = ("/* Where inputs and outputs stand in the workspace. A run overwrites its "
                    f"inputs: write them\n * before each. */\n{maps}\n")  # fmt: skip
        fields = [
            "".join([f"    {const}{STORED[t.dtype]} *{f}; /* {_shape(t.dtype, t.shape)} */\n"
                     for f, t in zip(names, types, strict=True)])
            for const, names, types in (("" if self.io else "const ", self.inputs, self.types[0]),
                                        ("", self.outputs, self.types[1]))
        ]  # fmt: skip
        return f"""/* {self.name}: generated by smelt. */
#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>
{'#include "smelt_graph.h"' * bool(self.graph)}
#ifdef __cplusplus
extern "C" {{
#endif

/* Bytes that a run works in, aligned to {C_ALIGNMENT}. Constants, which are read only, have
 * {constants}. */
#define {upper}_WORKSPACE_BYTES {workspace}
{self.pools_text()}
struct {self.name}_inputs {{
{fields[0]}}};

struct {self.name}_outputs {{
{fields[1]}}};

{maps}/* Runs the model once; 0 on success. Arrays are row-major. {given}
 * Nothing is kept from call to call. */
{self.signature()};
{table}{self.declared()}
#ifdef __cplusplus
}}
#endif

#endif
"""

    def pools_text(self) -> str:
        """What the header says of several pools."""
        if not self.pools:
            return ""
        sizes = [f"#define {self.name.upper()}_{p.name.upper()}_WORKSPACE_POOL_SIZE {size}\n"
                 for p, size in self.model.memory.bytes.items()]  # fmt: skip
        fields = [f"    void *{p.name};\n" for p in self.pools]
        return (f"\n/* Of them in each memory pool. */\n{''.join(sizes)}\n"
                f"struct {self.name}_workspace_pools {{\n{''.join(fields)}}};\n")  # fmt: skip

    def write(self) -> CSource:
        """All of it."""
        model = self.model
        own = dict.fromkeys([c.symbol for c in model.calls if c.symbol not in model.externals])
        self.programs = {symbol: parse(model.artifacts[symbol].text) for symbol in own}
        calls = "".join([self.call(n, c) for n, c in enumerate(model.calls)])
        programs = [
            self.programs[symbol].with_attrs(
                name=name, **{SHARES: tuple(model.shares.get(symbol, ()))}
            )
            for symbol, name in self.functions.items()
        ]
        head, *functions = c_functions(programs, self.target, local=True)
        described = {self.function(c): _described(c) for c in reversed(model.calls)}
        kernels = [f"/* {described[f.name]} */\n{text}"
                   for f, text in zip(programs, functions, strict=True)]  # fmt: skip
        kernels += [f"/* {described[s]} */\n{made.source.rstrip()}\n"
                    for s, (made, _) in model.externals.items()]  # fmt: skip
        self.homes = self.spread_constants() if self.constant_pools else {}
        arrays = [*self.arrays()]
        constants, workspace = self.constant_bytes(), self.workspace_bytes()
        hook = (
            "/* Called after each kernel with its number: a watchdog or a clock of yours. */\n"
            f"#ifndef {self.step}\n#define {self.step}(step) ((void)0)\n#endif\n"
        )
        parts = [f'/* {self.name}: generated by smelt. */\n#include "{self.name}.h"\n\n{head}',
                 *arrays, *kernels, hook, self.runner(calls)]  # fmt: skip
        parts[-1] += self.table_runner() if self.packed else ""
        if self.io:
            parts += [f"{head} {{\n{self.opened(body)}{body}}}\n" for head, body in self.maps()]
        return CSource(
            self.name, "\n".join(parts), self.header(workspace, constants),
            _tensors(self.inputs, self.types[0]), _tensors(self.outputs, self.types[1]), workspace,
            constants, tuple([self.function(c) for c in model.calls]),
            self.report(workspace, constants),
            tuple(map(self.operations, model.calls)), self.graph, self.parameters,
        )  # fmt: skip

    def operations(self, c: KernelCall) -> int | None:
        """Arithmetic on elements in a call; None of another back end's."""
        made = self.model.artifacts.get(c.symbol)
        return None if made is None or not isinstance(made.flops, IntImm) else made.flops.value

    def report(self, workspace: int, constants: int) -> MemoryReport:
        """What stands where, and when."""
        memory, end = self.model.memory, len(self.model.calls) - 1
        blocks = [Block(s.name or "result", number_of(at), s.fixed_bytes, max(0, s.first),
                        min(s.last, end), memory.pool[s].name if self.pools else "")
                  for s, at in memory.offsets.items()]  # fmt: skip
        steps = []
        for n, c in enumerate(self.model.calls):
            read = {p.storage for p in c.places if p.storage.kind == "constant"}
            known = sum([s.fixed_bytes for s in read])
            steps.append(Step(c.launch.name, live_at(blocks, n), known))
        given, made = [sum([number_of(t.bytes()) for t in types]) for types in self.types]
        uses = [PoolUse(p.name, p.size, memory.bytes[p], False) for p in self.pools]
        each, homes = self.sizes(), self.homes
        uses += [PoolUse(p.name, p.size, sum([each[k[0]] for k in homes if homes[k] == p]), True)
                 for p in self.constant_pools]  # fmt: skip
        return MemoryReport(self.name, tuple(steps), tuple(blocks), workspace, memory.live or 0,
                            constants, given, made, tuple(uses), self.io)  # fmt: skip


def c_field(name: str) -> str:
    """A name as a member of a C structure."""
    return c_name(name.rpartition("/")[2] or name)


def _tensors(names: Sequence[str], types: Sequence[TensorType]) -> tuple[CTensor, ...]:
    return tuple([CTensor(n, t.dtype, tuple(map(number_of, t.shape)))
                  for n, t in zip(names, types, strict=True)])  # fmt: skip


def _shape(dtype: str, shape: Iterable[object]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _described(c: KernelCall) -> str:
    """What a kernel works on, and which of the model's nodes it is."""
    shown = [
        [_shape(p.storage.dtype, p.view.shape) for p in places]
        for places in (c.launch.inputs, c.launch.own_outputs)
    ]
    text = f"{c.launch.name}: {', '.join(shown[0])} -> {', '.join(shown[1])}"
    nodes = ", ".join(c.launch.nodes[:4])
    whole = f"{text}\n * {nodes}" if nodes else text
    return re.sub(r"[^\w .,:;=+<>()\[\]*/\n-]|(?<=\*)/|(?<=/)\*", "_", whole)


def array_text(name: str, dtype: str, data: np.ndarray) -> str:
    """A constant as a C array; data: its bytes."""
    kind = dt.to_numpy(dtype)
    values = np.ascontiguousarray(data).view(kind)
    if dtype in ("float16", "bfloat16") or values.dtype == bool:
        values = values.view(np.uint16 if values.itemsize == 2 else np.uint8)
    words = (
        [_float_word(v, dtype) for v in values.tolist()]
        if values.dtype.kind == "f"
        else [_integer_word(v, dtype) for v in values.tolist()]
    )
    rows, row = [], ""
    for w in words:
        if len(row) + len(w) + 2 > _ROW:
            rows.append(row)
            row = ""
        row += f"{w}, " if row else f"    {w}, "
    rows.append(row)
    body = "\n".join([r.rstrip() for r in rows])
    return f"static const {STORED[dtype]} {name}[{max(1, len(words))}] = {{\n{body}\n}};\n"


def _integer_word(value: int, dtype: str) -> str:
    if dtype in ("int32", "int64") and value == -(1 << (dt.bits(dtype) - 1)):
        return f"INT{dt.bits(dtype)}_MIN"
    return f"{value}{ {'uint32': 'u', 'uint64': 'ull', 'int64': 'll'}.get(dtype, '') }"


def _float_word(value: float, dtype: str) -> str:
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype == "float32":
        return np.format_float_scientific(np.float32(value), unique=True, trim="0") + "f"
    return f"{value!r}" if "e" in repr(value) or "." in repr(value) else f"{value}.0"


def c_model(
    model: ModelCode, target: Target, weights: np.ndarray, places: Mapping[Storage, int],
    name: str = "", packed: bool = False, constant_pools: Sequence[Pool] = (),
    writer: type[Writer] = Writer,
) -> CSource:  # fmt: skip
    """A compiled graph as C for a processor.

    weights, places  its constants, and where each of them begins, in bytes
    name, packed     as of `compile_c`
    constant_pools   where constants stand; none: where the C compiler puts them
    writer           of the form that is wanted
    """
    return writer(model, target, weights, places, name, packed, constant_pools).write()
