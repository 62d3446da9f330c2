"""Nodes: immutable, slotted objects whose fields are their annotations.

A class that derives from `Node` and lists annotated fields gets `__slots__`, a constructor,
`children()`, `with_children()` and `__match_args__`. Classes declared with `interned=True` are
hash-consed: equal fields give the same object, so that equality is `is`. The others (statements,
Var, Buffer) keep their identity.

Immutability is promised to the type checker (`frozen_default=True`) and costs nothing at run time.
"""

from __future__ import annotations

import inspect
import struct
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import is_, is_not, methodcaller
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

T = TypeVar("T")


def float_key(value: float) -> bytes:
    """The bits of a float: 0.0 and -0.0 differ, a NaN equals itself."""
    return struct.pack("<d", value)


def field_key(value: object) -> object:
    """What stands for a field in the intern table: bools are not ints, floats are their bits."""
    kind = type(value)
    if kind is bool or kind is float:
        return (kind, float_key(value) if kind is float else value)  # type: ignore[arg-type]
    if kind is tuple:
        return tuple(map(field_key, value))  # type: ignore[call-overload]
    return value


@dataclass_transform(frozen_default=True)
class NodeMeta(type):
    """Turns annotations into slots and a constructor."""

    __match_args__: tuple[str, ...]
    interned: bool
    __defaults__: dict[str, Any]

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        interned: bool | None = None,
    ) -> NodeMeta:
        """A class whose fields are slots."""
        own = [f for f, t in namespace.get("__annotations__", {}).items() if not _is_class_var(t)]
        defaults = {f: namespace.pop(f) for f in own if f in namespace}
        namespace["__slots__"] = (*own, *namespace.pop("__extra_slots__", ()))
        parents = [b for b in bases if isinstance(b, NodeMeta)]
        namespace["__match_args__"] = (*[f for b in parents for f in b.__match_args__], *own)
        namespace["__defaults__"] = {k: v for b in parents for k, v in b.__defaults__.items()}
        namespace["__defaults__"] |= defaults
        if interned is not None:
            namespace["interned"] = interned
        cls = super().__new__(mcs, name, bases, namespace)
        _NODE_NAMES.add(name)
        if cls.__match_args__ or interned is not None:
            _generate(cls)
        return cls


def _is_class_var(annotation: object) -> bool:
    return "ClassVar" in str(annotation)


def _generate(cls: NodeMeta) -> None:
    """Write `__new__` of one class as source: about four times faster than a generic one."""
    fields = cls.__match_args__
    annotations = {
        f: str(t) for c in reversed(cls.__mro__) for f, t in inspect.get_annotations(c).items()
    }
    params = ", ".join(f"{f}=_d_{f}" if f in cls.__defaults__ else f for f in fields)
    lines = [f"def __new__(cls{', ' + params if params else ''}):"]
    scope: dict[str, Any] = {f"_d_{f}": d for f, d in cls.__defaults__.items()}
    scope.update(_key=field_key, ref=weakref.ref, object_new=object.__new__)
    if cls.interned:
        pool: dict[Any, weakref.ref[Any]] = {}
        scope["pool"] = pool
        plain = {"Expr", "Var", "Buffer", "Expr | None", "str"}
        keys = [f if annotations.get(f) in plain else f"_key({f})" for f in fields]
        lines += [
            f"    key = ({''.join(k + ', ' for k in keys)})",
            "    entry = pool.get(key)",
            "    if entry is not None:",
            "        self = entry()",
            "        if self is not None:",
            "            return self",
        ]
    lines += ["    self = object_new(cls)"]
    lines += [f"    self.{f} = {f}" for f in fields]
    lines += ["    self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    if cls.interned:
        scope.update(partial=partial, drop=_drop)
        lines += ["    pool[key] = ref(self, partial(drop, pool, key))"]
    lines += ["    return self"]
    exec("\n".join(lines), scope)
    type.__setattr__(cls, "__new__", scope["__new__"])
    _generate_walks(cls, annotations)


_PLAIN = frozenset(
    {"str", "int", "float", "bool", "tuple[int, ...]", "tuple[str, ...]", "Mapping[str, Any]"}
)
_NODE_NAMES: set[str] = set()
"""The node classes there are, as annotations name them."""


def _generate_walks(cls: NodeMeta, annotations: Mapping[str, str]) -> None:
    """Write `children` and `with_children` of a class: most of the time of most passes is theirs.

    Where a field is something else than a node, a tuple of nodes or plain data, they look at it.
    """
    found, made, same = "", "", "True"
    for f in cls.__match_args__:
        kind = annotations[f]
        if kind in _PLAIN:
            made += f"    new_{f} = self.{f}\n"
            continue
        if kind in _NODE_NAMES:
            found += f"self.{f}, "
            made += f"    new_{f} = fn(self.{f})\n"
        elif kind.removesuffix(" | None") in _NODE_NAMES:
            found += f"*(() if self.{f} is None else (self.{f},)), "
            made += f"    new_{f} = None if self.{f} is None else fn(self.{f})\n"
        elif _NODE_NAMES.issuperset(_items(kind)):
            found += f"*self.{f}, "
            made += f"    new_{f} = map_all(self.{f}, fn)\n"
        elif {"None", *_NODE_NAMES}.issuperset(_items(kind)):
            found += f"*[c for c in self.{f} if c is not None], "
            made += f"    new_{f} = map_all(self.{f}, fn)\n"
        else:
            found += f"*_nodes(self.{f}), "
            made += f"    new_{f} = map_nodes(self.{f}, fn)\n"
        same += f" and new_{f} is self.{f}"
    source = f"def children(self):\n    return ({found})\n"
    source += f"def with_children(self, fn):\n{made}    if {same}:\n        return self\n"
    source += f"    return type(self)({', '.join([f'new_{f}' for f in cls.__match_args__])})\n"
    scope: dict[str, Any] = {"map_nodes": map_nodes, "map_all": map_all, "_nodes": _nodes}
    exec(source, scope)
    for name in ("children", "with_children"):
        type.__setattr__(cls, name, scope[name])


def _items(kind: str) -> list[str]:
    """What the items of a field are that is a tuple: the alternatives of its annotation."""
    inner = kind.removeprefix("tuple[").removesuffix(", ...]")
    return [kind] if inner == kind else inner.split(" | ")


def _drop(pool: dict[Any, Any], key: Any, dead: Any) -> None:
    """A dead entry leaves the pool, unless a newer node has taken the place meanwhile."""
    if pool.get(key) is dead:
        del pool[key]


class Node(metaclass=NodeMeta):
    """The base of every node of every level."""

    __extra_slots__: ClassVar[tuple[str, ...]] = ("__weakref__",)
    interned: ClassVar[bool] = False
    part: ClassVar[bool] = False
    """Whether it belongs to the expression that it stands in, as an axis of a reduction does."""
    __match_args__: ClassVar[tuple[str, ...]]
    __defaults__: ClassVar[dict[str, Any]]

    def children(self) -> Iterable[Node]:
        """The nodes in the fields, tuples opened, in field order."""
        return ()

    def with_children(self, fn: Callable[[Any], Any]) -> Self:
        """This node with `fn` applied to each child; the same object where nothing changed."""
        return self

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(
            *[changes.pop(f) if f in changes else getattr(self, f) for f in self.__match_args__]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(getattr(self, f) for f in self.__match_args__))

    def __repr__(self) -> str:
        shown = ", ".join([repr(getattr(self, f)) for f in self.__match_args__])
        return f"{type(self).__name__}({shown})"


_CONTAINERS = (dict, list, tuple)


def _nodes(value: Any) -> Iterable[Node]:
    if type(value) not in _CONTAINERS:
        return (value,) if isinstance(value, Node) else ()
    return [n for v in (value.values() if type(value) is dict else value) for n in _nodes(v)]


def map_nodes(value: Any, fn: Callable[[Any], Any]) -> Any:
    """Plain data with `fn` applied to each node in it; the same object where nothing changed."""
    kind = type(value)
    if kind not in _CONTAINERS:
        return fn(value) if isinstance(value, Node) else value
    old = value.values() if kind is dict else value
    new = [map_nodes(v, fn) for v in old]
    if all(map(is_, new, old)):
        return value
    return kind(zip(value, new, strict=True) if kind is dict else new)


def map_all(value: tuple[Any, ...], fn: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A tuple with `fn` applied to each item that is not None; the same where nothing changed."""
    new = tuple([None if v is None else fn(v) for v in value])
    return new if any(map(is_not, new, value)) else value


def postorder(root: Node) -> Iterator[Node]:
    """Every node below `root` once, children before parents, without recursion."""
    return ordered((root,), methodcaller("children"))


def reachable(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """What follows from some objects, directly or not, each once; starts only where it leads back.

    following  what follows from an object directly
    """
    seen: set[T] = set()
    stack = list(starts)
    while stack:
        for x in following(stack.pop()):
            if x not in seen:
                seen.add(x)
                stack.append(x)
                yield x


def ordered(roots: Iterable[T], parts: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """The roots and everything below them once, parts before wholes, without recursion.

    parts  what an object is made of directly
    """
    seen: set[int] = set()
    stack: list[Any] = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is _DONE:  # what stands below has all its parts behind it
            yield stack.pop()
        elif id(node) not in seen:
            seen.add(id(node))
            below: list[Any] = list(parts(node))
            if below:
                below.reverse()
                stack += (node, _DONE, *below)
            else:  # half of all values are leaves
                yield node


_DONE = object()
"""Lies on the stack of `ordered` above what is given next."""
