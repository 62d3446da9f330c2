"""NDArray: an array in aligned memory that models can read and write in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from smelt.runtime.device import Device, cpu, present
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import InputError, RuntimeFailure
from smelt.runtime.native import library
from smelt.runtime.remote import RemoteDevice

AnyArray = npt.NDArray[Any]


class Spares(list[int]):
    """Addresses of blocks of one size, kept for the next call: warm memory, no page faults."""

    __slots__ = ()
    limit = 2

    def __del__(self) -> None:
        """Gives the blocks back to the system."""
        for address in self:
            library().smelt_free(address)


def _keep(array: AnyArray, address: int) -> None:
    """Nothing to be done: the memory is the array's."""


class Memory:
    """A block of at least `size` bytes, aligned to 64."""

    __slots__ = ("_free", "_spares", "address", "size")

    def __init__(self, size: int, spares: Spares | None = None) -> None:
        """Takes a spare block where there is one."""
        lib = library()
        self._free = lib.smelt_free
        self._spares = spares
        self.size = size
        try:
            # Without a check before: another thread may take the last one.
            self.address: int = spares.pop()  # type: ignore[union-attr]
        except (IndexError, AttributeError):
            self.address = lib.smelt_alloc(size)
            if not self.address:
                raise RuntimeFailure(f"no memory for {size} bytes") from None

    @classmethod
    def adopted(cls, address: int) -> Memory:
        """A block of `smelt_alloc`, which is this object's from now on."""
        made = cls.__new__(cls)
        made.address, made.size = address, 0
        made._spares, made._free = None, library().smelt_free
        return made

    @classmethod
    def borrowed(cls, array: AnyArray) -> Memory:
        """The memory of a row-major array, which stays the array's and alive."""
        made = cls.__new__(cls)
        made.address, made.size, made._spares = array.ctypes.data, array.nbytes, None
        made._free = partial(_keep, array)  # type: ignore[assignment]
        return made

    def __del__(self) -> None:
        """Keeps the block as a spare or frees it."""
        address = self.address
        if not address:
            return
        spares = self._spares
        if spares is not None and len(spares) < Spares.limit:
            spares.append(address)
        else:
            self._free(address)


class _Exporter:
    """Shows a memory to numpy; the arrays made from it keep it, and so the memory, alive."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: Memory, size: int) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "data": (memory.address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def _binary(ufunc: np.ufunc, swapped: bool = False) -> Callable[[NDArray, object], AnyArray]:
    def operator(self: NDArray, other: object) -> AnyArray:
        left, right = self.numpy(), np.asarray(other)
        if right.dtype == object:
            return NotImplemented  # type: ignore[no-any-return]
        # Numbers stay numbers: 2 * x keeps the type of x.
        given: Any = other if isinstance(other, bool | int | float | complex) else right
        made: AnyArray = ufunc(given, left) if swapped else ufunc(left, given)
        return made

    return operator


def _unary(ufunc: np.ufunc) -> Callable[[NDArray], AnyArray]:
    def operator(self: NDArray) -> AnyArray:
        made: AnyArray = ufunc(self.numpy())
        return made

    return operator


class NDArray:
    """An array of its own aligned memory, row-major. `numpy()` views it without a copy.

    Arithmetic and comparisons give numpy arrays, elementwise; methods of numpy's arrays work too.
    """

    __slots__ = ("_array", "_memory", "address", "device", "dtype", "shape")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], memory: Memory, device: Device
    ) -> None:
        """For the runtime; programs use `empty` and `array`."""
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.address = memory.address
        self._memory = memory
        self._array: AnyArray | None = None

    def numpy(self) -> AnyArray:
        """The array as numpy sees it: the same memory, not a copy."""
        found = self._array
        if found is None:
            size = math.prod(self.shape) * self.dtype.itemsize
            if size:
                raw = np.asarray(_Exporter(self._memory, size))
                found = raw.view(self.dtype).reshape(self.shape)
            else:
                found = np.empty(self.shape, self.dtype)
            self._array = found
        return found

    asnumpy = numpy
    """The older name of `numpy()`."""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    def copyto(self, target: NDArray | AnyArray | Device) -> NDArray | AnyArray:
        """Copies the elements into an array of the same shape and dtype, or to a device."""
        if isinstance(target, Device):
            return array(self, target)
        if target.shape != self.shape or target.dtype != self.dtype:
            raise InputError(
                f"copyto: the target is {target.dtype}{list(target.shape)}, "
                f"the array is {self.dtype}{list(self.shape)}; both must be the same"
            )
        np.copyto(target.numpy() if isinstance(target, NDArray) else target, self.numpy())
        return target

    def copyfrom(self, source_array: npt.ArrayLike) -> Self:
        """Copies elements of the same shape into this array."""
        values = np.asarray(source_array)
        if values.shape != self.shape:
            raise InputError(
                f"copyfrom: the source has shape {list(values.shape)}, "
                f"the array has {list(self.shape)}"
            )
        np.copyto(self.numpy(), values, casting="same_kind")
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """For numpy.asarray."""
        found = self.numpy()
        if dtype is not None and np.dtype(dtype) != found.dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to turn {found.dtype} into {dtype}")
            return found.astype(dtype)
        return found.copy() if copy else found

    def __reduce__(self) -> Any:
        return array, (self.numpy(),)  # pickled and copied as its elements

    def __dlpack__(self, **options: Any) -> Any:
        """For from_dlpack of numpy, torch, jax and others."""
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's code of the device."""
        return self.device.dlpack

    def __len__(self) -> int:
        """The first dimension."""
        return len(self.numpy())

    def __getitem__(self, index: Any) -> Any:
        """What numpy gives for it."""
        if isinstance(index, str):
            raise InputError(f"[{index!r}]: this is one array, not results by name; take it as is")
        return self.numpy()[index]

    def __setitem__(self, index: Any, values: Any) -> None:
        """Copies elements into a part: `a[:] = x` for all of it."""
        part = self.numpy()[index]
        given = np.asarray(values)
        if given.ndim and given.shape != np.shape(part):
            raise InputError(f"NDArray: elements of shape {list(given.shape)} "
                             f"do not fit a part of shape {list(np.shape(part))}")  # fmt: skip
        self.numpy()[index] = given

    __add__, __radd__ = _binary(np.add), _binary(np.add, True)
    __sub__, __rsub__ = _binary(np.subtract), _binary(np.subtract, True)
    __mul__, __rmul__ = _binary(np.multiply), _binary(np.multiply, True)
    __truediv__, __rtruediv__ = _binary(np.divide), _binary(np.divide, True)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide), _binary(np.floor_divide, True)
    __mod__, __rmod__ = _binary(np.remainder), _binary(np.remainder, True)
    __pow__, __rpow__ = _binary(np.power), _binary(np.power, True)
    __matmul__, __rmatmul__ = _binary(np.matmul), _binary(np.matmul, True)
    __lt__, __le__ = _binary(np.less), _binary(np.less_equal)
    __gt__, __ge__ = _binary(np.greater), _binary(np.greater_equal)
    __and__, __or__ = _binary(np.bitwise_and), _binary(np.bitwise_or)
    __eq__ = _binary(np.equal)  # type: ignore[assignment]
    __ne__ = _binary(np.not_equal)  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]  # as numpy: equality is no truth
    __neg__, __abs__, __invert__ = _unary(np.negative), _unary(np.absolute), _unary(np.invert)

    def __iter__(self) -> Iterator[Any]:
        """Along the first dimension."""
        return iter(self.numpy())

    def __bool__(self) -> bool:
        """The truth of an array with one element."""
        return bool(self.numpy())

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name.startswith("_") or not hasattr(np.ndarray, name):
                raise AttributeError(f"'NDArray' object has no attribute {name!r}")
            return getattr(self.numpy(), name)

    def same_as(self, other: object) -> bool:
        """Whether both are the same memory."""
        return isinstance(other, NDArray) and other._memory is self._memory

    def __float__(self) -> float:
        """The value of an array with one element."""
        return float(self.numpy().item())

    def __int__(self) -> int:
        """The value of an array with one element."""
        return int(self.numpy().item())

    def __repr__(self) -> str:
        """Type and elements."""
        return f"NDArray({self.dtype}{list(self.shape)}, {self.device})\n{self.numpy()!r}"


def wrapped(array: AnyArray) -> NDArray:
    """A numpy array's own memory, row-major, as an NDArray."""
    made = NDArray(array.shape, array.dtype, Memory.borrowed(array), cpu(0))
    made._array = array
    return made


def empty(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike = "float32", device: Device | None = None
) -> NDArray:
    """An array of unset elements. On a device of another machine it stays there."""
    sizes = (shape,) if isinstance(shape, int) else tuple(int(d) for d in shape)
    kind = numpy_dtype(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    if kind.hasobject:
        raise InputError("an NDArray cannot hold Python objects (dtype object)")
    if any(d < 0 for d in sizes):
        raise InputError(f"empty: shape {list(sizes)} has a negative dimension")
    if isinstance(device, RemoteDevice):
        found: NDArray = device.empty(sizes, str(kind))
        return found
    place = cpu(0) if device is None else present(device, "an NDArray")
    return NDArray(sizes, kind, Memory(math.prod(sizes) * kind.itemsize), place)


def array(arr: npt.ArrayLike | NDArray, device: Device | None = None) -> NDArray:
    """A copy of an array, in memory aligned for models; on a device of another machine, there."""
    source = np.asarray(arr)
    native = source.dtype.newbyteorder("=") if not source.dtype.isnative else source.dtype
    return empty(source.shape, native, device).copyfrom(source)


def from_dlpack(dltensor: Any) -> NDArray:
    """A copy of an array of torch, jax or anything else that speaks DLPack."""
    return array(np.from_dlpack(dltensor))
