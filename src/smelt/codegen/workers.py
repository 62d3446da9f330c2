"""Worker processes and the jobs they share.

    pool = default_pool(2)
    pool.warm("smelt.codegen.llvm")                  # starts the workers; returns at once
    job = pool.submit("smelt.codegen.llvm:emit", (text, target), "kernel conv1")
    ...                                              # the parent's own work
    code = job.result()

Workers are plain child processes that import smelt afresh (`worker`), never `multiprocessing`,
which runs users' unguarded scripts again. A thread for each worker hands out jobs; while many
wait, it sends one ahead, so that a worker need not wait for a parent that is busy with its own
work.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from smelt.codegen.frames import pack, portable
from smelt.codegen.worker import call
from smelt.codegen.worker_process import Ending, WorkerDied, WorkerProcess, save_crash
from smelt.ir.closing import Closing
from smelt.ir.errors import CompileError, InternalError, SmeltError

Progress = Callable[[int, int], None]
_IDLE_SECONDS = 30.0  # a worker without work ends; starting one again takes a tenth of a second


class Job:
    """A submitted call."""

    def __init__(self, pool: WorkerPool, number: int, name: str, payload: bytes) -> None:
        """For the pool."""
        self.name, self.number, self.payload = name, number, payload
        self.finished = False
        self.deaths = 0
        self._pool = pool
        self._value: Any = None
        self.error: SmeltError | None = None  # what `result` will raise, if the job has failed

    def result(self) -> Any:
        """What the function returned, or its exception; waits for it.

        Ctrl-C meanwhile cancels everything that the pool has to do.
        """
        self._pool.wait([self])
        if self.error is not None:
            raise self.error
        return self._value

    def finish(self, value: Any, error: SmeltError | None) -> None:
        """For the pool: the outcome, unless there is one."""
        if not self.finished:
            self._value, self.error, self.finished, self.payload = value, error, True, b""


class WorkerPool(Closing):
    """`count` worker processes; none at all means that the caller's process does the work."""

    def __init__(
        self, count: int, *, crashes: Path | None = None, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        """Nothing is started before there is work; `crashes` is where fatal jobs are saved."""
        self.count, self.crashes, self.idle_seconds = _checked(count), crashes, idle_seconds
        self._numbers = itertools.count(1)
        self.modules: list[str] = []  # what workers are to import ahead
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._slots: list[_Slot] = []
        self.closed = False  # whether `close` was called

    # For users -------------------------------------------------------------------------------

    def submit(self, function: str, arguments: tuple[Any, ...], name: str) -> Job:
        """Call `package.module:function` in a worker.

        `name` says what the job is, for messages: "kernel conv1".
        """
        if self.count == 0:
            return self._here(function, arguments, name)
        try:
            payload = pack((function, arguments, name))
        except Exception as e:
            raise InternalError(
                f"{name}: the job cannot be sent to a worker: {type(e).__name__}: {e}"
            ) from e
        with self._changed:
            job = Job(self, next(self._numbers), name, payload)
            self._queue.append(job)
            self._changed.notify_all()
            self._start()
        return job

    def map(
        self,
        function: str,
        jobs: Sequence[tuple[Any, ...]],
        names: Sequence[str],
        progress: Progress | None = None,
    ) -> list[Any]:
        """Call a function for each tuple of arguments; the results in the same order.

        Every job is finished before the first error is raised. `progress(done, total)` is called
        in the caller's thread.
        """
        submitted: list[Job] = []
        for arguments, name in zip(jobs, names, strict=True):
            submitted.append(self.submit(function, arguments, name))
            if progress is not None and self.count == 0:
                progress(len(submitted), len(jobs))
        self.wait(submitted, progress if self.count else None)
        failed = [job for job in submitted if job.error is not None]
        if len(failed) > 1:
            _note_others(failed)
        return [job.result() for job in failed[:1] or submitted]

    def warm(self, *modules: str) -> None:
        """Start the workers, and let them import modules before the first job needs them."""
        if self.count == 0:
            return
        with self._changed:
            self.modules += [m for m in modules if m not in self.modules]
            self._start()
            for slot in self._slots:
                slot.wanted = True
            self._changed.notify_all()

    def wait(self, jobs: Sequence[Job], progress: Progress | None = None) -> None:
        """Wait until jobs are finished; Ctrl-C (or an error of `progress`) cancels them."""
        done = 0
        try:
            while done < len(jobs):
                with self._changed:
                    while (now := sum(job.finished for job in jobs)) == done:
                        self._changed.wait()
                done = now
                if progress is not None:
                    progress(done, len(jobs))
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Give up every job, and end the workers; the pool can be used on."""
        with self._changed:
            waiting = [*self._queue, *[job for slot in self._slots for job in list(slot.flight)]]
            self._queue.clear()
            for job in waiting:
                job.finish(None, _cancelled(job))
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.kill()
            self._changed.notify_all()

    def resize(self, count: int) -> None:
        """Have another number of workers from now on."""
        with self._changed:
            self.count = _checked(count)
            if self._queue:
                self._start()
            self._changed.notify_all()

    def close(self) -> None:
        """End the workers; what is not finished is cancelled."""
        with self._changed:
            self.closed = True
        self.cancel()
        for slot in list(self._slots):
            slot.thread.join()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that run."""
        with self._changed:
            return [s.process.pid for s in self._slots if s.process is not None]

    # For the slots ---------------------------------------------------------------------------

    def order(self, slot: _Slot) -> Callable[[], object] | None:
        """What a slot is to do next, None: to end; waits until there is something."""
        with self._changed:
            while True:
                if self.closed or (slot.index >= self.count and not slot.flight):
                    if slot in self._slots:
                        self._slots.remove(slot)
                    return None
                if slot.wanted:
                    return slot.start
                if self._queue and not slot.flight:
                    return slot.have(self._queue.popleft())
                # A worker is surely needed again after the job that it is at.
                if len(slot.flight) == 1 and len(self._queue) >= 2 * self.count:
                    return slot.have(self._queue.popleft())
                if slot.flight:
                    return slot.receive
                seconds = None if slot.process is None else self.idle_seconds
                if not self._changed.wait(seconds):
                    return slot.end

    def finish(self, job: Job, value: Any, error: SmeltError | None = None) -> None:
        """A job has an outcome."""
        with self._changed:
            job.finish(value, error)
            self._changed.notify_all()

    def again(self, jobs: Sequence[Job]) -> None:
        """Let jobs that a dead worker has left be done before all others."""
        with self._changed:
            for job in reversed(jobs):
                if self.closed:
                    job.finish(None, _cancelled(job))
                elif not job.finished:
                    self._queue.appendleft(job)
            self._changed.notify_all()

    def fail(self, jobs: Sequence[Job], error: SmeltError) -> None:
        """No worker can be started: nothing that waits can be done."""
        with self._changed:
            waiting = [*jobs, *self._queue]
            self._queue.clear()
        for job in waiting:
            self.finish(job, None, error)

    def _start(self) -> None:
        if self.closed:
            raise InternalError("the pool of workers is closed")
        taken = {slot.index for slot in self._slots}
        for index in range(self.count):
            if index not in taken:
                slot = _Slot(self, index)
                self._slots.append(slot)
                slot.thread.start()

    def _here(self, function: str, arguments: tuple[Any, ...], name: str) -> Job:
        job = Job(self, next(self._numbers), name, b"")
        try:
            job.finish(call(function, arguments), None)
        except Exception as e:
            job.finish(None, e if isinstance(e, SmeltError) else portable(e, name))
        return job

    def after_fork(self) -> None:
        """In a forked child: the threads are gone, the workers are the parent's."""
        slots, queue = self._slots, self._queue
        self._reset()
        for job in [*queue, *[job for s in slots for job in s.flight]]:
            job.finish(None, CompileError(f"{job.name}: given up, as the process was forked"))
        for slot in slots:
            if slot.process is not None:
                slot.process.forget()


class _Slot:
    """The place of one worker in a pool: a thread that feeds it, and starts it anew."""

    def __init__(self, pool: WorkerPool, index: int) -> None:
        self.pool, self.index = pool, index
        self.process: WorkerProcess | None = None
        self.wanted = False  # the worker is to run even without a job
        self.flight: deque[Job] = deque()  # what the worker has; it works on the first
        self.thread = threading.Thread(target=self._serve, name=f"smelt-{index}", daemon=True)

    def _serve(self) -> None:
        # A user's program may have given SIGPIPE its deadly meaning back.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        while (order := self.pool.order(self)) is not None:
            try:
                order()
            except WorkerDied:
                self._died()
            except OSError as e:
                self.pool.fail(self._leave(), _no_start(f": {e}"))
        self.end()

    def start(self) -> WorkerProcess:
        """The worker, with the pool's modules imported or about to be."""
        self.wanted = False
        if self.process is None:
            self.process = WorkerProcess()
        self.process.warm(list(self.pool.modules))
        return self.process

    def have(self, job: Job) -> Callable[[], None]:
        """Take a job; gives what sends it."""
        self.flight.append(job)
        return partial(self._give, job)

    def _give(self, job: Job) -> None:
        if self.process is not None and self.flight[0] is job and not self.process.alive:
            self.end()  # it died while it had nothing to do: no job is to blame
        if job.finished:  # cancelled meanwhile
            self.flight.remove(job)
        else:
            self.start().send(job.number, job.payload)

    def receive(self) -> None:
        """Wait for an answer."""
        payload = self.start().receive()
        job = self.flight.popleft()
        try:
            kind, value = pickle.loads(payload)
        except Exception as e:
            text = f"{job.name}: the worker's answer cannot be read: {type(e).__name__}: {e}"
            kind, value = "error", InternalError(text)
        if kind == "ok":
            self.pool.finish(job, value)
        else:
            self.pool.finish(job, None, value)

    def _died(self) -> None:
        """Find out why, blame the job that the worker was at, and let the others be done."""
        process, jobs = self.process, self._leave()
        self.process = None
        if process is None:
            return
        ending = process.bury(jobs[0].number if jobs else 0)
        if not jobs or jobs[0].finished:  # cancelled
            self.pool.again(jobs)
        elif not (process.ready or ending.killed):
            self.pool.fail(jobs, _no_start(f": {_COMMAND} {ending.how}{ending.last_words}"))
        elif not jobs[0].deaths and (ending.killed or not ending.began):
            jobs[0].deaths += 1
            self.pool.again(jobs)
        else:
            self.pool.again(jobs[1:])
            self.pool.finish(jobs[0], None, self._blame(jobs[0], ending))

    def _blame(self, job: Job, ending: Ending) -> InternalError:
        how = f"its worker process {ending.how}"
        if ending.killed:
            how = "its worker process was killed twice (SIGKILL), as where memory runs out"
        lines = [f"{job.name}: {how}{ending.last_words}"]
        if file := save_crash(self.pool.crashes, job.name, job.payload, ending.said):
            lines += [f"  the job is saved in {file}", f"  to repeat it: {_COMMAND} {file}"]
        return InternalError("\n".join(lines))

    def _leave(self) -> list[Job]:
        """What the worker had, which is nobody's now."""
        jobs = list(self.flight)
        self.flight.clear()
        return jobs

    def end(self) -> None:
        """End the worker."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.bury()


_COMMAND = "python -m smelt.codegen.worker"


def _no_start(why: str) -> CompileError:
    return CompileError(f"worker processes cannot be started{why}")


def _cancelled(job: Job) -> CompileError:
    return CompileError(f"{job.name}: cancelled")


def _checked(count: int) -> int:
    if count < 0:
        raise InternalError(f"a pool of {count} workers")
    return count


def _note_others(failed: Sequence[Job]) -> None:
    error = failed[0].error
    if error is not None and not getattr(error, "__notes__", ()):
        names = ", ".join(job.name for job in failed[1:6])
        error.add_note(f"failed too: {names}{' ...' if len(failed) > 6 else ''}")


_pools: WeakSet[WorkerPool] = WeakSet()
_default: list[WorkerPool] = []
_lock = threading.Lock()


def default_pool(count: int) -> WorkerPool:
    """The pool of this process, with so many workers; made when it is first asked for."""
    with _lock:
        if not _default or _default[0].closed:
            _default[:] = [WorkerPool(count)]
        elif _default[0].count != count:
            _default[0].resize(count)
        return _default[0]


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for pool in list(_pools):
        pool.after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
