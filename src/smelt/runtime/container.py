"""Values of the virtual machine that are no tensors: data of algebraic types, tuples, closures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class ADT:
    """A value of an algebraic data type: which constructor made it, and the fields.

    tag   the constructor's number in its data type; 0 for a tuple
    name  the constructor's name, where it is known; "" for a tuple
    """

    __slots__ = ("fields", "name", "tag")

    def __init__(self, tag: int, fields: Sequence[Any], name: str = "") -> None:
        """Put values together."""
        self.tag, self.fields, self.name = tag, tuple(fields), name

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Any:
        if not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"field {index} of a value with {len(self.fields)} fields")
        return self.fields[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)

    def __repr__(self) -> str:
        """Constructor and number of fields: a list may be too long to show."""
        return f"ADT({self.name or 'tuple'}, tag={self.tag}, {len(self.fields)} fields)"


class Closure:
    """A function of a program with the values around it. Only the program can call it.

    function  the function's number
    captured  the values, which are its first operands
    program   whose function it is
    """

    __slots__ = ("captured", "function", "program")

    def __init__(self, function: int, captured: tuple[Any, ...], program: object) -> None:
        """For the virtual machine."""
        self.function, self.captured, self.program = function, captured, program

    def __repr__(self) -> str:
        return f"Closure(function {self.function}, {len(self.captured)} captured values)"


def tuple_object(fields: Sequence[Any]) -> ADT:
    """A tuple as an object."""
    return ADT(0, fields)
