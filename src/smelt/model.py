"""A model that takes other forms for other inputs: each is compiled when it is met first.

`smelt.compile` gives a `Model` where inputs are sequences or optional values, and where the graph's
structure depends on the values of inputs, such as the axes of a sum.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, InternalError
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, tensor_type
from smelt.runtime.errors import InputError
from smelt.runtime.executable import Argument, Executable, Results, value_info
from smelt.runtime.ndarray import NDArray
from smelt.runtime.report import CallMemory, MemoryInfo, ProfileReport
from smelt.runtime.signature import ANY_RANK, Interface, TensorInfo

MOST_VARIANTS = 64
"""Compiled forms that are kept; the one that was made first goes when there are more."""


@dataclass(frozen=True)
class Variant:
    """A compiled form.

    fixed  the inputs whose values or structure are compiled in
    """

    code: Executable
    fixed: Mapping[str, Any]


@dataclass(frozen=True)
class Needs:
    """What an import needs: inputs whose values, and inputs whose shapes it has to know."""

    inputs: tuple[str, ...]
    shapes: tuple[str, ...] = ()


Importer = Callable[[Mapping[str, Any]], "IRModule | Needs"]
"""The module with these inputs given; or what it needs besides."""


class Model(Executable):
    """A compiled model behind one call, whatever forms it takes."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[str],
        importer: Importer,
        compile_module: Callable[[IRModule], Executable],
        found: Needs,
    ) -> None:
        """For smelt.compile.

        found  what the import needs
        """
        self.name, self.inputs = name, tuple(inputs)
        self.outputs = tuple([TensorInfo(o, "", ANY_RANK) for o in outputs])
        self.metadata = {
            "kind": "model",
            "name": name,
            "inputs": [value_info(i) for i in inputs],
            "outputs": [value_info(o) for o in self.outputs],
            "kernels": [],
        }
        self._interface = Interface(name, inputs, self.outputs)
        self._import, self._compile = importer, compile_module
        self._needed: set[str] = set()
        self._shapes: set[str] = set()
        self._variants: dict[Any, Variant] = {}
        self._lock = threading.RLock()
        self._note(found)

    @property
    def variants(self) -> list[Variant]:
        """The forms that are compiled so far."""
        return list(self._variants.values())

    @property
    def needed(self) -> tuple[str, ...]:
        """The inputs whose values or structure are compiled in, as far as they are known."""
        return tuple([i.name for i in self.inputs if i.name in self._needed | self._shapes])

    @property
    def memory(self) -> MemoryInfo:
        """The bytes of the weights of all forms that are compiled so far."""
        weights = sum(v.code.memory.weights for v in self.variants)
        return MemoryInfo(weights, None, None, self._memory_of)

    def _memory_of(self, *args: Any, **named: Any) -> CallMemory:
        """What a call of the form for these inputs needs."""
        code, left = self._form_for(args, named)
        return code.memory(*left)

    def __call__(
        self, *args: Argument | Mapping[str, Argument], **named: Argument
    ) -> NDArray | Results:
        """Run the model: see Executable."""
        code, left = self._form_for(args, named)
        return code(*left)

    def profile(
        self, *args: Argument | Mapping[str, Argument], repeat: int = 10, **named: Argument
    ) -> ProfileReport:
        """Time each kernel of the form for these inputs."""
        code, left = self._form_for(args, named)
        return code.profile(*left, repeat=repeat)

    def _form_for(
        self, args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Executable, list[Any]]:
        """The form that takes some inputs, and the inputs that it takes."""
        given = self._interface.in_order(args, named)
        values = [self._interface.value(i, v) for i, v in zip(self.inputs, given, strict=True)]
        variant = self._variant_for(values)
        left: list[Any] = []
        for i, v in zip(self.inputs, values, strict=True):
            if i.name not in variant.fixed or isinstance(variant.fixed[i.name], TensorType):
                left.append(v)
            elif isinstance(variant.fixed[i.name], list):
                left += v
        return variant.code, left

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
                    self._variants[key] = Variant(self._compile(found), forms)
                    return self._variants[key]
                before = len(self._needed) + len(self._shapes)
                self._note(found)
                if len(self._needed) + len(self._shapes) == before:
                    raise InternalError(f"{self.name}: asks again for what is given: {found}")

    def _note(self, needs: Needs) -> None:
        """Remember which inputs an import has to know."""
        self._needed |= set(needs.inputs)
        self._shapes = (self._shapes | set(needs.shapes)) - self._needed

    def bind(self, inputs: Any, outputs: Any = None) -> NoReturn:
        """Refused: which form is to be bound depends on inputs, whose values are not in its code.

        Raises InputError.
        """
        raise InputError(f"{self.name}: bind: {self._one_form()} to bind it, or call it instead")

    def export_library(
        self,
        path: str | os.PathLike[str],
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Refused: a file holds one form, and which one is needed depends on the inputs."""
        raise CompileError(f"{self.name}: {self._one_form()} to write it as a file")

    def _one_form(self) -> str:
        given = ", ".join([f"{name!r}: ..." for name in self.needed])
        return (
            f"its form depends on the inputs {', '.join(self.needed)}; give their values to "
            f"smelt.compile(values={{{given}}})"
        )


def _form(i: TensorInfo, value: Any, structure: bool) -> Any:
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
