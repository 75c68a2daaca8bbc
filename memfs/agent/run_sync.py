"""Asynchronous work from code that is not."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
POLL = 0.005  # seconds between two looks at another loop
SILENT = 2.0  # seconds after which a loop is taken to stand still: its thread waits for something else
_held_up: set[asyncio.AbstractEventLoop] = set()  # loops whose thread is in `wait`


def wait(awaitable: Awaitable[T]) -> T:
    """Run something asynchronous, and all that it begins, to its end; from any thread, in a loop of its own."""

    async def whole() -> T:
        answer = await awaitable
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        return answer

    try:
        outer = asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(whole())
    answers: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(asyncio.run(whole()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="memfs-wait")
    _held_up.add(outer)
    try:
        thread.start()
        thread.join()
    finally:
        _held_up.discard(outer)
    if errors:
        raise errors[0]
    return answers[0]  # type: ignore[no-any-return]


async def in_own_thread(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Run what may take long in a thread of its own: the loop's few threads are for stores."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(answer: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(answer) if error is None else done.set_exception(error)

    def run() -> None:
        answer: Any = None
        error: BaseException | None = None
        try:
            answer = function(*arguments, **named)
        except StopIteration:  # which no future takes
            error = RuntimeError(f"{getattr(function, '__name__', 'the function')} raised StopIteration")
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, answer, error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="memfs-model", daemon=True).start()
    return await done


async def ended(is_over: Callable[[], bool], loop: asyncio.AbstractEventLoop) -> None:
    """Wait for what goes on in another loop, unless that stands still, or says nothing for a while."""
    heard = time.monotonic()

    def answer() -> None:
        nonlocal heard
        heard = time.monotonic()

    asked = 0.0
    while not is_over() and not stands_still(loop) and time.monotonic() - heard < SILENT:
        if time.monotonic() - asked > SILENT / 4:
            asked = time.monotonic()
            with suppress(RuntimeError):  # it was closed
                loop.call_soon_threadsafe(answer)
        await asyncio.sleep(POLL)


def is_in_loop() -> bool:
    """Tell whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def stands_still(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether nothing goes on in a loop: it is stopped, closed, or held up by `wait`."""
    return not loop.is_running() or loop in _held_up


class Save:
    """A save that runs, or waits for the one before it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        return self.task is not None and self.task.done()

    def is_lost(self) -> bool:
        return not self.is_done and self.loop.is_closed()

    async def finished(self) -> None:
        """Wait for the end of it, whatever that is; one in a loop that stands still is not waited for."""
        if self.loop is asyncio.get_running_loop():
            if self.task is not None:
                await asyncio.wait([self.task])
            return
        await ended(lambda: self.is_done, self.loop)
