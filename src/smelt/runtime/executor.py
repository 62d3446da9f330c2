"""A compiled model with inputs that are set and outputs that are got.

m = smelt.runtime.executor.AotModule(lib["default"](smelt.cpu(0)))
m.set_input("input", x)
m.run()
y = m.get_output(0).numpy()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from smelt.runtime.bound import BoundCall
from smelt.runtime.device import Device
from smelt.runtime.errors import InputError, nearest
from smelt.runtime.evaluator import evaluate_times, wall_clock
from smelt.runtime.native_executable import NativeExecutable
from smelt.runtime.ndarray import NDArray, array, empty
from smelt.runtime.profiler import Probe
from smelt.runtime.remote import RemoteLibrary
from smelt.runtime.report import TimeEvaluation
from smelt.runtime.signature import TensorInfo, listing


class AotModule:
    """A model on buffers of its own. A run is one native call; one thread at a time may run it.

    module  the executable
    """

    def __new__(cls, module: Any = None, *args: Any, **named: Any) -> Any:
        """One on the machine where the library is."""
        if isinstance(module, RemoteLibrary):
            return module.make(cls.__name__, *args, *named.values())
        return super().__new__(cls)

    def __init__(self, module: NativeExecutable) -> None:
        """module: lib["default"](device)."""
        if not isinstance(module, NativeExecutable):
            raise InputError(
                f'{type(self).__name__} takes lib["default"](device), not a {type(module).__name__}'
            )
        self.module = module.attached(self)
        self._inputs: list[Any] = [None] * len(module.inputs)
        self._lent: set[int] = set()
        self._given_outputs: dict[int, Any] = {}
        self._call: BoundCall | None = None
        self._probe: Probe | None = None
        self._ran = False

    # ---- inputs -------------------------------------------------------------------------------

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy an array (numpy, NDArray, or anything of DLPack) into an input, or several by name.

        key  the input's name or number
        """
        if key is not None:
            self._set(self.get_input_index(key), value)
        for name, given in params.items():
            self._set(self.get_input_index(name), given)

    def _set(self, index: int, value: Any) -> None:
        info = self.module.inputs[index]
        view = self.module.signature.fitting("input", info, value)
        mine = self._inputs[index]
        if mine is None or index in self._lent or mine.shape != view.shape:
            self._inputs[index] = mine = empty(view.shape, view.dtype)
            self._lent.discard(index)
            self._call = None
        np.copyto(mine.numpy(), view)

    def set_input_zero_copy(self, key: str | int | None = None, value: Any = None,
                            **params: Any) -> None:  # fmt: skip
        """Use arrays in place of the module's own inputs: runs read them where they lie."""
        given = [*params.items(), *([] if key is None else [(key, value)])]
        for name, lent in given:
            index = self.get_input_index(name)
            self.module.signature.fitting("input", self.module.inputs[index], lent)
            self._inputs[index] = lent
            self._lent.add(index)
            self._call = None

    def get_input(self, index: str | int, out: NDArray | None = None) -> NDArray:
        """The module's own buffer of an input, or its contents copied into `out`."""
        i = self.get_input_index(index)
        if self._inputs[i] is None:
            info = self.module.inputs[i]
            if any(isinstance(d, str) for d in info.shape):
                raise InputError(
                    f"{self.module.name}: input {info.name!r} has no fixed size; set it first"
                )
            self._inputs[i] = empty(tuple([int(d) for d in info.shape]), info.dtype)
            self._inputs[i].numpy()[...] = 0
        given = self._inputs[i]
        return _copied(given if isinstance(given, NDArray) else array(given), out)

    def get_num_inputs(self) -> int:
        """How many inputs."""
        return len(self.module.inputs)

    def get_input_index(self, name: str | int) -> int:
        """The number of an input."""
        return self._index("input", self.module.inputs, name)

    def get_input_name(self, index: int) -> str:
        """The name of an input."""
        return self.module.inputs[self.get_input_index(index)].name

    def get_input_info(self) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
        """Shapes and dtypes of the inputs by name; a size that is not fixed is its name."""
        inputs = self.module.inputs
        return {i.name: i.shape for i in inputs}, {i.name: i.dtype for i in inputs}

    # ---- running ------------------------------------------------------------------------------

    def run(self, **inputs: Any) -> None:
        """Run the model once, after setting some inputs."""
        if inputs:
            self.set_input(**inputs)
        self.bound()()
        self._ran = True

    def bound(self) -> BoundCall:
        """The native call on the inputs that were set and the outputs that are got."""
        if self._call is None:
            self._call = self._bind()
        return self._call

    def _bind(self) -> BoundCall:
        missing = [
            i for i, have in zip(self.module.inputs, self._inputs, strict=True) if have is None
        ]
        if missing:
            raise InputError(
                f"{self.module.name}: run: these inputs were never set: {listing(missing)}"
            )
        bound = self.module.bind(self._inputs, None, self._probe)
        if not self._given_outputs:
            return bound
        outputs = [self._given_outputs.get(i, o) for i, o in enumerate(bound.outputs)]
        return self.module.bind(self._inputs, outputs, self._probe)

    # ---- outputs ------------------------------------------------------------------------------

    def get_output(self, index: str | int, out: NDArray | None = None) -> NDArray:
        """An output's buffer, which the next run writes again, or its contents copied to `out`."""
        i = self._index("output", self.module.outputs, index)
        if self._call is None or not self._ran:
            raise InputError(f"{self.module.name}: get_output before run()")
        found = self._call.outputs[i]
        return _copied(found if isinstance(found, NDArray) else array(found), out)

    def get_num_outputs(self) -> int:
        """How many outputs."""
        return len(self.module.outputs)

    def get_output_name(self, index: int) -> str:
        """The name of an output."""
        return self.module.outputs[self.get_output_index(index)].name

    def get_output_index(self, name: str | int) -> int:
        """The number of an output."""
        return self._index("output", self.module.outputs, name)

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Let runs write an output into this array."""
        i = self._index("output", self.module.outputs, key)
        self.module.signature.fitting("output", self.module.outputs[i], value)
        self._given_outputs[i] = value
        self._call = None
        self._ran = False

    # ---- measuring ----------------------------------------------------------------------------

    def benchmark(
        self,
        device: Device | None = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **inputs: Any,
    ) -> TimeEvaluation:
        """Time runs: `repeat` times the mean of `number` runs, after one that is not timed.

        device         the module's own; there for the classic signature
        min_repeat_ms  take more runs, where `number` of them last shorter
        end_to_end     time setting `inputs` and copying the outputs out as well
        """
        if func_name != "run":
            raise InputError(f"benchmark: func_name={func_name!r}; only 'run' can be timed")
        if device is not None:
            self.module["default"](device)
        self.run(**inputs)
        call = self.bound()
        return evaluate_times(
            "benchmark",
            wall_clock(lambda: self._whole(inputs)) if end_to_end else call.time,
            number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms,
            repeats_to_cooldown,
        )  # fmt: skip

    def _whole(self, inputs: Mapping[str, Any]) -> None:
        """A run with copies in and out."""
        self.run(**inputs)
        for i in range(self.get_num_outputs()):
            self.get_output(i).numpy().copy()

    # ---- names --------------------------------------------------------------------------------

    def _index(self, role: str, known: Sequence[TensorInfo | str], key: str | int) -> int:
        if isinstance(key, int) and 0 <= key < len(known):
            return key
        names = _names(known)
        if isinstance(key, str) and key in names:
            return names.index(key)
        raise self.unknown(role, known, key)

    def unknown(
        self, role: str, known: Sequence[TensorInfo | str], key: object, hint: str = ""
    ) -> InputError:
        """The error for a name or number that there is not."""
        names, shown = _names(known), "; ".join(map(str, known)) or "none"
        more = f"\n  {hint}" if hint else ""
        return InputError(f"{self.module.name}: no {role} {key!r}{nearest(str(key), names)}\n  "
                          f"{role}s: {shown}{more}")  # fmt: skip

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The methods by name: module["run"]()."""
        method = getattr(self, name, None) if not name.startswith("_") else None
        if not callable(method):
            raise InputError(f"{self.module.name}: an executor has no function {name!r}")
        found: Callable[..., Any] = method
        return found


def _names(known: Sequence[TensorInfo | str]) -> list[str]:
    return [k if isinstance(k, str) else k.name for k in known]


def _copied(found: NDArray, out: NDArray | None) -> NDArray:
    if out is None:
        return found
    found.copyto(out)
    return out
