"""Differences between releases of strands-agents, and uses of its private names, in one place."""

import importlib
from inspect import currentframe
from types import FrameType
from typing import Any

from strands import _async

_SYNCHRONOUS_CALL = "_invoke_async_and_flush"  # `agent(...)` runs this function in an event loop of its own


def _import_first(name: str, *modules: str) -> Any:
    """Return a name from the first of these modules that exists."""
    for module in modules[:-1]:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            continue
    return getattr(importlib.import_module(modules[-1]), name)


InvokeModelStage = _import_first("InvokeModelStage", "strands.middleware.stages", "strands._middleware.stages")
ToolResultEvent = _import_first("ToolResultEvent", "strands.types.events", "strands.types._events")


def before_model(agent: Any, handler: Any) -> None:
    """Register a function that can change the input of each model call."""
    registry = agent if hasattr(agent, "add_middleware") else getattr(agent, "_middleware_registry")  # noqa: B009
    registry.add_middleware(InvokeModelStage.Input, handler)


def model_of(agent: Any) -> Any:
    """Return the model of an agent for auxiliary work."""
    return getattr(agent, "aux_model", None) or getattr(agent, "model", None)


def flushing_agent() -> Any:
    """Return the agent whose synchronous call awaits the calling `flush`; None if another function called it."""
    frame = _caller()
    while frame is not None and frame.f_code.co_name == "flush":  # a subclass may override it
        frame = frame.f_back
    return frame.f_locals.get("self") if frame is not None and _is_synchronous_call(frame) else None


def ends_with_call() -> bool:
    """Return whether Strands created the running event loop for a synchronous call."""
    is_bridge = getattr(_async, "is_run_async_bridge", None)
    if is_bridge is not None:
        return bool(is_bridge())
    frame = _caller()
    while frame is not None and not _is_synchronous_call(frame):
        frame = frame.f_back
    return frame is not None


def _caller() -> FrameType | None:
    """Return the frame of the caller of the function that calls this one."""
    here = currentframe()
    return here.f_back.f_back if here and here.f_back else None


def _is_synchronous_call(frame: FrameType) -> bool:
    return frame.f_code.co_name == _SYNCHRONOUS_CALL and str(frame.f_globals.get("__name__")).startswith("strands.")
