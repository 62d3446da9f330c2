"""The registry of pattern tables, under its classic name."""

from smelt.relax.dpl import get_pattern_table, register_pattern_table
from smelt.relax.transform import register_op_predicate as register_external_op_helper

__all__ = ["get_pattern_table", "register_external_op_helper", "register_pattern_table"]
