"""FakeQuantizationToInteger: operators between qnn.dequantize and qnn.quantize work on integers."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.errors import TypeMismatch
from smelt.relax.transform.affine_types import NotInteger, TensorAffineType, TupleAffineType
from smelt.relax.transform.fake_quantization import fake_quantization_to_integer
from smelt.runtime.errors import nearest
from smelt.transform import Pass

from .affine_types import (
    OPTIONAL,
    register_fake_quantization_to_integer,
    register_optional_fake_quantization_to_integer,
)
from .fake_quantization_rules import RelayWords
from .passes import graph_pass

__all__ = ["FakeQuantizationToInteger", "NotInteger", "TensorAffineType", "TupleAffineType",
           "register_fake_quantization_to_integer",
           "register_optional_fake_quantization_to_integer"]  # fmt: skip


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None
) -> Pass:
    """Operators between qnn.dequantize and qnn.quantize become operators on integers.

    hard_fail         a region that stays in floats is an error, which names the first operator
                      that stopped it; else it stays
    use_qat           operators on dequantized numbers whose result is not quantized again become
                      integer ones with a qnn.dequantize behind them
    optional_qnn_ops  operators that become integer ones only where named here: nn.softmax
    """
    wanted = set(optional_qnn_ops or ())
    for name in sorted(wanted - OPTIONAL):
        raise TypeMismatch(
            f"FakeQuantizationToInteger: optional_qnn_ops has {name!r}; legal: "
            f"{', '.join(sorted(OPTIONAL))}{nearest(name, sorted(OPTIONAL))}"
        )
    words = RelayWords(OPTIONAL - wanted)
    return graph_pass(
        "FakeQuantizationToInteger",
        lambda mod: fake_quantization_to_integer(mod, hard_fail, use_qat, words),
    )
