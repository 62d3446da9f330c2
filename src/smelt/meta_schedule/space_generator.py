"""Generators of spaces: designs, that is schedules with samples left to decide, for a program."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule, Trace

from . import blocks
from .mutator import Mutator
from .postproc import Postproc
from .rules import ScheduleRule
from .schedule_rule import default_rules
from .utils import chosen, function_of, of_kinds

DEFAULT = "from-target"
"""Rules, postprocessors and mutators that the target has."""


class SpaceGenerator:
    """Makes designs.

    sch_rules, postprocs, mutator_probs  "from-target": those of the target; None or empty: none
    """

    def __init__(
        self,
        sch_rules: Sequence[ScheduleRule] | str | None = None,
        postprocs: Sequence[Postproc] | str | None = None,
        mutator_probs: Mapping[Mutator, float] | str | None = None,
    ) -> None:
        """See above. Raises CompileError for what is neither."""
        own = type(self).__name__
        self.own_rules = sch_rules not in (DEFAULT, "llvm")
        self.sch_rules = default_rules() if not self.own_rules else _listed(
            f"{own}: sch_rules", sch_rules, ScheduleRule)  # fmt: skip
        self.postprocs = Postproc.create("llvm") if postprocs in (DEFAULT, "llvm") else _listed(
            f"{own}: postprocs", postprocs, Postproc)  # fmt: skip
        probs = Mutator.create("llvm") if mutator_probs in (DEFAULT, "llvm") else mutator_probs
        legal = "{a Mutator: probability}"
        given = of_kinds(f"{own}: mutator_probs", probs or {}, Mapping, legal)  # type: ignore[type-abstract]
        self.mutator_probs: dict[Mutator, float] = dict(given)

    def initialize_with_tune_context(self, context: Any) -> None:
        """Let the rules, postprocessors and mutators get to know a task."""
        for part in (*self.sch_rules, *self.postprocs, *self.mutator_probs):
            part.initialize_with_tune_context(context)
        own = getattr(self, "_initialize_with_tune_context", None)
        if own is not None:
            own(context)

    def generate_design_space(self, mod: IRModule | PrimFunc) -> list[Schedule]:
        """The designs of a program."""
        raise NotImplementedError(f"{type(self).__name__} has no method generate_design_space")

    def clone(self) -> Self:
        """A copy of its own, so that tasks do not share rules."""
        made = copy.copy(self)
        made.sch_rules = [r.clone() for r in self.sch_rules]
        made.postprocs = [p.clone() for p in self.postprocs]
        made.mutator_probs = {m.clone(): p for m, p in self.mutator_probs.items()}
        return made

    @staticmethod
    def create(kind: Any = "post-order-apply", *args: Any, **keywords: Any) -> SpaceGenerator:
        """A generator by its kind: post-order-apply, union; or a function that schedules."""
        if callable(kind) and not isinstance(kind, str):
            return ScheduleFn(kind, *args, **keywords)
        kinds = {"post-order-apply": PostOrderApply, "union": SpaceGeneratorUnion,
                 "schedule-fn": ScheduleFn}  # fmt: skip
        return chosen("SpaceGenerator.create", kinds, kind, *args, **keywords)


def _listed(who: str, given: Any, kinds: type) -> list[Any]:
    legal = f"'from-target', or a list of {kinds.__name__}s"
    if isinstance(given, str) or not isinstance(given, Sequence | None):
        raise CompileError(f"{who} is {given!r:.60}; legal: {legal}")
    return [of_kinds(who, one, kinds, legal) for one in given or ()]


class PySpaceGenerator(SpaceGenerator):
    """The base of generators of one's own: override `generate_design_space`."""


class PostOrderApply(SpaceGenerator):
    """Applies rules block by block, those that are inside or in front of others first."""

    def __init__(
        self,
        f_block_filter: Callable[[Any], bool] | None = None,
        sch_rules: Sequence[ScheduleRule] | str | None = DEFAULT,
        postprocs: Sequence[Postproc] | str | None = DEFAULT,
        mutator_probs: Mapping[Mutator, float] | str | None = DEFAULT,
    ) -> None:
        """f_block_filter: (block) -> whether rules see it."""
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter

    def generate_design_space(self, mod: IRModule | PrimFunc) -> list[Schedule]:
        """Each rule at each block of each design that the rules before have made."""
        first = Schedule(function_of("PostOrderApply", mod))
        names = [n for n in blocks.post_order(first) if self._seen(first, n)]
        designs = [first]
        for rule in self.sch_rules:
            for name in names:
                designs = [made for sch in designs for made in _applied(rule, sch, name)]
        return designs

    def _seen(self, sch: Schedule, name: str) -> bool:
        if self.f_block_filter is None:
            return True
        return bool(self.f_block_filter(sch.state.realize(name).block))


def _applied(rule: ScheduleRule, sch: Schedule, name: str) -> list[Schedule]:
    """The designs that a rule makes at a block, if that is still there."""
    if blocks.realize(sch, name) is None:
        return [sch]
    made: Any = rule.apply(sch, blocks.block_rv(sch, name))
    if isinstance(made, Schedule):
        made = [made]
    if not isinstance(made, list | tuple) or not all(isinstance(m, Schedule) for m in made):
        raise CompileError(
            f"the rule {type(rule).__name__} gave {made!r:.60} at the block {name}; "
            "legal: a list of schedules, [sch] where it has nothing to say"
        )
    return list(made)


class ScheduleFn(SpaceGenerator):
    """A function that schedules: (sch) -> None, a schedule, or several."""

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: Sequence[ScheduleRule] | str | None = None,
        postprocs: Sequence[Postproc] | str | None = None,
        mutator_probs: Mapping[Mutator, float] | str | None = None,
    ) -> None:
        """sch_fn: changes the schedule that it is given, or returns others."""
        super().__init__(sch_rules, postprocs, mutator_probs)
        if not callable(sch_fn):
            raise CompileError(f"ScheduleFn: {sch_fn!r:.60} is no function; legal: (sch) -> None, "
                               "a schedule, or several")  # fmt: skip
        self.sch_fn = sch_fn

    def generate_design_space(self, mod: IRModule | PrimFunc) -> list[Schedule]:
        """What the function makes of the program."""
        sch = Schedule(function_of("ScheduleFn", mod))
        made = self.sch_fn(sch)
        found = [sch] if made is None else [made] if isinstance(made, Schedule) else made
        if not isinstance(found, list | tuple) or not all(isinstance(s, Schedule) for s in found):
            raise CompileError(f"ScheduleFn: the function gave {made!r:.60}; legal: None, a "
                               "schedule, or a list of schedules")  # fmt: skip
        return list(found)


class SpaceGeneratorUnion(SpaceGenerator):
    """The designs of several generators."""

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: Sequence[ScheduleRule] | str | None = None,
        postprocs: Sequence[Postproc] | str | None = None,
        mutator_probs: Mapping[Mutator, float] | str | None = None,
    ) -> None:
        """space_generators: at least one. Postprocessors and mutators are the union's own."""
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = _listed("SpaceGeneratorUnion", space_generators, SpaceGenerator)
        if not self.space_generators:
            raise CompileError("SpaceGeneratorUnion: no generators; give one at least")

    def initialize_with_tune_context(self, context: Any) -> None:
        """Let all get to know a task."""
        super().initialize_with_tune_context(context)
        for g in self.space_generators:
            g.initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule | PrimFunc) -> list[Schedule]:
        """Those of all, in order."""
        return [s for g in self.space_generators for s in g.generate_design_space(mod)]


def traces(designs: Sequence[Schedule]) -> list[Trace]:
    """The designs as traces, each once."""
    return list({str(t): t for s in designs for t in [s.trace.simplified()]}.values())
