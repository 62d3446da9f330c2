"""The boards that programs are made for: emulated ones, and this machine."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.runtime.errors import MicroError, unknown

CODE_BYTES = 256 << 10
"""What is left for code of a memory that holds constants, too."""
STACK_BYTES = 32 << 10
"""What a program on a board leaves for its stack, and watches."""


@dataclass(frozen=True)
class Board:
    """A machine that programs are made for.

    target       what the model is compiled for, in smelt's words
    zig, gcc     what zig's compiler and arm-none-eabi-gcc are told of the processor; (): the
                 program is one of this machine
    machine      what QEMU calls it
    flash, ram   (origin, bytes): of code and constants, and of all else
    large        (origin, bytes) of another memory, for constants that flash is too small for
    uart         the address of the first serial line
    hertz        ticks of the processor's clock in a second
    """

    name: str
    about: str
    target: str
    zig: tuple[str, ...] = ()
    gcc: tuple[str, ...] = ()
    machine: str = ""
    flash: tuple[int, int] = (0, 0)
    ram: tuple[int, int] = (0, 0)
    large: tuple[int, int] = (0, 0)
    uart: int = 0
    hertz: int = 0

    @property
    def is_host(self) -> bool:
        """Whether programs run on this machine."""
        return not self.machine

    @property
    def instructions_per_tick(self) -> float | None:
        """Where QEMU counts them: with -icount shift=0 an instruction takes a nanosecond."""
        return 1e9 / self.hertz if self.hertz else None


def _mps2(name: str, cpu: str, zig: tuple[str, ...], gcc: tuple[str, ...]) -> Board:
    """A board MPS2: Arm's application notes AN385, AN386 and AN500."""
    return Board(
        name, f"MPS2 with a {cpu}, emulated by QEMU", f"c -mcpu={cpu.lower()}", zig, gcc, name,
        (0, 4 << 20), (0x20000000, 4 << 20), (0x21000000, 16 << 20), 0x40004000, 25_000_000,
    )  # fmt: skip


_HARD = "-target", "thumb-freestanding-eabihf"
BOARDS = {b.name: b for b in (
    _mps2("mps2-an385", "Cortex-M3", ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m3"),
          ("-mcpu=cortex-m3", "-mthumb")),
    _mps2("mps2-an386", "Cortex-M4", (*_HARD, "-mcpu=cortex_m4+vfp4d16sp"),
          ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")),
    _mps2("mps2-an500", "Cortex-M7", (*_HARD, "-mcpu=cortex_m7+fp_armv8d16"),
          ("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16")),
    # Code and constants in what is closest to the processor, which is small.
    Board("mps3-an547", "MPS3 with a Cortex-M55, emulated by QEMU", "c -mcpu=cortex-m55",
          (*_HARD, "-mcpu=cortex_m55+mve_fp+fp_armv8d16"),
          ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"), "mps3-an547",
          (0, 512 << 10), (0x21000000, 4 << 20), (0x28000000, 8 << 20),
          0x49303000, 32_000_000),
    Board("host", "this machine, by its C compiler", "c"),
)}  # fmt: skip
"""Name -> board."""


def find_board(name: str | Board) -> Board:
    """A board by its name. Raises MicroError where there is none."""
    if isinstance(name, Board):
        return name
    if name not in BOARDS:
        raise MicroError(unknown("board", name, BOARDS))
    return BOARDS[name]
