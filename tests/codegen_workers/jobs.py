"""What the workers of these tests are asked to do."""

import os
import signal
import sys
import time
from pathlib import Path

from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.ir.errors import ScheduleError
from smelt.runtime.errors import SmeltError
from smelt.target import Target

NOTHING = "define void @nothing() #0 { ret void }"


class Picky(SmeltError):
    """An error that pickle cannot bring back."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} at {where}")


def double(x: int) -> int:
    return 2 * x


def echo(data: bytes) -> bytes:
    return data


def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def abort() -> None:
    os.write(2, b"LLVM ERROR: Cannot select: a thing\n")
    os.abort()


def leave() -> None:
    os._exit(3)


def kill_once(mark: str) -> str:
    """Is killed the first time, and answers the second."""
    if Path(mark).exists():
        return "alive"
    Path(mark).touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def kill_always() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse() -> None:
    raise ScheduleError("split('i', 4): no loop 'i'")


def picky() -> None:
    raise Picky("odd", "conv1")


def stumble() -> None:
    raise ValueError("bad")


def leave_politely() -> None:
    sys.exit(7)


def chat() -> str:
    print("a stray print")
    os.write(1, b"and another\n" * 100_000)
    return input() if sys.stdin.read(1) else "nothing to read"


def threads() -> tuple[str, str]:
    return os.environ["OMP_NUM_THREADS"], os.environ["SMELT_NUM_THREADS"]


def descriptors() -> list[str]:
    """What is open besides the standard three and the two pipes."""
    names = []
    for n in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{n}"))
        except OSError:
            continue
    return [n for n in names if not n.startswith("pipe:") and n != os.devnull and "/fd" not in n]


def knows(module: str) -> bool:
    return module in sys.modules


def emit(text: str) -> bytes:
    return ObjectCompiler(resolve(Target("llvm"))).object(text)


def unpicklable() -> object:
    return lambda: None


def ignores_interrupt() -> bool:
    os.kill(os.getpid(), signal.SIGINT)
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
