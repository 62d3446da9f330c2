"""Every case through the interpreter, and one of each operator compiled, many in one program."""

from __future__ import annotations

import pytest

from smelt.relax.interpret import interpret

from .cases_more import CASES as MORE
from .cases_moves import CASES as MOVES
from .cases_plain import CASES as PLAIN
from .support import TOGETHER, Case, check_compiled, first_of_each

CASES = [*MOVES, *PLAIN, *MORE]
EACH = first_of_each(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_interpreter_is_right(case: Case) -> None:
    case.check(interpret(case.function(), *case.inputs))


@pytest.mark.parametrize("start", range(0, len(EACH), TOGETHER))
def test_compiled_operators_are_right(start: int) -> None:
    check_compiled(EACH[start : start + TOGETHER])
