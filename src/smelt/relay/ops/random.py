"""Random numbers from keys: each operator gives the key's successor and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.relax.nodes import Constant, constant

from ..dialect import alias, relay_function, same


@relay_function("random.threefry_key")
def threefry_key(seed: int) -> Constant:
    """A key for a number."""
    words = [int(seed) >> (64 * i) & (2**64 - 1) for i in range(4)]
    return constant(np.array([*words, 0, 0, 0, 0, 1 << 63, 0], "uint64"))


_DRAWN: Any = {"renamed": "out_shape=shape out_dtype=dtype", "results": 2,
               "required": "out_shape", "out_dtype": "float32"}  # fmt: skip
same("random.threefry_generate", "key", core="threefry_generate", renamed="out_shape=shape",
     results=2, required="out_shape")  # fmt: skip
same("random.threefry_split", "key", core="threefry_split", results=2)
same("random.uniform", "key low high", core="uniform", **_DRAWN)
same("random.normal", "key mean scale", core="normal", **_DRAWN)
same("random.multinomial", "key probs", core="multinomial", results=2, num_samples=1)


alias("random.uniform", "key shape=out_shape dtype=out_dtype low high", numbers="out_dtype",
      low=0.0, high=1.0)  # fmt: skip
alias("random.normal", "key shape=out_shape dtype=out_dtype mean scale", numbers="out_dtype",
      mean=0.0, scale=1.0)  # fmt: skip
