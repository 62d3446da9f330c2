"""Targets by the classic functions: `smelt.target.arm_cpu("rasp4b")`.

Names of boards are those of the classic stack, what they stand for is in the data sheets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.ir.errors import TargetError
from smelt.runtime.errors import nearest

from .target import Target

Words = str | Sequence[str] | None
"""More options, as in a target string, or as a list of its words."""

_PHONE = "-mtriple=arm64-linux-android -mattr=+neon"
_ARM = {
    "pixel2": f"-model=snapdragon835 {_PHONE}",
    **dict.fromkeys(("mate10", "mate10pro", "p20", "p20pro"), f"-model=kirin970 {_PHONE}"),
    "rasp3b": "-model=bcm2837 -mtriple=armv7l-linux-gnueabihf -mattr=+neon",
    "rasp4b": "-model=bcm2711 -mtriple=armv8l-linux-gnueabihf -mattr=+neon -mcpu=cortex-a72",
    "rasp4b64": "-model=bcm2711 -mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a72",
    "rk3399": "-model=rk3399 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "pynq": "-model=pynq -mtriple=armv7a-linux-eabi -mattr=+neon",
    "ultra96": "-model=ultra96 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "beagleai": "-model=beagleai -mtriple=armv7a-linux-gnueabihf -mattr=+neon,+vfp4,+thumb2 "
                "-mcpu=cortex-a15",
    "stm32mp1": "-model=stm32mp1 -mtriple=armv7a-linux-gnueabihf -mattr=+neon,+vfp4,+thumb2 "
                "-mcpu=cortex-a7",
    "thunderx": "-model=thunderx -mtriple=aarch64-linux-gnu -mattr=+neon,+crc,+lse "
                "-mcpu=thunderxt88",
}  # fmt: skip
_RISCV = {
    "sifive-e31": "-mtriple=riscv32-unknown-linux-gnu -mcpu=sifive-e31 -mabi=ilp32",
    "sifive-e76": "-mtriple=riscv32-unknown-linux-gnu -mcpu=sifive-e76 -mabi=ilp32",
    "sifive-u54": "-mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u54 -mabi=lp64d",
    "sifive-u74": "-mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u74 -mabi=lp64d",
    "licheepi3a": "-mtriple=riscv64-unknown-linux-gnu -mcpu=spacemit-x60 -mabi=lp64d -num-cores=8",
}
_MICRO = {
    "host": "",
    "atsamd51": "-mcpu=cortex-m4",
    "cxd5602gg": "-mcpu=cortex-m4",
    "esp32": "",
    "imxrt10xx": "-mcpu=cortex-m7",
    "mps2_an521": "-mcpu=cortex-m33",
    "mps3_an547": "-mcpu=cortex-m55",
    "nrf52840": "-mcpu=cortex-m4+nodsp",
    "nrf5340dk": "-mcpu=cortex-m33",
    "rp2040": "-mcpu=cortex-m0",
    "sam3x8e": "-mcpu=cortex-m3",
    "stm32f746xx": "-mcpu=cortex-m7 -march=armv7e-m",
    "stm32h7xx": "-mcpu=cortex-m7",
    "stm32l4r5zi": "-mcpu=cortex-m4",
    "stm32u5xx": "-mcpu=cortex-m33",
    "zynq_mp_r5": "-mcpu=cortex-r5",
}
_M4, _M7 = "-mcpu=cortex-m4 -march=armv7e-m", "-mcpu=cortex-m7 -march=armv7e-m"
_STM32 = {
    **dict.fromkeys(("stm32H7xx", "stm32F7xx"), _M7),
    **dict.fromkeys(("stm32F4xx", "stm32L4xx", "stm32G4xx", "stm32WBxx", "stm32F3xx"), _M4),
    "stm32F2xx": "-mcpu=cortex-m3 -march=armv7-m",
    "stm32L5xx": "-mcpu=cortex-m33 -march=armv8-m.main",
    "stm32U5xx": "-mcpu=cortex-m33 -march=armv8-m.main",
}


def _made(start: str, options: Words) -> Target:
    more = options if isinstance(options, str) else " ".join(options or ())
    return Target(f"{start} {more}".strip())


def _known(what: str, table: Mapping[str, str], model: str) -> str:
    if model not in table:
        near = nearest(model, table)
        raise TargetError(f"{what}: unknown model {model!r}{near}; known: {', '.join(table)}")
    return table[model]


def arm_cpu(model: str = "unknown", options: Words = None) -> Target:
    """A board or phone with an ARM processor. A model that is not listed is only a name."""
    known = _ARM.get(model, f"-model={model}")
    return _made(f"llvm -keys=arm_cpu,cpu -device=arm_cpu {known}", options)


def rasp(options: Words = None) -> Target:
    """A Raspberry Pi 3: `arm_cpu("rasp3b")`."""
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: Words = None) -> Target:
    """A RISC-V processor. Raises TargetError for a model that is not listed."""
    known = _known("riscv_cpu", _RISCV, model)
    return _made(f"llvm -keys=arm_cpu,cpu -device=arm_cpu -model={model} {known}", options)


def micro(model: str = "unknown", options: Words = None) -> Target:
    """A microcontroller, as C code. Raises TargetError for a model that is not listed."""
    known = _known("micro", _MICRO, model)
    return _made(f"c -keys=arm_cpu,cpu -model={model} {known}", options)


def stm32(series: str = "unknown", options: Words = None) -> Target:
    """An STM32 by its series, as C code. Raises TargetError for one that is not listed."""
    known = _known("stm32", _STM32, series)
    return _made(f"c -keys=arm_cpu,cpu -device=arm_cpu {known}", options)


def cuda(model: str = "unknown", arch: str | None = None, options: Words = None) -> Target:
    """A graphics card of NVIDIA. arch: its compute capability, e.g. sm_80."""
    return _made(f"cuda -model={model}{f' -arch={arch}' if arch else ''}", options)


def rocm(model: str = "unknown", options: Words = None) -> Target:
    """A graphics card of AMD."""
    return _made(f"rocm -model={model}", options)


def mali(model: str = "unknown", options: Words = None) -> Target:
    """A Mali by OpenCL."""
    return _made(f"opencl -device=mali -model={model}", options)


def bifrost(model: str = "unknown", options: Words = None) -> Target:
    """A Mali of the Bifrost generation by OpenCL."""
    return _made(f"opencl -device=bifrost -model={model}", options)


def adreno(model: str = "unknown", options: Words = None) -> Target:
    """An Adreno by OpenCL."""
    return _made(f"opencl -device=adreno -model={model}", options)


def intel_graphics(model: str = "unknown", options: Words = None) -> Target:
    """Graphics inside of an Intel processor by OpenCL."""
    return _made(f"opencl -device=intel_graphics -model={model} -thread_warp_size=16", options)


def vta(model: str = "unknown", options: Words = None) -> Target:
    """The accelerator VTA."""
    return _made(f"ext_dev -keys=vta,cpu -device=vta -model={model}", options)


def hexagon(cpu_ver: str = "v68", **options: int | str) -> Target:
    """A DSP of Qualcomm. options: those of the kind, with underscores for dashes."""
    made = Target({"kind": "hexagon", "mcpu": cpu_ver})
    return made.with_attrs(**options).with_host(made)
