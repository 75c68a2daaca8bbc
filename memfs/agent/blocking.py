"""Asynchronous work from code that is not."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")
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


def stands_still(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether nothing goes on in a loop: it is stopped, closed, or held up by `wait`."""
    return not loop.is_running() or loop in _held_up
