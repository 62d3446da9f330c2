"""Lists of passes as the compiler runs them: what a row of `pipeline.py` says, and the one runner.

A row declares a pass once: its name, its level, what has to hold before it and what holds after it.
Every entry point runs its lists through `run_steps`, so that a PassContext means the same anywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.runtime.errors import nearest

from .errors import CompileError, InternalError, SmeltError, Unsupported
from .transform import PassContext, PassInfo

log = logging.getLogger("smelt.compile")


@dataclass(frozen=True)
class Step:
    """A pass of a list.

    fn       a function from a module (or a program) to another one
    name     by which a PassContext knows it
    why      what it is there for, in a few words
    level    the lowest opt_level at which it runs
    needs    what has to hold before it
    gives    what holds after it
    ends     what need not hold any more after it
    must     why it cannot be left out; "" where it can
    parts    passes that it does in one go, and their levels: it runs where one of them is on
    also     classic names of what it does besides
    asks     whether `fn` takes the names of all that is on as its second argument; so with parts
    always   whether it runs even where it is off, and then does the least
    """

    fn: Callable[..., Any]
    name: str
    why: str
    level: int = 0
    needs: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    must: str = ""
    parts: Mapping[str, int] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    asks: bool = False
    always: bool = False

    @property
    def file(self) -> str:
        """Its name where stages are dumped."""
        return str(getattr(self.fn, "__name__", self.name))

    @property
    def info(self) -> PassInfo:
        """What instruments are told."""
        return PassInfo(self.name, self.level)

    @property
    def names(self) -> dict[str, int]:
        """The names that a PassContext may use for it, with their levels."""
        return {self.name: self.level, **self.parts}


def check_order(steps: Sequence[Step]) -> None:
    """Raise CompileError where a pass of a list comes too early."""
    now: set[str] = set()
    for n, step in enumerate(steps):
        for need in step.needs:
            if need not in now:
                before = ", ".join([s.name for s in steps[:n]]) or "nothing"
                givers = [s.name for s in steps if need in s.gives]
                hint = f"; {' or '.join(givers)} gives it" if givers else ""
                raise CompileError(
                    f"the pass {step.name} needs {need!r} before it{hint}; so far: {before}"
                )
        now = (now - set(step.ends)) | set(step.gives)


def check_names(
    context: PassContext, lists: Sequence[Sequence[Step]], who: str, others: Iterable[str] = ()
) -> None:
    """Refuse names that no pass has, and leaving out what the compiler cannot do without.

    who     the entry point, for messages
    others  further names that the context may use there
    """
    steps = [s for each in lists for s in each]
    known = dict.fromkeys([n for s in steps for n in (*s.names, *s.also)] + list(others))
    for name in (*context.required_pass, *context.disabled_pass):
        if name not in known:
            raise Unsupported(
                f"PassContext: {who} has no pass {name!r}{nearest(name, known)}; "
                f"passes: {', '.join(known)}"
            )
    for s in steps:
        for name in (s.name, *s.also):
            if s.must and name in context.disabled_pass:
                raise Unsupported(f"PassContext: {who} cannot leave out {name}: {s.must}")


def switched_on(steps: Sequence[Step], context: PassContext) -> frozenset[str]:
    """The names of the passes, and parts of passes, that a context asks for."""
    names = {n: level for s in steps for n, level in s.names.items()}
    on = {n for n, level in names.items() if context.enabled(PassInfo(n, level))}
    return frozenset(on | {s.name for s in steps if s.must})


def _runs(step: Step, on: Collection[str]) -> bool:
    """Whether a pass runs where some names are on: one with parts for the sake of these."""
    return step.always or (any(p in on for p in step.parts) if step.parts else step.name in on)


def run_steps(
    steps: Sequence[Step],
    thing: Any,
    context: PassContext,
    observe: Callable[[str, Any], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    who: str = "",
    shown: Callable[[Any], Any] | None = None,
) -> Any:
    """A module after the passes of a list that a context asks for.

    observe   called with the name and the result of every pass that has changed something
    progress  called with the number of passes done, and of all
    who       what the passes work on, for messages
    shown     the module that instruments see, where passes work on something else

    Errors of users pass through; anything else that a pass raises is an InternalError naming it.
    """
    on = switched_on(steps, context)
    active = [s for s in steps if _runs(s, on)]
    for n, step in enumerate(active):
        log.debug("pass %s", step.name)
        if progress is not None:
            progress(n, len(active))
        if context.instruments:
            seen = shown(thing) if shown is not None else thing
            if not context.wanted(seen, step.info) and not (step.must or step.always):
                continue
            context.tell("run_before_pass", seen, step.info)
        try:
            made = step.fn(thing, on) if step.parts or step.asks else step.fn(thing)
        except SmeltError:
            raise
        except Exception as e:
            where = f"{who}: " if who else ""
            raise InternalError(
                f"{where}the pass {step.name} failed: {type(e).__name__}: {e}"
            ) from e
        if context.instruments:
            context.tell("run_after_pass", shown(made) if shown is not None else made, step.info)
        if observe is not None and made is not thing:
            observe(step.file, made)
        thing = made
    if progress is not None:
        progress(len(active), len(active))
    return thing
