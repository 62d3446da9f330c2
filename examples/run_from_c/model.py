"""Exports a small model for C: net.so, and net.h, which declares what is in it.

python model.py
"""

import onnx.parser

import smelt

NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[rows, 4] x) => (float[rows, 3] y)
<float[4, 3] w = {0.5, 0.0, 0.1, 0.4, 0.1, 0.2, 0.3, 0.2, 0.3, 0.2, 0.3, 0.4}> {
    a = MatMul(x, w)
    y = Softmax(a)
}"""


def main() -> None:
    """Compile, and write the library and its header."""
    exe = smelt.compile(onnx.parser.parse_model(NET))
    exe.export_library("net.so", header=True)
    print("net.so, net.h:", *exe.inputs, "->", *exe.outputs)


if __name__ == "__main__":
    main()
