"""The virtual machine: runs programs with branches, recursion, closures and data types.

    exe = smelt.relay.vm.compile(mod, "llvm")
    vm = smelt.runtime.vm.VirtualMachine(exe, smelt.cpu(0))
    y = vm.invoke("main", x)

Tensor computations between two decisions are native code; the decisions are interpreted here.
Calls use no Python recursion, and a call that ends a function takes its frame.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NoReturn, cast

import numpy as np

from smelt.runtime import vm_strings  # noqa: F401  (enters its operators)
from smelt.runtime.archive import export
from smelt.runtime.container import ADT, Closure
from smelt.runtime.device import Device, cpu
from smelt.runtime.evaluator import timed_runs, wall_clock
from smelt.runtime.executable import Executable as AnyExecutable
from smelt.runtime.executable import Metadata, Results
from smelt.runtime.files import PROGRAM, check_target
from smelt.runtime.kernel_times import ControlTimes, ProfiledRun
from smelt.runtime.linking import parts_of
from smelt.runtime.native_program import NativeProgram
from smelt.runtime.ndarray import NDArray, array
from smelt.runtime.profiler import Probe, Trace, measured, report
from smelt.runtime.remote import RemoteLibrary
from smelt.runtime.report import BenchmarkResult, MemoryInfo, ProfileReport
from smelt.runtime.signature import Interface, TensorInfo
from smelt.runtime.vm_host import HOST_OPS
from smelt.runtime.vm_program import Program, VMFunction, function_text, scalar

from . import errors, native


class VMExecutable(AnyExecutable):
    """A program for the virtual machine; a call runs its function "main".

    native   main in native code, where it has that form: a call is one native call then
    objects  object code, for export_library
    """

    triple, has_plan, lesser = "", False, ()

    def __init__(
        self,
        program: Program,
        metadata: Mapping[str, Any],
        address: int | None,
        weights: Any = None,
        keepalive: object = None,
        threads: int | None = None,
        objects: Sequence[bytes] = (),
    ) -> None:
        """For relay.vm.compile and load_module; address: of the native form."""
        self.program, self.name = program, metadata["name"]
        self.inputs, self.outputs = program.inputs, program.outputs
        updates = metadata.get("updates", ())
        self._interface = Interface(self.name, self.inputs, self.outputs, updates)
        kernels = [k for e in program.segments for k in e.metadata.get("kernels", ())]
        self.metadata = cast(Metadata, {**metadata, "kernels": kernels})
        self.weights, self.objects, self.keepalive = weights, list(objects), keepalive
        self.native: NativeProgram | None = None
        self._names = [o.name for o in self.outputs]
        self._groups = program.groups or (-1,) * len(self.outputs)
        self._plain = set(self._groups) <= {-1}
        if address is not None:
            host = native.host_of(threads or 0)
            at = weights.ctypes.data if weights is not None else 0
            taken = [e.signature for e in program.segments]
            self.native = NativeProgram(self._interface, program.results, address, at, host, taken)

    def __call__(self, *args: Any, **named: Any) -> NDArray | Results:
        """Run "main": see Executable."""
        given = self._interface.in_order(args, named) if named else args
        return self._called(given, self.native, self.program)

    def _called(
        self, given: Sequence[Any], code: NativeProgram | None, program: Program
    ) -> NDArray | Results:
        if code is not None:
            flat: list[Any] = list(code(given))
        else:
            given = self._interface.in_order(given, {})
            values = [self._interface.value(*v) for v in zip(self.inputs, given, strict=True)]
            made = _result_of(program, self.function("main"), [_entering(v) for v in values])
            flat = list(made.fields) if isinstance(made, ADT) and not made.name else [made]
        results = flat if self._plain else grouped(flat, self._groups)
        return results[0] if len(results) == 1 else Results(results, self._names)

    @property
    def memory(self) -> MemoryInfo:
        """The bytes of its constants; what it works in depends on its decisions."""
        return MemoryInfo(self.metadata.get("weights_bytes", 0), None, None, self._no_memory_of)

    def _no_memory_of(self, *args: Any, **named: Any) -> NoReturn:
        raise errors.InputError(
            f"{self.name}: memory: the model decides while it runs, and what it needs is not known "
            "before; exe.limit(memory=...) bounds it, exe.profile(...) says what a run took"
        )

    def limit(self, *, memory: int | None = None, turns: int | None = None) -> None:
        """Limits for calls that begin from now on; one that meets them ends with RuntimeFailure.

        memory  bytes that a call may hold at a time besides inputs and constants; None: any number
        turns   of all loops of a call together; None: any number

        Raises InputError for what is no whole number from 1, and where Python runs the program.
        """
        if self.native is None:
            raise errors.InputError(
                f"{self.name}: limit: Python runs a part of it "
                f"({', '.join(self.metadata.get('python', ()))}); only programs in native code "
                "have limits"
            )
        one = {"memory": 1 if memory is None else memory, "turns": 1 if turns is None else turns}
        errors.at_least(1, f"{self.name}: limit", True, **one)
        self.native.limit(memory or 0, turns or 0)

    def profile(self, *args: Any, repeat: int = 10, **named: Any) -> ProfileReport:
        """Time each kernel of the segments; the rest of the total is the decisions' own time."""
        errors.at_least(1, "profile", repeat=repeat)
        kernels = [{k: v for k, v in m.items() if not _symbolic(k, v)}
                   for m in self.metadata["kernels"]]  # fmt: skip
        sites = self.metadata.get("sites", [])
        host = native.host_of(0) if self.native is None else self.native.host
        probe = Probe(host, len(kernels) + len(sites))
        code = None if self.native is None else self.native.on(probe.host)
        program = replace(self.program, segments=[e.on(probe) for e in self.program.segments])
        given = self._interface.in_order(args, named)
        timed = wall_clock(lambda: self._called(given, code, program))
        timed(1)
        runs = measured(probe, timed, repeat)
        made = report(self.name, kernels, {}, probe.calls[: len(kernels)], runs, chosen=True)
        if self.native is None:
            return made
        return replace(made, control=self._control(given, probe, runs))

    def _control(
        self, given: Sequence[Any], probe: Probe, runs: Sequence[ProfiledRun]
    ) -> ControlTimes:
        """What the last of some runs decided, and the events of another one."""
        assert self.native is not None
        trace = Trace(self.native.host)
        self.native.on(trace.host)(given)
        memory = self.native.used()
        names = [k["name"] for k in self.metadata["kernels"]]
        sites, first = self.metadata.get("sites", []), len(names)
        times = [median([r.spent[first + n] for r in runs]) for n in range(len(sites))]
        calls = probe.calls[first:]
        named = [(name, "kernel") for name in names] + [(name, "control") for name in sites]
        events = [(*named[n], begin, end) for n, begin, end in trace.events() if n < len(named)]
        counted = tuple(zip(sites, calls, times, strict=True))
        return ControlTimes(counted, *memory, tuple(events), trace.lost)

    @property
    def bytecode(self) -> str:
        """The instructions of all functions, as text."""
        parts = [function_text(f, n) for n, f in enumerate(self.program.functions)]
        return "\n\n".join(parts) + "\n"

    @property
    def globals(self) -> list[str]:
        """The names of the functions that can be invoked."""
        return list(self.program.globals)

    @property
    def primitive_ops(self) -> list[str]:
        """What the compiled segments compute: their operators, joined."""
        return [_ops_of(exe) for exe in self.program.segments]

    @property
    def lib(self) -> list[Any]:
        """The compiled segments."""
        return list(self.program.segments)

    @property
    def constants(self) -> list[np.ndarray]:
        """What LoadConst loads; constants of segments are in these."""
        return list(self.program.constants)

    @property
    def stats(self) -> str:
        """How much there is of everything."""
        p = self.program
        instructions = sum(len(f.code) for f in p.functions)
        most = max((f.registers for f in p.functions), default=0)
        return (
            "VM executable\n"
            f"  constants: {len(p.constants)}, {sum(c.nbytes for c in p.constants)} bytes\n"
            f"  globals: {', '.join(p.globals)}\n"
            f"  functions: {len(p.functions)}, {instructions} instructions, "
            f"at most {most} registers\n"
            f"  segments: {len(p.segments)}, with {len(self.metadata['kernels'])} kernels\n"
        )

    def get_function_params(self, name: str) -> list[str]:
        """The parameters of a function."""
        return list(self.function(name).params)

    def function(self, name: str) -> VMFunction:
        """A function by name."""
        index = self.program.globals.get(name)
        if index is None:
            known = errors.unknown("function", name, self.program.globals)
            raise errors.InputError(f"the program has {known}")
        return self.program.functions[index]

    def save(self) -> tuple[bytes, VMExecutable]:
        """The file's content, and what old programs export as a library of its own: this object."""
        with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
            path = os.path.join(folder, "program.vm")
            self.export_library(path)
            with open(path, "rb") as file:
                return file.read(), self

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: VMExecutable) -> VMExecutable:
        """The executable of `code, lib = exe.save()`, once `lib` is loaded: its file holds all.

        Raises LoadError where the two are not of one program.
        """
        if not isinstance(lib, VMExecutable):
            raise errors.LoadError(
                f"load_exec: lib is a {type(lib).__name__}; give what load_module gave"
            )
        known = lib.metadata.get("content") or json.loads(parts_of(lib).metadata)["content"]
        if not isinstance(bytecode, bytes | bytearray) or known.encode() not in bytecode:
            raise errors.LoadError("load_exec: the code and the library are not of one program")
        return lib

    def __reduce__(self) -> Any:
        raise errors.not_picklable(self)

    def export_library(
        self,
        path: str | os.PathLike[str],
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Write one file, .vm or .so, that `smelt.load` reads: see Executable."""
        if header and self.native is None:
            raise errors.ExportError(
                f"{self.name}: a part of it runs in Python, and it cannot be called from C: "
                "it has no header"
            )
        check_target(path, *PROGRAM)
        export(self, path, cc=cc, header=header)


def _symbolic(key: str, value: Any) -> bool:
    """Whether a cost depends on sizes, which are others from call to call."""
    return key in ("flops", "bytes") and isinstance(value, str)


Executable = VMExecutable
"""The classic name."""


def grouped(flat: Sequence[Any], groups: Sequence[int]) -> list[Any]:
    """Results as a program gives them, one after another, as its outputs: see Program.groups."""
    left = iter(flat)
    return [
        next(left) if g == -1 else None if g < 0 else [next(left) for _ in range(g)] for g in groups
    ]


def _ops_of(exe: Any) -> str:
    return "+".join([op for k in exe.metadata.get("kernels", ()) for op in k["ops"]]) or "copy"


class VirtualMachine:
    """Runs the functions of a VM executable. Several threads may invoke at once.

    memory_cfg is accepted for old programs: memory is managed by the segments.
    """

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    def __new__(cls, exe: Any = None, *args: Any, **named: Any) -> Any:
        """One on the machine where the executable is."""
        if isinstance(exe, RemoteLibrary):
            return exe.make(cls.__name__, *args, *named.values())
        return super().__new__(cls)

    def __init__(
        self,
        exe: VMExecutable,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: object = None,
    ) -> None:
        """Take an executable (or what relay.build(..., executor="vm") gave) and the device."""
        if not isinstance(exe, VMExecutable):
            raise errors.InputError(
                f"VirtualMachine: the executable is a {type(exe).__name__}; give what "
                "relay.vm.compile or load_module gave"
            )
        devices = list(device) if isinstance(device, list | tuple) else [device or cpu(0)]
        for d in devices:
            if d != cpu(0):
                raise errors.InputError(f"VirtualMachine: the program runs on {cpu(0)}, not on {d}")
        self.exe, self.device = exe, cpu(0)
        self._inputs: dict[str, list[Any]] = {}
        self._outputs: Any = None

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function of the program: `vm["main"](x)`."""
        self.exe.function(name)
        return lambda *args, **named: self.invoke(name, *args, **named)

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Set all operands of a function, in order and by name, for `run` and `invoke`."""
        self._inputs[func_name] = self._in_order(func_name, args, named)

    def set_one_input(self, func_name: str, index: int | str, value: Any) -> None:
        """Set one operand, by position or name."""
        params = self.exe.function(func_name).params
        at = params.index(index) if isinstance(index, str) and index in params else index
        if not isinstance(at, int) or not 0 <= at < len(params):
            raise errors.InputError(
                f"{func_name} has no parameter {index!r}; it takes {_list(params)}"
            )
        self._inputs.setdefault(func_name, [None] * len(params))[at] = _entering(value)

    def invoke(self, func_name: str, *args: Any, **named: Any) -> Any:
        """The result of a function: an NDArray, an ADT (a tuple is one of tag 0), or a closure.

        Without operands those of set_input are taken.
        """
        if not args and not named and func_name in self._inputs:
            given = self._inputs[func_name]
            params = self.exe.function(func_name).params
            missing = [p for p, g in zip(params, given, strict=True) if g is None]
            if missing:
                raise errors.InputError(f"{func_name}: no input is set for {', '.join(missing)}")
        else:
            given = self._in_order(func_name, args, named)
        function, code = self.exe.function(func_name), self.exe.native
        if code is None or func_name != "main":
            self._outputs = _result_of(self.exe.program, function, given)
        else:
            made = code(given)
            self._outputs = made[0] if self.exe.program.single else ADT(0, made)
        return self._outputs

    def apply(self, closure: Closure, args: Sequence[Any]) -> Any:
        """The result of a function that is a value, as `invoke` gave it."""
        function = self.exe.program.functions[closure.function]
        if len(args) != len(function.params):
            raise errors.InputError(
                f"the closure takes {len(function.params)} operands: {_list(function.params)}; "
                f"{len(args)} given"
            )
        given = [*closure.captured, *[_entering(a) for a in args]]
        return _result_of(self.exe.program, function, given)

    def run(self, *args: Any, **named: Any) -> Any:
        """The result of "main"."""
        return self.invoke("main", *args, **named)

    def invoke_stateful(self, func_name: str, *args: Any, **named: Any) -> None:
        """Invoke, and keep the result for get_outputs."""
        self.invoke(func_name, *args, **named)

    def get_outputs(self) -> list[Any]:
        """The results of the last call, one by one."""
        found = self._outputs
        return list(found) if isinstance(found, ADT) and not found.name else [found]

    def benchmark(
        self,
        device: Device | None = None,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        **named: Any,
    ) -> BenchmarkResult:
        """Time a function in ms: `repeat` times the mean of `number` calls, after one not timed."""
        return timed_runs(
            wall_clock(lambda: self.invoke(func_name, *args, **named)), repeat, number
        )

    def _in_order(self, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        operands = [TensorInfo(p, "", (), "data") for p in self.exe.function(name).params]
        return [_entering(v) for v in Interface(name, operands, ()).in_order(args, named)]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _parts(value: Any) -> Sequence[Any]:
    if isinstance(value, ADT):
        return value.fields
    return value if isinstance(value, list | tuple) else ()


def _converted(value: Any, leaf: Callable[[Any], Any], group: Callable[[list[Any]], Any]) -> Any:
    """A value with its arrays and its tuples made anew. Lists may be long: no recursion."""
    done: dict[int, Any] = {}
    stack = [value]
    while stack:
        v = stack[-1]
        parts = _parts(v)
        missing = [p for p in parts if id(p) not in done]
        if id(v) not in done and missing:
            stack += missing
            continue
        stack.pop()
        if id(v) in done:
            continue
        fields = [done[id(p)] for p in parts]
        if isinstance(v, ADT) and v.name:
            done[id(v)] = ADT(v.tag, fields, v.name)
        else:
            done[id(v)] = group(fields) if isinstance(v, ADT | list | tuple) else leaf(v)
    return done[id(value)]


def _entering(value: Any) -> Any:
    """An operand as the machine holds it: arrays, tuples, data."""
    return _converted(value, _array, tuple)


def _array(value: Any) -> Any:
    if isinstance(value, np.ndarray | NDArray | Closure):
        return value
    if isinstance(value, bool | int | float):
        made = np.asarray(value)
        narrow = {"float64": np.float32, "int64": np.int32}.get(str(made.dtype))
        return made if narrow is None else made.astype(narrow)
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)


def _leaving(value: Any) -> Any:
    """A result: arrays as NDArrays, those of texts as they are, tuples and data as ADTs."""
    return _converted(value, _result, lambda fields: ADT(0, fields))


def _result(value: Any) -> Any:
    texts = isinstance(value, np.ndarray) and value.dtype.kind in "OU"
    return value if texts or isinstance(value, NDArray | Closure) else array(value)


# ------------------------------------------------------------------------------------ the machine


def _result_of(program: Program, function: VMFunction, args: list[Any]) -> Any:
    """The result of a function, as programs outside of the machine take it."""
    try:
        return _leaving(_run(program, function, args))
    except MemoryError:
        raise errors.RuntimeFailure(f"{function.name}: no memory left") from None


def _run(program: Program, function: VMFunction, args: list[Any]) -> Any:
    """The result of a function: one loop over instructions, frames on a list of its own."""
    functions = program.functions
    frames: list[tuple[list[Any], list[Any], int, int]] = []
    code: list[Any] = function.code
    regs: list[Any] = [*args, *[None] * (function.registers - len(args))]
    at = 0
    while True:
        i = code[at]
        at += 1
        op = i[0]
        step = _STEPS.get(op)
        if step is not None:
            step(program, regs, i)
        elif op == "If":
            if scalar(regs[i[1]]) != i[2]:
                at = i[3]
        elif op == "Goto":
            at = i[1]
        elif op == "Ret":
            result = regs[i[1]]
            if not frames:
                return result
            code, regs, at, d = frames.pop()
            regs[d] = result
        elif op == "Fatal":
            raise errors.RuntimeFailure(i[1])
        else:
            given = [regs[a] for a in i[-1]]
            target = i[-2]
            if op in ("InvokeClosure", "TailClosure"):
                closure = regs[target]
                if type(closure) is not Closure or closure.program is not program:
                    raise _unfit("a function of its own", closure)
                target, given = closure.function, [*closure.captured, *given]
            if op in ("Invoke", "InvokeClosure"):
                frames.append((code, regs, at, i[1]))
            callee = functions[target]
            code, at = callee.code, 0
            regs = [*given, *[None] * (callee.registers - len(given))]


def _arrays(regs: list[Any], places: Sequence[int]) -> list[np.ndarray]:
    found = []
    for p in places:
        v = regs[p]
        if type(v) is not np.ndarray:
            if type(v) is not NDArray:
                raise _unfit("a tensor", v)
            v = v.numpy()
        found.append(v)
    return found


def _unfit(wanted: str, value: Any) -> errors.InputError:
    """The error of an operand that is of another kind than the program takes."""
    kind = "a tuple" if type(value) is tuple else f"a {type(value).__name__}"
    return errors.InputError(
        f"the program takes {wanted} where {kind} was given; see the operands' types"
    )


def _move(program: Program, regs: list[Any], i: Any) -> None:
    regs[i[1]] = regs[i[2]]


def _segment(program: Program, regs: list[Any], i: Any) -> None:
    code, given = program.segments[i[2]], _arrays(regs, i[3])
    for n in code.signature.updates:  # others may have the value, too
        given[n] = given[n].copy()
    made = code(*given)
    places = i[1]
    if len(places) == 1:
        regs[places[0]] = made
    else:
        for d, m in zip(places, made, strict=True):
            regs[d] = m


def _host(program: Program, regs: list[Any], i: Any) -> None:
    given = [regs[p] if type(regs[p]) is list else _arrays(regs, (p,))[0] for p in i[4]]
    try:
        made = HOST_OPS[i[2]](*given, **i[3])
        for d, m in zip(i[1], made if type(made) is tuple else (made,), strict=True):
            regs[d] = m
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError) as e:
        raise errors.InputError(f"the operator {i[2]} with {i[3]}: {e}") from e


def _adt(program: Program, regs: list[Any], i: Any) -> None:
    regs[i[1]] = ADT(i[2], [regs[a] for a in i[4]], i[3])


def _tuple(program: Program, regs: list[Any], i: Any) -> None:
    regs[i[1]] = tuple([regs[a] for a in i[2]])


def _closure(program: Program, regs: list[Any], i: Any) -> None:
    regs[i[1]] = Closure(i[2], tuple([regs[a] for a in i[3]]), program)


def _field(program: Program, regs: list[Any], i: Any) -> None:
    whole = regs[i[2]]
    try:
        regs[i[1]] = (whole if type(whole) is tuple else whole.fields)[i[3]]
    except (AttributeError, IndexError):
        raise _unfit(f"a value with {i[3] + 1} fields or more", whole) from None


def _tag(program: Program, regs: list[Any], i: Any) -> None:
    try:
        regs[i[1]] = regs[i[2]].tag
    except AttributeError:
        raise _unfit("a value of a data type", regs[i[2]]) from None


def _constant(program: Program, regs: list[Any], i: Any) -> None:
    regs[i[1]] = program.constants[i[2]]


_STEPS: dict[str, Callable[[Program, list[Any], Any], None]] = {
    "Move": _move,
    "InvokeSegment": _segment,
    "InvokeHost": _host,
    "AllocADT": _adt,
    "AllocTuple": _tuple,
    "AllocClosure": _closure,
    "GetField": _field,
    "GetTag": _tag,
    "LoadConst": _constant,
}
"""The instructions that go on to the next one."""
