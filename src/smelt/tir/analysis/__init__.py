"""What can be said of a tensor program: proofs, counts, and what shows when it runs."""

from smelt.ir.tables import names_above

from .examples import example_arguments
from .footprint import Footprint, Level, Touched, footprint
from .parallel import Verdict, check_races, parallel_verdict, verify_parallel
from .races import Race, find_races

__getattr__ = names_above(__name__, {
    **dict.fromkeys(("Counts", "calculate_allocated_bytes", "count_nodes", "estimate_flops",
                     "is_pure", "is_pure_function"), "smelt.classic.counts"),
    **dict.fromkeys(("gpu_code_violations", "verify_gpu_code", "verify_memory"),
                    "smelt.classic.device"),
    **dict.fromkeys(("detect_buffer_access_lca", "get_block_access_region", "undefined_buffers",
                     "undefined_vars", "verify_ssa", "verify_well_formed"), "smelt.classic.scopes"),
})  # fmt: skip
"""Classic questions that nothing here asks; they stand in a room above."""

__all__ = ["Counts", "Footprint", "Level", "Race", "Touched", "Verdict",
           "calculate_allocated_bytes", "check_races", "count_nodes", "detect_buffer_access_lca",
           "estimate_flops", "example_arguments", "find_races", "footprint",
           "get_block_access_region", "gpu_code_violations", "is_pure", "is_pure_function",
           "parallel_verdict", "undefined_buffers", "undefined_vars", "verify_gpu_code",
           "verify_memory", "verify_parallel", "verify_ssa", "verify_well_formed"]  # fmt: skip
