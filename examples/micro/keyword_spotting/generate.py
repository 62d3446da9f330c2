"""An Arduino sketch and a Zephyr application that spot keywords, from the model of MLPerf Tiny.

python generate.py kws_int8.tflite [FOLDER]
"""

import sys
from pathlib import Path

from smelt.micro import compile_c, export_model_library_format, generate_project

if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)
folder = Path(sys.argv[2] if len(sys.argv) == 3 else ".")

net = compile_c(sys.argv[1], "c -mcpu=cortex-m4", name="keywords")
net.memory.check(ram=256 << 10, flash=1 << 20)  # of a Nano 33 BLE, in bytes
print(f"{net.workspace_bytes} bytes of workspace, {net.constant_bytes} of constants")
export_model_library_format(net, folder / "keywords.tar")

for template, board in (("arduino", "nano33ble"), ("zephyr", "nucleo_l4r5zi")):
    options = {"board": board, "project_type": "example_project"}
    project = generate_project(template, net, folder / f"keywords_{template}", options)
    project.build()
    print(f"keywords_{template}: for {board}")
