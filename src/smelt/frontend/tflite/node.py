"""What a converter of a TFLite node is given: besides calls, what the file says of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.frontend.common import Build, Environment, ModelNode, Value

from .read import Tensor


class Node(Build):
    """One node being converted."""

    def __init__(
        self, step: ModelNode, walk: Environment, given: Sequence[Tensor | None],
        made: Sequence[Tensor],
    ) -> None:  # fmt: skip
        """Take the node, and the file's tensors of its operands and results."""
        super().__init__(step, walk)
        self.given, self.made = given, made

    def tensor(self, k: int) -> Tensor:
        """The file's tensor of an operand."""
        found = self.given[k] if k < len(self.given) else None
        if found is None:
            self.malformed(f"operand {k} is missing")
        return found

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
