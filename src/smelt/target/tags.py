"""Names for machines that people own: `Target("raspberry-pi/4b-aarch64")`.

Numbers of graphics cards are those of NVIDIA's compute capability tables
(developer.nvidia.com/cuda-gpus), under the names of the classic stack; CPUs those of the boards'
data sheets, and of the pages of instance types.
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


def _nvidia(arch: str, registers: int = 65536, **more: Any) -> dict[str, Any]:
    return {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": registers,
        **more,
    }


def _jetson(arch: str, cpu: dict[str, Any], registers: int = 65536) -> dict[str, Any]:
    return {**_nvidia(arch, registers), "host": cpu}


def _metal(cpu: str, threads: int = 1024) -> dict[str, Any]:
    return {
        "kind": "metal", "max_threads_per_block": threads, "thread_warp_size": 32,
        "max_shared_memory_per_block": 32768,
        "host": _cpu("arm64-apple-macos", cpu, 8, "+neon", "+dotprod"),
    }  # fmt: skip


def _micro(cpu: str, march: str, **options: str) -> dict[str, Any]:
    return {"kind": "c", "keys": ("arm_cpu",), "mcpu": cpu, "march": march,
            **{k.replace("_", "-"): v for k, v in options.items()}}  # fmt: skip


_CARDS = {
    "sm_20": """tesla-c2075 tesla-c2050 tesla-c2070 quadro-plex-7000 geforce-gtx-590 geforce-gtx-580
        geforce-gtx-570 geforce-gtx-480 geforce-gtx-470 geforce-gtx-465 geforce-gtx-480m""",
    "sm_21": """nvidia-nvs-315 nvidia-nvs-310 nvs-5400m nvs-5200m nvs-4200m geforce-gtx-560-ti
        geforce-gtx-550-ti geforce-gtx-460 geforce-gts-450 geforce-gt-730-ddr3,128bit
        geforce-gt-640-gddr3 geforce-gt-630 geforce-gt-620 geforce-gt-610 geforce-gt-520
        geforce-gt-440 geforce-gt-430 geforce-820m geforce-800m geforce-gtx-675m geforce-gtx-670m
        geforce-gt-635m geforce-gt-630m geforce-gt-625m geforce-gt-720m geforce-gt-620m geforce-710m
        geforce-705m geforce-610m geforce-gtx-580m geforce-gtx-570m geforce-gtx-560m geforce-gt-555m
        geforce-gt-550m geforce-gt-540m geforce-gt-525m geforce-gt-520mx geforce-gt-520m
        geforce-gtx-485m geforce-gtx-470m geforce-gtx-460m geforce-gt-445m geforce-gt-435m
        geforce-gt-420m geforce-gt-415m geforce-410m""",
    "sm_30": """tesla-k10 quadro-k5000 quadro-k4200 quadro-k4000 quadro-k2000 quadro-k2000d
        quadro-k600 quadro-k420 quadro-410 quadro-k6000m quadro-k5200m quadro-k5100m quadro-k500m
        quadro-k4200m quadro-k4100m quadro-k3100m quadro-k2200m quadro-k2100m quadro-k1100m
        nvidia-nvs-510 geforce-gtx-770 geforce-gtx-760 geforce-gtx-690 geforce-gtx-680
        geforce-gtx-670 geforce-gtx-660-ti geforce-gtx-660 geforce-gtx-650-ti-boost
        geforce-gtx-650-ti geforce-gtx-650 geforce-gt-740 geforce-gtx-880m geforce-gtx-870m
        geforce-gtx-860m-sm-30 geforce-gtx-780m geforce-gtx-770m geforce-gtx-765m geforce-gtx-760m
        geforce-gtx-680mx geforce-gtx-680m geforce-gtx-675mx geforce-gtx-670mx geforce-gtx-660m
        geforce-gt-755m geforce-gt-750m geforce-gt-650m geforce-gt-745m geforce-gt-645m
        geforce-gt-740m geforce-gt-730m geforce-gt-640m geforce-gt-640m-le geforce-gt-735m""",
    "sm_35": """tesla-k40 tesla-k20 quadro-k6000 quadro-k5200 quadro-k610m quadro-k510m
        geforce-gtx-titan-z geforce-gtx-titan-black geforce-gtx-titan geforce-gtx-780-ti
        geforce-gtx-780 geforce-gt-730 geforce-gt-720 geforce-gt-705 geforce-gt-640-gddr5
        geforce-920m""",
    "sm_37": "tesla-k80",
    "sm_50": """quadro-k2200 quadro-k1200 quadro-k620 quadro-m1200 quadro-m520 quadro-m5000m
        quadro-m4000m quadro-m3000m quadro-m2000m quadro-m1000m quadro-k620m quadro-m600m
        quadro-m500m nvidia-nvs-810 geforce-gtx-750-ti geforce-gtx-750 geforce-gtx-960m
        geforce-gtx-950m geforce-940m geforce-930m geforce-gtx-860m-sm-50 geforce-gtx-850m
        geforce-840m geforce-830m""",
    "sm_52": """tesla-m60 tesla-m40 quadro-m6000-24gb quadro-m6000 quadro-m5000 quadro-m4000
        quadro-m2000 quadro-m5500m quadro-m2200 quadro-m620 geforce-gtx-titan-x geforce-gtx-980-ti
        geforce-gtx-980 geforce-gtx-970 geforce-gtx-960 geforce-gtx-950 geforce-gtx-980m
        geforce-gtx-970m geforce-gtx-965m geforce-910m""",
    "sm_60": "tesla-p100 quadro-gp100",
    "sm_61": """tesla-p40 tesla-p4 quadro-p6000 quadro-p5000 quadro-p4000 quadro-p2200 quadro-p2000
        quadro-p1000 quadro-p620 quadro-p600 quadro-p400 p620 p520 quadro-p5200 quadro-p4200
        quadro-p3200 quadro-p3000 quadro-p500 nvidia-titan-xp nvidia-titan-x geforce-gtx-1080-ti
        geforce-gtx-1080 geforce-gtx-1070-ti geforce-gtx-1070 geforce-gtx-1060 geforce-gtx-1050""",
    "sm_70": "nvidia-v100 tesla-v100 quadro-gv100 nvidia-titan-v",
    "sm_75": """nvidia-t4 tesla-t4 quadro-rtx-8000 quadro-rtx-6000 quadro-rtx-5000 quadro-rtx-4000
        rtx-5000 rtx-4000 rtx-3000 t2000 t1000 nvidia-titan-rtx geforce-rtx-2080-ti
        geforce-rtx-2080 geforce-rtx-2070 geforce-rtx-2060""",
    "sm_80": "nvidia-a30",
    "sm_86": """nvidia-a40 nvidia-a10 nvidia-a10g nvidia-a16 nvidia-a2 rtx-a6000
        geforce-rtx-3090-ti geforce-rtx-3090 geforce-rtx-3080-ti geforce-rtx-3080
        geforce-rtx-3070-ti geforce-rtx-3070 geforce-rtx-3060""",
}
"""Graphics cards by what they can."""

_FEW_REGISTERS = ("sm_20", "sm_21")
_C5 = {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "9xlarge": 18, "18xlarge": 36}
_C5_NEWER = {"12xlarge": 24, "24xlarge": 48}

_HARD = {"mfloat_abi": "hard"}

TAGS: dict[str, dict[str, Any]] = {
    "raspberry-pi/3b-aarch32": _arm32("cortex-a53", 4),
    "raspberry-pi/3b-aarch64": _arm64("cortex-a53", 4),
    "raspberry-pi/4b-aarch32": _arm32("cortex-a72", 4),
    "raspberry-pi/4b-aarch64": _arm64("cortex-a72", 4),
    "raspberry-pi/5-aarch64": _arm64("cortex-a76", 4, "+dotprod", "+fullfp16"),
    "raspberry-pi/zero2w-aarch64": _arm64("cortex-a53", 4),
    "raspberry-pi/pico": _micro("cortex-m0plus", "armv6-m"),
    **{f"aws/cpu/c5.{n}": _cpu("x86_64-linux-gnu", "skylake-avx512", c) for n, c in _C5.items()},
    **{f"aws/cpu/c5.{n}": _cpu("x86_64-linux-gnu", "cascadelake", c) for n, c in _C5_NEWER.items()},
    "aws/cpu/c6g.large": _arm64("neoverse-n1", 2),
    "aws/cpu/c7g.large": _arm64("neoverse-v1", 2),
    "aws/gpu/g4dn.xlarge": _nvidia("sm_75"),
    "arm/cortex-m4": _micro("cortex-m4", "armv7e-m", **_HARD, mfpu="fpv4-sp-d16"),
    "arm/cortex-m7": _micro("cortex-m7", "armv7e-m", **_HARD, mfpu="fpv5-d16"),
    "arm/cortex-m33": _micro("cortex-m33", "armv8-m.main", **_HARD, mfpu="fpv5-sp-d16"),
    "arm/cortex-m55": _micro("cortex-m55", "armv8.1-m.main+mve", **_HARD),
    "apple/m1": _cpu("arm64-apple-macos", "apple-m1", 8, "+neon", "+dotprod"),
    "apple/m1-gpu": _metal("apple-m1"),
    "apple/m1-gpu-restricted": _metal("apple-m1", 256),
    "apple/m2-gpu": _metal("apple-m2"),
    "nvidia/jetson-nano": _jetson("sm_53", _arm64("cortex-a57", 4), 32768),
    "nvidia/jetson-tx1": _jetson("sm_53", _arm64("cortex-a57", 4), 32768),
    "nvidia/tegra-x1": _jetson("sm_53", _arm64("cortex-a57", 4), 32768),
    "nvidia/jetson-tx2": _jetson("sm_62", _arm64("cortex-a57", 4), 32768),
    "nvidia/jetson-agx-xavier": _jetson("sm_72", _arm64("carmel", 8)),
    "nvidia/jetson-orin-nano": _jetson("sm_87", _arm64("cortex-a78", 6)),
    "nvidia/jetson-agx-orin": _jetson("sm_87", _arm64("cortex-a78", 12)),
    "nvidia/jetson-agx-orin-32gb": _jetson("sm_87", _arm64("cortex-a78", 8)),
    "nvidia/jetson-agx-orin-64gb": _jetson("sm_87", _arm64("cortex-a78", 12)),
    **{f"nvidia/{name}": _nvidia(arch, 32768 if arch in _FEW_REGISTERS else 65536)
       for arch, names in _CARDS.items() for name in names.split()},
    "nvidia/geforce-rtx-4070-ti": _nvidia("sm_89", l2_cache_size_bytes=75497472),
    "nvidia/geforce-rtx-4090": _nvidia("sm_89", l2_cache_size_bytes=75497472),
    "nvidia/nvidia-a100": _nvidia("sm_80", l2_cache_size_bytes=41943040),
    "nvidia/nvidia-h100": _nvidia("sm_90a", l2_cache_size_bytes=52428800),
    "wasm": {"kind": "llvm", "mtriple": "wasm32-unknown-unknown", "num-cores": 1,
             "mattr": ("+simd128", "+bulk-memory", "+nontrapping-fptoint", "+sign-ext")},
    **{level: {"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": level}
       for level in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")},
    "qualcomm/hexagon-v68": {"kind": "hexagon", "mcpu": "v68"},
}  # fmt: skip
