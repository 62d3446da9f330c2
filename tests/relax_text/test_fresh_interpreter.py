"""What programs print does not depend on what was imported before."""

import subprocess
import sys

import pytest

START = """
import smelt
from smelt import relax
x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
y = relax.op.nn.relu(relax.op.permute_dims(x))
"""

TEXTS = {
    "y": 'x: R.Tensor((2, 3), "float32")\n'
    "v0 = R.transpose(x, axes=(1, 0))\nv1 = R.relu(v0)\nv1\n",
    "y.astext()": 'x: R.Tensor((2, 3), "float32")\n'
    "v0 = R.transpose(x, axes=(1, 0))\nv1 = R.relu(v0)\nv1\n",
    "x": 'x: R.Tensor((2, 3), "float32")\nx\n',
    "relax.Tuple([x, y])": 'x: R.Tensor((2, 3), "float32")\n'
    "v0 = R.transpose(x, axes=(1, 0))\nv1 = R.relu(v0)\nx, v1\n",
    "relax.op.add(x, relax.const([1.0, 2.0, 3.0], 'float32'))": 'x: R.Tensor((2, 3), "float32")\n'
    'w0: R.Constant((3,), "float32")\nv0 = R.add(x, w0)\nv0\n',
    "smelt.IRModule.from_expr(y).astext()": "@I.ir_module\nclass Module:\n    @R.function\n"
    '    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((3, 2), "float32"):\n'
    "        v0 = R.transpose(x, axes=(1, 0))\n        v1 = R.relu(v0)\n        return v1\n\n",
    "relax.If(relax.Var('c', relax.TensorStructInfo((), 'bool')), relax.op.exp(x), x)":
    'c: R.Tensor((), "bool")\nx: R.Tensor((2, 3), "float32")\n'
    "if c:\n    v0 = R.exp(x)\nelse:\n    v0 = x\nv0\n",
}  # fmt: skip


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("before", ["", "import smelt.relay"])
def test_calls_are_printed_whatever_was_imported(before: str) -> None:
    program = before + START + "\n".join([f"print({e}, end='\\n--\\n')" for e in TEXTS])
    assert run(program).split("--\n")[:-1] == list(TEXTS.values())


def test_constants_alone_are_printed_without_a_face() -> None:
    assert run(START + "print(relax.const(2.0, 'float32'))") == 'R.const(2.0, "float32")\n'
