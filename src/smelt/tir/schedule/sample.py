"""Sampling: decisions drawn from the schedule's random numbers, recorded and replayed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from smelt.ir.build import value_of

from .handles import ExprRV, LoopRV
from .primitive import Base, primitive


class SamplePrimitives(Base):
    """sample_perfect_tile, sample_categorical, sample_compute_location, sample_partitioned_tile."""

    @primitive
    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        """One of some numbers; `decision` is its position.

        Before
            for i in range(32):
                with T.block("B"):
                    v = T.axis.spatial(32, i)
                    B[v] = A[v] + 1.0
        Step    split("i", [None, sch.sample_categorical([2, 8], [0.5, 0.5], decision=1)])
        After
            for i_0, i_1 in T.grid(4, 8):
                with T.block("B"):
                    v = T.axis.spatial(32, i_0 * 8 + i_1)
                    B[v] = A[v] + 1.0
        Needs   a probability for each candidate.
        """
        if not candidates or len(candidates) != len(probs):
            self.state.fail(
                f"{len(candidates)} candidates and {len(probs)} probabilities",
                legal="a probability for each candidate, one candidate at least",
            )
        if min(probs) < 0 or sum(probs) <= 0:
            self.state.fail(f"probabilities {list(probs)}", legal="numbers >= 0, not all of them 0")
        if decision is None:
            decision = self.random.choices(range(len(candidates)), probs)[0]
        if not 0 <= decision < len(candidates):
            self.state.fail(
                f"decision {decision} is no position", legal=f"0 to {len(candidates) - 1}"
            )
        self.state.call.args["decision"] = decision
        return ExprRV(candidates[decision])

    @primitive
    def sample_perfect_tile(
        self,
        loop: str,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """Factors that multiply to the extent of a loop, the last at most so large.

        Before
            for i in range(32):
                with T.block("B"):
                    v = T.axis.spatial(32, i)
                    B[v] = A[v] + 1.0
        Step    split("i", sch.sample_perfect_tile("i", 2, decision=[4, 8]))
        After
            for i_0, i_1 in T.grid(4, 8):
                with T.block("B"):
                    v = T.axis.spatial(32, i_0 * 8 + i_1)
                    B[v] = A[v] + 1.0
        Needs   a loop of constant extent.
        """
        extent = self._extent(loop)
        if max_innermost_factor < 1:
            self.state.fail(
                f"no factor is {max_innermost_factor} at most", legal="max_innermost_factor >= 1"
            )
        if decision is None:
            decision = self._tile(extent, n, max_innermost_factor)
        return self._decided(loop, n, decision)

    @primitive
    def sample_partitioned_tile(
        self,
        loop: str,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """A perfect tile; its factors from `partition_pos` on give a multiple of a number.

        Before
            for i in range(32):
                with T.block("B"):
                    v = T.axis.spatial(32, i)
                    B[v] = A[v] + 1.0
        Step    split("i", sch.sample_partitioned_tile("i", 2, 1, 4, decision=[4, 8]))
        After
            for i_0, i_1 in T.grid(4, 8):
                with T.block("B"):
                    v = T.axis.spatial(32, i_0 * 8 + i_1)
                    B[v] = A[v] + 1.0
        Needs   a loop of constant extent, of which the number is a divisor.
        """
        extent = self._extent(loop)
        if not 0 < partition_pos < n or innerpart_factor < 1 or extent % innerpart_factor:
            self.state.fail(
                f"{extent} has no part of {innerpart_factor} at position {partition_pos} of {n}",
                mark={self.state.loop(loop): f"extent {extent}"},
                legal=f"a divisor of {extent}, and a position from 1 to {n - 1}",
            )
        if decision is None:
            inner = self.random.choice([d for d in _divisors(extent) if d % innerpart_factor == 0])
            decision = self._tile(extent // inner, partition_pos, extent) + self._tile(
                inner, n - partition_pos, extent
            )
        factors = self._decided(loop, n, decision)
        if prod(decision[partition_pos:]) % innerpart_factor:
            self.state.fail(
                f"decision {list(decision)} has no multiple of {innerpart_factor} from position "
                f"{partition_pos} on",
                legal=f"factors from there on whose product is a multiple of {innerpart_factor}",
            )
        return factors

    @primitive
    def sample_compute_location(self, block: str, decision: int | None = None) -> LoopRV:
        """A loop of the block's first consumer's nest at which the block may be computed.

        decision  the position of the loop from outside

        Before
            B = T.alloc_buffer((4,))
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
            for i_1 in range(4):
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Step    compute_at("B", sch.sample_compute_location("B", decision=0))
        After
            B = T.alloc_buffer((4,))
            for i_1 in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i_1)
                    B[v] = A[v] + 1.0
                with T.block("C"):
                    v_1 = T.axis.spatial(4, i_1)
                    C[v_1] = B[v_1] * 2.0
        Needs   a block that compute_at can move.
        """
        s, b = self._at(block)
        consumers = s.consumers(b)
        loops = s.loops_above(consumers[0]) if consumers else []
        names = [x.var.name for x in loops]
        legal = [k for k, x in enumerate(names) if self._would_take("compute_at", block, x)]
        if not legal:
            s.fail(
                f"{b.block.name} can be computed at no loop of a consumer",
                legal="a block whose consumers have loops",
            )
        if decision is None:
            decision = self.random.choice(legal)
        if decision not in legal:
            s.fail(f"position {decision} is no legal place for {b.block.name}", legal=str(legal))
        s.call.args["decision"] = decision
        return LoopRV(names[decision])

    def _decided(self, loop: str, n: int, factors: Sequence[int]) -> list[ExprRV]:
        extent = self._extent(loop)
        if len(factors) != n or prod(factors) != extent:
            self.state.fail(
                f"decision {list(factors)} is no factorisation of {extent} in {n}",
                mark={self.state.loop(loop): f"extent {extent}"},
                legal=f"{n} factors whose product is {extent}",
            )
        self.state.call.args["decision"] = list(factors)
        return [ExprRV(f) for f in factors]

    def _extent(self, loop: str) -> int:
        s = self.state
        target = s.loop(loop)
        extent = value_of(target.extent)
        if extent is None:
            s.fail(
                f"the extent of {target.var.name} is not a constant",
                mark={target: "symbolic extent"},
                legal="a loop of constant extent",
            )
        return extent

    def _tile(self, extent: int, n: int, limit: int) -> list[int]:
        """Uniform over the divisors, from the innermost factor outwards."""
        out: list[int] = []
        for k in range(n - 1):
            choices = [d for d in _divisors(extent) if k or d <= limit]
            out.append(self.random.choice(choices))
            extent //= out[-1]
        return [extent, *reversed(out)]


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]
