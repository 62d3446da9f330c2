"""What a converter of a TFLite node is given: besides calls, what the file says of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.frontend.common import Build, Environment, Graph, ModelNode, Value

from .read import Tensor


class Node(Build):
    """One node being converted."""

    def __init__(
        self, step: ModelNode, walk: Environment, given: Sequence[Tensor | None],
        made: Sequence[Tensor], inner: Sequence[Tensor], kept: dict[str, Value],
        graphs: Sequence[Graph],
    ) -> None:  # fmt: skip
        """Take the node, the file's tensors of its operands and results and those that it uses for
        itself, what becomes of the values that the model keeps from call to call, and the file's
        subgraphs."""
        super().__init__(step, walk)
        self.given, self.made, self.inner = given, made, inner
        self.kept, self.graphs = kept, graphs

    def tensor(self, k: int) -> Tensor:
        """The file's tensor of an operand."""
        found = self.given[k] if k < len(self.given) else None
        if found is None:
            self.malformed(f"operand {k} is missing")
        return found

    def keep(self, k: int, value: Value) -> None:
        """Let a value be what an operand, a variable of the model, is from now on."""
        t = self.tensor(k)
        if not t.variable:
            self.malformed(f"the operand {t.name!r} is no variable, but the operator changes it")
        self.kept[t.name] = self.walk.names[t.name] = value

    @property
    def out(self) -> Tensor:
        """The file's tensor of the first result."""
        if not self.made:
            self.malformed("the node has no result")
        return self.made[0]

    @property
    def integers(self) -> bool:
        """Whether the first result stands for other numbers."""
        return self.out.quantized and self.out.dtype in ("int8", "uint8", "int16")

    def known(self, array: Any, dtype: str | None = None) -> Value:
        """A value from numbers, as a constant of the graph."""
        return self.constant(np.asarray(array), dtype)

    def scale(self, t: Tensor) -> np.float32:
        """The only scale of a tensor."""
        if t.scales.size != 1:
            self.unsupported(f"the tensor {t.name!r} with {t.scales.size} scales", "one scale")
        return np.float32(t.scales[0])

    def zero(self, t: Tensor) -> int:
        """The only zero point of a tensor."""
        self.scale(t)
        return int(t.zeros[0])
