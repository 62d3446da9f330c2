"""What is known of the variables of one function (it stands below schedules: the text needs it)."""

from smelt.tir.facts import Box, Facts, conjuncts

__all__ = ["Box", "Facts", "conjuncts"]
