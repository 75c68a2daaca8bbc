"""What has moved between releases of strands-agents, and what is known of them from inside only."""

import importlib
from inspect import currentframe
from types import FrameType
from typing import Any

from strands import _async

_SYNCHRONOUS = "_invoke_async_and_flush"  # what `agent(...)` runs in an event loop that ends with the call


def _first(name: str, *homes: str) -> Any:
    """A name from the first of these modules that is there."""
    for home in homes[:-1]:
        try:
            return getattr(importlib.import_module(home), name)
        except ModuleNotFoundError:
            continue
    return getattr(importlib.import_module(homes[-1]), name)


InvokeModelStage = _first("InvokeModelStage", "strands.middleware.stages", "strands._middleware.stages")
ToolResultEvent = _first("ToolResultEvent", "strands.types.events", "strands.types._events")


def before_model(agent: Any, handler: Any) -> None:
    """Have a function change what a model is sent, for each call."""
    held = agent if hasattr(agent, "add_middleware") else getattr(agent, "_middleware_registry")  # noqa: B009
    held.add_middleware(InvokeModelStage.Input, handler)


def model_of(agent: Any) -> Any:
    """The model an agent lends for work aside."""
    return getattr(agent, "aux_model", None) or getattr(agent, "model", None)


def flushing_agent() -> Any:
    """The agent that awaits the `flush` that asks, at the end of `agent(...)`; None if anybody else does."""
    frame = _caller()
    while frame is not None and frame.f_code.co_name == "flush":  # a subclass may have one of its own
        frame = frame.f_back
    return frame.f_locals.get("self") if frame is not None and _is_call(frame) else None


def ends_with_call() -> bool:
    """Tell whether the running event loop is one that Strands made for a synchronous call."""
    is_bridge = getattr(_async, "is_run_async_bridge", None)
    if is_bridge is not None:
        return bool(is_bridge())
    frame = _caller()
    while frame is not None and not _is_call(frame):
        frame = frame.f_back
    return frame is not None


def _caller() -> FrameType | None:
    """The frame of whoever called the function that asks."""
    here = currentframe()
    return here.f_back.f_back if here and here.f_back else None


def _is_call(frame: FrameType) -> bool:
    return frame.f_code.co_name == _SYNCHRONOUS and str(frame.f_globals.get("__name__")).startswith("strands.")
