"""Names for machines that people own: `Target("raspberry-pi/4b-aarch64")`.

Numbers of graphics cards are those of NVIDIA's compute capability tables; CPUs those of the
boards' data sheets.
"""

from __future__ import annotations

from typing import Any


def _cpu(triple: str, cpu: str, cores: int, *features: str, device: str = "") -> dict[str, Any]:
    made = {"kind": "llvm", "mtriple": triple, "mcpu": cpu, "num-cores": cores, "mattr": features}
    return {k: v for k, v in {**made, "device": device}.items() if v}


def _arm64(cpu: str, cores: int, *features: str) -> dict[str, Any]:
    return _cpu("aarch64-linux-gnu", cpu, cores, "+neon", *features, device="arm_cpu")


def _arm32(cpu: str, cores: int) -> dict[str, Any]:
    made = _cpu("armv7l-linux-gnueabihf", cpu, cores, "+neon", device="arm_cpu")
    return {**made, "mfloat-abi": "hard"}


def _nvidia(arch: str, shared: int = 49152, registers: int = 65536) -> dict[str, Any]:
    return {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": shared,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": registers,
    }


def _jetson(arch: str, cpu: dict[str, Any], registers: int = 65536) -> dict[str, Any]:
    return {**_nvidia(arch, registers=registers), "host": cpu}


def _micro(cpu: str, march: str, **options: str) -> dict[str, Any]:
    return {"kind": "c", "keys": ("arm_cpu",), "mcpu": cpu, "march": march,
            **{k.replace("_", "-"): v for k, v in options.items()}}  # fmt: skip


_HARD = {"mfloat_abi": "hard"}

TAGS: dict[str, dict[str, Any]] = {
    "raspberry-pi/3b-aarch32": _arm32("cortex-a53", 4),
    "raspberry-pi/3b-aarch64": _arm64("cortex-a53", 4),
    "raspberry-pi/4b-aarch32": _arm32("cortex-a72", 4),
    "raspberry-pi/4b-aarch64": _arm64("cortex-a72", 4),
    "raspberry-pi/5-aarch64": _arm64("cortex-a76", 4, "+dotprod", "+fullfp16"),
    "raspberry-pi/zero2w-aarch64": _arm64("cortex-a53", 4),
    "raspberry-pi/pico": _micro("cortex-m0plus", "armv6-m"),
    "aws/cpu/c5.large": _cpu("x86_64-linux-gnu", "skylake-avx512", 1),
    "aws/cpu/c5.9xlarge": _cpu("x86_64-linux-gnu", "skylake-avx512", 18),
    "aws/cpu/c6g.large": _arm64("neoverse-n1", 2),
    "aws/cpu/c7g.large": _arm64("neoverse-v1", 2),
    "aws/gpu/g4dn.xlarge": _nvidia("sm_75"),
    "arm/cortex-m4": _micro("cortex-m4", "armv7e-m", **_HARD, mfpu="fpv4-sp-d16"),
    "arm/cortex-m7": _micro("cortex-m7", "armv7e-m", **_HARD, mfpu="fpv5-d16"),
    "arm/cortex-m33": _micro("cortex-m33", "armv8-m.main", **_HARD, mfpu="fpv5-sp-d16"),
    "arm/cortex-m55": _micro("cortex-m55", "armv8.1-m.main+mve", **_HARD),
    "apple/m1": _cpu("arm64-apple-macos", "apple-m1", 8, "+neon", "+dotprod"),
    "apple/m1-gpu": {
        "kind": "metal", "max_threads_per_block": 1024, "thread_warp_size": 32,
        "max_shared_memory_per_block": 32768,
        "host": _cpu("arm64-apple-macos", "apple-m1", 8, "+neon", "+dotprod"),
    },
    "nvidia/jetson-nano": _jetson("sm_53", _arm64("cortex-a57", 4), registers=32768),
    "nvidia/jetson-tx2": _jetson("sm_62", _arm64("cortex-a57", 4), registers=32768),
    "nvidia/jetson-agx-xavier": _jetson("sm_72", _arm64("carmel", 8)),
    "nvidia/jetson-agx-orin": _jetson("sm_87", _arm64("cortex-a78", 12)),
    "nvidia/geforce-gtx-1080-ti": _nvidia("sm_61"),
    "nvidia/geforce-rtx-2080-ti": _nvidia("sm_75"),
    "nvidia/geforce-rtx-3090": _nvidia("sm_86"),
    "nvidia/geforce-rtx-4090": _nvidia("sm_89"),
    "nvidia/tesla-t4": _nvidia("sm_75"),
    "nvidia/tesla-v100": _nvidia("sm_70"),
    "nvidia/nvidia-a100": _nvidia("sm_80"),
    "nvidia/nvidia-h100": _nvidia("sm_90a"),
    "qualcomm/hexagon-v68": {"kind": "hexagon", "mcpu": "v68"},
}  # fmt: skip
