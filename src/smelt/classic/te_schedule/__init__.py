"""Classic schedules: stages that say how each operation is computed, carried out by lowering."""

from .axes import Fuse, Singleton, Split, ThreadAxis, Transform, thread_axis
from .group import GroupStage
from .lower import lower_schedule
from .schedule import Schedule, create_schedule
from .stage import Stage

__all__ = ["Fuse", "GroupStage", "Schedule", "Singleton", "Split", "Stage", "ThreadAxis",
           "Transform", "create_schedule", "lower_schedule", "thread_axis"]  # fmt: skip
