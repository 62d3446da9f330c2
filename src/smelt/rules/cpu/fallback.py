"""What no other rule fits: every block in loops of its own, parallel and vectorised where legal."""

from __future__ import annotations

from smelt.ir.errors import ScheduleError
from smelt.target import Hardware
from smelt.tir.schedule import Schedule

from .analysis import block_info
from .elementwise import inline_blocks, nest_of, schedule_nest, share_out

__all__ = ["schedule_fallback"]


def schedule_fallback(sch: Schedule, hardware: Hardware) -> bool:
    """Inline what can be, then schedule block by block."""
    inline_blocks(sch)
    for b in sch.get_child_blocks("root"):
        if block_info(sch, b).is_reduction or not schedule_nest(sch, b, hardware):
            _parallel_only(sch, b, hardware)
    return True


def _parallel_only(sch: Schedule, name: str, hardware: Hardware) -> None:
    nest = nest_of(sch, name)
    if nest is None:
        return
    try:
        share_out(sch, [a.loop for a in nest.spatial], nest.cost(), hardware)
    except ScheduleError:
        return
