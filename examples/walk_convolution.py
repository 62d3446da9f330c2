"""One padded 3x3 convolution with bias and relu through every stage of the compiler.

    python examples/walk_convolution.py             print the stages
    python examples/walk_convolution.py --update    bring docs/walk.md up to date

The document has a block of text after each line `<!-- stage: NAME -->`; `NAME 1-20` takes some
lines only.
"""

import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import smelt

PAGE = Path(__file__).resolve().parent.parent / "docs" / "walk.md"
BLOCK = re.compile(r"<!-- stage: (\w+)(?: (\d+)-(\d+))? -->\n\n```text\n.*?^```\n", re.S | re.M)
WIDTH = 240


def model() -> onnx.ModelProto:
    """y = relu(conv(x, w) + b): two channels in, four out, images of 4 x 8."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 2, 3, 3)).astype(np.float32)
    b = rng.standard_normal(4).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], "relu"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 8])
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    graph = helper.make_graph(nodes, "walk", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def stages() -> dict[str, str]:
    """The text of every stage that changed something, by name, in order."""
    with tempfile.TemporaryDirectory() as folder:
        options = smelt.Options(dump_dir=folder, threads=1, workers=0)
        smelt.compile(model(), target="llvm -mcpu=x86-64-v3", options=options)
        files = [*sorted(Path(folder).glob("*_*.txt")), *sorted(Path(folder).glob("*conv*/*.txt"))]
        files.append(Path(folder, "host.txt"))
        texts: dict[str, str] = {}
        for file in files:
            name = re.sub(r"^\d+_", "", file.stem)
            texts[name if name not in texts else f"{name}_again"] = file.read_text()
    symbol = re.compile(r"\bk[0-9a-f]{24}\b")
    own = symbol.findall(texts["tir"])[0]
    return {
        name: symbol.sub("copy", text.replace(own, "conv_kernel")) for name, text in texts.items()
    }


def refreshed(page: str, texts: dict[str, str]) -> str:
    """A page whose blocks hold the stages as they are now."""

    def block(found: re.Match[str]) -> str:
        name, first, last = found.groups()
        if name not in texts:
            raise SystemExit(f"the compiler has no stage {name}; stages: {', '.join(texts)}")
        lines = texts[name].rstrip("\n").split("\n")
        wanted = lines if first is None else lines[int(first) - 1 : int(last)]
        wanted = [x if len(x) <= WIDTH else x[: WIDTH - 4] + " ..." for x in wanted]
        rest = len(lines) - len(wanted)
        wanted += [f"... {rest} more lines"] * bool(rest)
        head = found.group().split("\n", 1)[0]
        return "\n".join([head, "", "```text", *wanted, "```", ""])

    return BLOCK.sub(block, page)


def main() -> None:
    """Print the stages, or put them into the document."""
    texts = stages()
    if "--update" in sys.argv[1:]:
        PAGE.write_text(refreshed(PAGE.read_text(), texts))
        return
    for name, text in texts.items():
        print(f"==== {name}\n\n{text}")


if __name__ == "__main__":
    main()
