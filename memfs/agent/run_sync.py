"""Run asynchronous work from synchronous code, and wait for work across threads and event loops."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.005  # between two checks of another loop
UNRESPONSIVE_SECONDS = 2.0  # a loop that does not respond for so long counts as blocked
_blocked_in_wait: set[asyncio.AbstractEventLoop] = set()  # loops whose thread is in `wait`


def wait(awaitable: Awaitable[T]) -> T:
    """Run an awaitable, and all tasks it starts, to their end in a new event loop; return its result.

    It may be called in any thread. In a thread with a running event loop, that loop is blocked until the end.
    """

    async def run_all() -> T:
        result = await awaitable
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        return result

    try:
        outer = asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_all())
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(run_all()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="memfs-wait")
    _blocked_in_wait.add(outer)
    try:
        thread.start()
        thread.join()
    finally:
        _blocked_in_wait.discard(outer)
    if errors:
        raise errors[0]
    return results[0]  # type: ignore[no-any-return]


async def run_in_thread(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Run a function that may take long in a thread of its own: the stores need the few threads of the loop's pool."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def resolve(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = function(*arguments, **named)
        except StopIteration:  # a future cannot hold it
            error = RuntimeError(f"{getattr(function, '__name__', 'the function')} raised StopIteration")
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nothing awaits the result
            loop.call_soon_threadsafe(resolve, result, error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="memfs-model", daemon=True).start()
    return await done


async def wait_for_other_loop(is_over: Callable[[], bool], loop: asyncio.AbstractEventLoop) -> None:
    """Wait until work in another loop is over; give up if that loop is blocked or does not respond for a while."""
    last_response = time.monotonic()

    def respond() -> None:
        nonlocal last_response
        last_response = time.monotonic()

    last_ping = 0.0
    while not is_over() and not is_blocked(loop) and time.monotonic() - last_response < UNRESPONSIVE_SECONDS:
        if time.monotonic() - last_ping > UNRESPONSIVE_SECONDS / 4:
            last_ping = time.monotonic()
            with suppress(RuntimeError):  # it was closed
                loop.call_soon_threadsafe(respond)
        await asyncio.sleep(POLL_SECONDS)


def is_in_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_blocked(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop makes no progress: it is stopped, closed, or its thread is in `wait`."""
    return not loop.is_running() or loop in _blocked_in_wait


class SaveTask:
    """A save that is running, or that waits for the save before it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether it has ended: completed, failed or cancelled."""
        return self.task is not None and self.task.done()

    def is_lost(self) -> bool:
        """Return whether its loop was closed before it was done."""
        return not self.is_done and self.loop.is_closed()

    async def wait_done(self) -> None:
        """Wait until it is done, failed or cancelled; give up if it is in another loop that is blocked."""
        if self.loop is asyncio.get_running_loop():
            if self.task is not None:
                await asyncio.wait([self.task])
            return
        await wait_for_other_loop(lambda: self.is_done, self.loop)
