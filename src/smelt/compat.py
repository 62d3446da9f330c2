"""smelt under the classic name: programs of the classic stack run without a changed line.

    import smelt.compat
    smelt.compat.as_tvm()
    import tvm                      # this is smelt
    from tvm import relay

`python -m smelt.compat program.py arguments...` runs a program that way.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType

import smelt
from smelt.ir.absent import is_absent, refuse_module

CLASSIC = "tvm"

_TUNING = {
    "builder": "builder local_builder",
    "cost_model": "cost_model mlp_model random_model xgb_model",
    "database": "database json_database memory_database union_database ordered_union_database "
    "schedule_fn_database",
    "feature_extractor": "feature_extractor per_store_feature random_feature_extractor",
    "measure_callback": "add_to_database measure_callback update_cost_model remove_build_artifact",
    "mutator": "mutator mutate_compute_location mutate_parallel mutate_thread_binding "
    "mutate_tile_size mutate_unroll",
    "postproc": "postproc disallow_dynamic_loop rewrite_layout rewrite_parallel_vectorize_unroll "
    "rewrite_reduction_block rewrite_tensorize verify_gpu_code",
    "runner": "config local_runner rpc_runner runner",
    "schedule_rule": "add_rfactor apply_custom_rule auto_bind auto_inline cross_thread_reduction "
    "multi_level_tiling parallel_vectorize_unroll random_compute_location schedule_rule",
    "search_strategy": "evolutionary_search replay_func replay_trace search_strategy",
    "space_generator": "post_order_apply schedule_fn space_generator space_generator_union",
    "task_scheduler": "gradient_based round_robin task_scheduler",
}
"""The modules of meta_schedule's packages, each of which is one module here."""

PLACES = {
    "_ffi": "runtime.packed",
    "arith.int_set": "arith",
    "arith.iter_affine_map": "arith",
    "arith.pattern": "arith",
    "autotvm.measure.measure": "autotvm.measure",
    "autotvm.measure.measure_methods": "autotvm.measure",
    "autotvm.task.dispatcher": "autotvm.dispatcher",
    "autotvm.task.relay_integration": "autotvm.kernels",
    "autotvm.task.space": "autotvm.space",
    "autotvm.task.task": "autotvm.templates",
    "autotvm.tuner.callback": "autotvm.callback",
    **dict.fromkeys(
        [f"autotvm.tuner.{t}_tuner" for t in ("droplet", "ga", "index_based", "xgboost")],
        "autotvm.tuner",
    ),
    "contrib.debugger": "contrib",
    "contrib.debugger.debug_runtime": "contrib.debug_executor",
    "contrib.graph_runtime": "contrib.graph_executor",
    "error": "ir.errors",
    "ir.op": "ir",
    **dict.fromkeys(("tir.usmp", "tir.usmp.utils"), "ir.memory_pools"),
    "ir.tensor_type": "ir",
    "ir.type": "ir",
    **{
        f"meta_schedule.{room}.{name}": f"meta_schedule.{room}"
        for room, names in _TUNING.items()
        for name in names.split()
    },
    "micro.build": "micro.project",
    "parser": "relay.parser",
    "relay.backend.executor_factory": "relay.factory",
    "relay.backend.interpreter": "relay.executor",
    "relay.backend.vm": "relay.vm",
    "relay.frontend.onnx": "relay.frontend",
    "relay.frontend.pytorch": "relay.frontend",
    "relay.frontend.tflite": "relay.frontend",
    "relay.function": "relay.expr",
    "relay.param_dict": "runtime.params",
    "te.operation": "te",
    "te.schedule": "classic.te_schedule",
    "te.tensor_intrin": "classic.tensor_intrin",
    "tir.expr": "tir",
    "tir.function": "tir",
    "tir.generic": "tir.op",
    "tir.stmt": "tir",
}
"""Modules that are called otherwise here, or whose names stand in another one."""


def _ours(plain: str) -> str:
    """Where a module of the classic stack is: the longest part that is called otherwise counts."""
    for known in sorted(PLACES, key=len, reverse=True):
        if plain == known or plain.startswith(known + "."):
            return PLACES[known] + plain.removeprefix(known)
    return plain


class _Loader(importlib.abc.Loader):
    """Gives smelt's module for a classic name: one module under two names."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        made = importlib.import_module(self.name)
        self.spec = made.__spec__
        return made

    def exec_module(self, module: ModuleType) -> None:
        # The import system has set the classic name's spec; the module keeps its own.
        module.__spec__ = self.spec


class _Finder(importlib.abc.MetaPathFinder):
    """Finds smelt.a.b where tvm.a.b is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """None where smelt has no such module: Python then says that there is none."""
        if fullname != CLASSIC and not fullname.startswith(CLASSIC + "."):
            return None
        plain = fullname.removeprefix(CLASSIC).removeprefix(".")
        if is_absent(plain):
            refuse_module(plain)
        ours = f"smelt.{_ours(plain)}".removesuffix(".")
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        if found is None:
            return None
        inside = any(p.startswith(plain + ".") for p in PLACES)
        package = found.submodule_search_locations is not None or inside
        return importlib.machinery.ModuleSpec(fullname, _Loader(ours), is_package=package)


def as_tvm() -> None:
    """Let `import tvm` give smelt, in this process. Refused where another tvm is loaded already."""
    loaded = sys.modules.get(CLASSIC)
    if loaded is not None and loaded is not smelt:
        place = getattr(loaded, "__file__", "no file")
        raise ImportError(
            f"{CLASSIC} is imported already, from {place}; call smelt.compat.as_tvm() first"
        )
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules[CLASSIC] = smelt


def main(arguments: Sequence[str]) -> None:
    """Run a program of the classic stack."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m smelt.compat program.py [arguments]\n\n"
              "Runs a program in which `import tvm` gives smelt.")  # fmt: skip
        return
    as_tvm()
    sys.argv = list(arguments)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
