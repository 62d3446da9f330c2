"""A model that one executable does not serve: it decides while it runs, or takes other forms.

`smelt.compile` gives a `Model` where control flow or sizes depend on computed values (the virtual
machine runs it), where inputs or results are sequences or optional values, and where the graph's
structure depends on the values of inputs, such as the axes of a sum: then each set of such values
is compiled when it is met first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, tensor_type
from smelt.relax.nodes import Function
from smelt.runtime.container import ADT
from smelt.runtime.errors import InputError
from smelt.runtime.evaluator import timed_runs, wall_clock
from smelt.runtime.ndarray import NDArray
from smelt.runtime.report import BenchmarkResult
from smelt.runtime.vm import VirtualMachine, VMExecutable

__all__ = ["Model", "ModelInput", "Needs", "Variant"]

MOST_VARIANTS = 64
"""Compiled forms that are kept; the one that was made first goes when there are more."""


@dataclass(frozen=True)
class ModelInput:
    """An input: its name, what it is ("tensor", "sequence", "optional", ...) and element type.

    shape  numbers where the model fixes an extent, names or None elsewhere; None: of any rank
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int | str | None, ...] | None = None


@dataclass(frozen=True)
class Variant:
    """A compiled form: an Executable, a VMExecutable, or None where nothing has to be computed.

    fixed   the inputs whose values or structure are compiled in
    groups  per result: -1 a tensor, -2 an absent optional value, else a sequence of so many
    """

    code: Any
    fixed: Mapping[str, Any]
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Needs:
    """What an import needs: inputs whose values, and inputs whose shapes it has to know."""

    inputs: tuple[str, ...]
    shapes: tuple[str, ...] = ()


Importer = Callable[[Mapping[str, Any]], "IRModule | Needs"]
"""The module with these inputs given; or what it needs besides."""


class Model:
    """A compiled model behind one call, whatever it takes to run it.

    inputs   what it takes, in order
    outputs  the names of its results
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[ModelInput],
        outputs: Sequence[str],
        importer: Importer,
        compile_module: Callable[[IRModule], Any],
        found: IRModule | Needs,
    ) -> None:
        """For smelt.compile.

        found  the imported model, or what its import needs
        """
        self.name, self.inputs, self.outputs = name, tuple(inputs), tuple(outputs)
        self._import, self._compile = importer, compile_module
        self._needed: set[str] = set()
        self._shapes: set[str] = set()
        self._variants: dict[Any, Variant] = {}
        self._lock = threading.RLock()
        if isinstance(found, IRModule):
            self._variants[()] = self._variant(found, {})
        else:
            self._note(found)

    def __repr__(self) -> str:
        shown = ", ".join([f"{i.name}: {i.kind} of {i.dtype or '?'}" for i in self.inputs])
        return f"Model({self.name}: ({shown}) -> {', '.join(self.outputs)})"

    @property
    def variants(self) -> list[Variant]:
        """The forms that are compiled so far."""
        return list(self._variants.values())

    @property
    def needed(self) -> tuple[str, ...]:
        """The inputs whose values or structure are compiled in, as far as they are known."""
        return tuple([i.name for i in self.inputs if i.name in self._needed | self._shapes])

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the model: values in the order of the inputs or by name.

        Gives an NDArray, a list of them for a sequence, None for an absent optional value; a tuple
        where there is not exactly one result.
        """
        given = self._in_order(args, named)
        variant = self._variant_for(given)
        left: list[Any] = []
        for i, v in zip(self.inputs, given, strict=True):
            if i.name not in variant.fixed or isinstance(variant.fixed[i.name], TensorType):
                left.append(v)
            elif isinstance(variant.fixed[i.name], list):
                left += v
        return self._grouped(variant, self._run(variant.code, left))

    def _in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = [i.name for i in self.inputs]
        left = names[len(args) :]
        strange = [n for n in named if n not in left]
        optional = {i.name for i in self.inputs if i.kind.startswith("optional")}
        missing = [n for n in left if n not in named and n not in optional]
        if strange or missing or len(args) > len(names):
            what = f"; {missing[0]!r} is missing" if missing else ""
            what += f"; {strange[0]!r} is none of them or given twice" if strange else ""
            raise InputError(
                f"{self.name} takes {len(names)} inputs: {', '.join(names) or 'none'}; "
                f"{len(args)} given in order, {len(named)} by name{what}"
            )
        return [_entering(v, self.name, i) for v, i in
                zip([*args, *[named.get(n) for n in left]], self.inputs, strict=True)]  # fmt: skip

    def _variant_for(self, given: Sequence[Any]) -> Variant:
        """The compiled form for some inputs, which may have to be made."""
        with self._lock:
            while True:
                forms = {
                    i.name: _form(i, v, i.name not in self._needed)
                    for i, v in zip(self.inputs, given, strict=True)
                    if i.name in self._needed | self._shapes
                }
                key = tuple([_key(n, f) for n, f in forms.items()])
                if key in self._variants:
                    return self._variants[key]
                found = self._import(forms)
                if isinstance(found, IRModule):
                    if len(self._variants) >= MOST_VARIANTS:
                        self._variants.pop(next(iter(self._variants)))
                    self._variants[key] = self._variant(found, forms)
                    return self._variants[key]
                before = len(self._needed) + len(self._shapes)
                self._note(found)
                if len(self._needed) + len(self._shapes) == before:
                    raise CompileError(f"{self.name}: its structure depends on more than inputs")

    def _note(self, needs: Needs) -> None:
        """Remember which inputs an import has to know."""
        self._needed |= set(needs.inputs)
        self._shapes = (self._shapes | set(needs.shapes)) - self._needed

    def _variant(self, module: IRModule, forms: Mapping[str, Any]) -> Variant:
        main = module["main"]
        assert isinstance(main, Function)
        groups = main.attrs.get("output_groups") or (-1,) * len(self.outputs)
        return Variant(self._compile(module) if main.results() else None, forms, tuple(groups))

    def _run(self, code: Any, args: Sequence[Any]) -> list[Any]:
        """The results one by one."""
        if code is None:
            return []
        if isinstance(code, VMExecutable):
            made = VirtualMachine(code).invoke("main", *args)
            return list(made.fields) if isinstance(made, ADT) else [made]
        made = code(*args)
        return list(made) if isinstance(made, tuple) else [made]

    def _grouped(self, variant: Variant, flat: Sequence[Any]) -> Any:
        left = iter(flat)
        made: list[Any] = []
        for g in variant.groups:
            made.append(
                next(left) if g == -1 else None if g < 0 else [next(left) for _ in range(g)]
            )
        return made[0] if len(made) == 1 else tuple(made)

    def benchmark(
        self, *args: Any, repeat: int = 5, number: int = 5, **named: Any
    ) -> BenchmarkResult:
        """Time a call in ms: `repeat` times the mean of `number` calls, after one not timed."""
        timed = wall_clock(lambda: self(*args, **named))
        timed(1)
        return timed_runs(timed, repeat, number)

    def export_library(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the model as one file for `smelt.runtime.load_module`.

        Only where it has one form, which is known before it runs: see `needed`.
        """
        single = self._variants.get(())
        if single is None or any(g != -1 for g in single.groups):
            raise CompileError(
                f"{self.name}: its form depends on "
                + (f"the inputs {', '.join(self.needed)}" if self.needed else "its inputs")
                + "; give their values to smelt.compile(values={...}) to write it as a file"
            )
        single.code.export_library(path, **options)


def _entering(value: Any, model: str, i: ModelInput) -> Any:
    """An input as arrays, a list of them, or None."""
    if value is None:
        if not i.kind.startswith("optional"):
            raise InputError(f"{model}: the input {i.name!r} is None; a {i.kind} is expected")
        return None
    if isinstance(value, list | tuple) and "sequence" in i.kind:
        return [_checked(_array(v), model, i) for v in value]
    return _checked(_array(value), model, i)


def _checked(value: np.ndarray, model: str, i: ModelInput) -> np.ndarray:
    """An array of the input's element type and shape."""
    kind = dt.from_numpy(value.dtype)
    if i.dtype and kind != i.dtype:
        raise InputError(f"{model}: the input {i.name!r} is {kind}; {i.dtype} is expected")
    want = i.shape
    if want is not None and i.kind == "tensor":
        fits = len(want) == value.ndim and all(
            not isinstance(w, int) or w == n for w, n in zip(want, value.shape, strict=True)
        )
        if not fits:
            shown = ", ".join(["?" if w is None else str(w) for w in want])
            raise InputError(
                f"{model}: the input {i.name!r} has the shape {list(value.shape)}; "
                f"[{shown}] is expected"
            )
    return value


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, NDArray) else np.asarray(value)


def _form(i: ModelInput, value: Any, structure: bool) -> Any:
    """What an input gives to the import: its value, or its structure."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_type(v) for v in value]
    return _type(value) if structure or i.kind != "tensor" else value


def _type(value: np.ndarray) -> TensorType:
    return tensor_type(value.shape, dt.from_numpy(value.dtype))


def _key(name: str, form: Any) -> Any:
    if isinstance(form, np.ndarray):
        return (name, str(form.dtype), form.shape, form.tobytes())
    return (name, tuple(form) if isinstance(form, list) else form)
