"""What of a model is not supported: all of it in one error."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.errors import Unsupported
from smelt.ir.types import tensor_type
from smelt.relax import nodes as relax

from .graph import ModelNode
from .values import Value


class NeedsValues(Unsupported):
    """The graph's structure depends on values of inputs: it can be imported with these given.

    inputs  their names
    shapes  inputs of which the shape is enough
    """

    def __init__(self, message: str, inputs: Sequence[str], shapes: Sequence[str] = ()) -> None:
        """Name the inputs."""
        super().__init__(message)
        self.inputs, self.shapes = tuple(inputs), tuple(shapes)


class Missing(Value):
    """A result that no converter makes; an error where it is used."""

    __slots__ = ()

    def __init__(self, message: str) -> None:
        """Say what is missing."""
        super().__init__(tensor_type((), "bool"), None, None, message)

    @property
    def expr(self) -> relax.RelaxExpr:
        """None: this is the error."""
        raise Unsupported(self.name)


class Lost(Value):
    """A result that could not be imported; nodes that need it are passed over."""

    __slots__ = ()

    def __init__(self) -> None:
        """Of no type that matters."""
        super().__init__(tensor_type((), "bool"))


class Problems:
    """What is not supported, collected over the walk."""

    def __init__(self, model: str) -> None:
        """None yet."""
        self.model = model
        self.missing: dict[str, list[ModelNode]] = {}
        self.raised: list[tuple[ModelNode, str, Unsupported]] = []
        self._steps: set[int] = set()

    def unknown(self, label: str, step: ModelNode) -> None:
        """Note a node of an operator that nothing knows."""
        self.missing.setdefault(label, []).append(step)
        self._steps.add(id(step))

    def add(self, step: ModelNode, label: str, error: Unsupported) -> None:
        """Note an error of a node."""
        self.raised.append((step, label, error))

    def has(self, step: ModelNode) -> bool:
        """Whether a node is of an operator that nothing knows."""
        return id(step) in self._steps

    def check(self) -> None:
        """Raise one error for everything noted."""
        if not self.missing and len(self.raised) == 1:
            raise self.raised[0][2]
        if not self.missing and not self.raised:
            return
        needed = [e for _, _, e in self.raised if isinstance(e, NeedsValues)]
        if len(needed) == len(self.raised) and not self.missing:
            inputs = dict.fromkeys([i for e in needed for i in e.inputs])
            shapes = dict.fromkeys([i for e in needed for i in e.shapes])
            raise NeedsValues(str(needed[0]), list(inputs), list(shapes))
        count = len(self.missing) + len(self.by_reason())
        what = "operator" if not self.raised else "thing"
        raise Unsupported(
            f"{self.model}: {count} {what}{'s' * (count > 1)} not supported\n"
            + "\n".join(self.lines())
        )

    def by_reason(self) -> dict[tuple[str, str], list[ModelNode]]:
        """The nodes by operator and what is wrong."""
        found: dict[tuple[str, str], list[ModelNode]] = {}
        for step, label, e in self.raised:
            found.setdefault((label, reason_of(e)), []).append(step)
        return found

    def lines(self) -> list[str]:
        """Each thing with how often it stands in the model, and where."""
        lines = [f"  {label}: {_nodes(steps)}" for label, steps in sorted(self.missing.items())]
        for (label, reason), steps in sorted(self.by_reason().items()):
            text = reason.replace("\n", "\n  ")
            lines.append(f"  {label}: {_nodes(steps)}: {text}")
        own = [s[0] for s in self.missing.values() if s[0].domain]
        if own:
            name = f"{own[0].domain}.{own[0].op}"
            lines.append(f"  operators of your own: smelt.compile(operators={{{name!r}: ...}})")
        return lines


def reason_of(e: Unsupported) -> str:
    """An error's text without the node at its head."""
    head, found, rest = str(e).partition("): ")
    return rest if found and "node " in head else str(e)


def _nodes(steps: list[ModelNode]) -> str:
    """How many nodes there are, and the names of some."""
    names = ", ".join([repr(s.label) for s in steps[:5]]) + (", ..." if len(steps) > 5 else "")
    return f"{len(steps)} node{'s' * (len(steps) > 1)} ({names})"
