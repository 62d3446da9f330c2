"""An Arduino sketch and a Zephyr application that spot keywords, from the model of MLPerf Tiny.

python generate.py kws_int8.tflite [FOLDER]
"""

import sys
from pathlib import Path

from smelt import SmeltError
from smelt.micro import compile_c, export_model_library_format, generate_project

if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)


def generate(model: str, folder: Path) -> None:
    """Everything that is made of a model, in a folder."""
    net = compile_c(model, "c -mcpu=cortex-m4", name="keywords")
    net.memory.check(ram=256 << 10, flash=1 << 20)  # of a Nano 33 BLE, in bytes
    print(f"{net.workspace_bytes} bytes of workspace, {net.constant_bytes} of constants")
    export_model_library_format(net, folder / "keywords.tar")

    for template, board in (("arduino", "nano33ble"), ("zephyr", "nucleo_l4r5zi")):
        options = {"board": board, "project_type": "example_project"}
        project = generate_project(template, net, folder / f"keywords_{template}", options)
        project.build()
        print(f"keywords_{template}: for {board}")


try:
    generate(sys.argv[1], Path(sys.argv[2] if len(sys.argv) == 3 else "."))
except SmeltError as e:  # no such model, or projects that are there already
    sys.exit(f"error: {e}")
