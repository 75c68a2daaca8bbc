"""Import public names on first use, and keep import paths of earlier versions working."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # importing typing would double the time that `import memfs` takes
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

OLD_MODULES = {  # documented import paths of earlier versions -> the modules that define their names
    "memfs.agent.session": ("memfs.agent.sessions", "memfs.agent.distill"),
    "memfs.retention": ("memfs.decay",),
    "memfs.upkeep.encryption": ("memfs.privacy.field_encryption",),
    "memfs.upkeep.forgetting": ("memfs.upkeep.pruning",),
    "memfs.upkeep.graph": ("memfs.upkeep.link_graph",),
    "memfs.upkeep.keys": ("memfs.privacy.keys",),
    "memfs.upkeep.redaction": ("memfs.privacy.policy",),
}


def lazy_attributes(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose public names are imported on first use.

    `homes` maps each name to the module inside the package that defines it: `module`, `module:attribute` for an alias,
    or an empty text if the name is a submodule.
    """

    def getattribute(name: str) -> Any:
        value: Any
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = homes[name].partition(":")
        value = import_module(f"{package}.{module or name}")
        value = getattr(value, attribute or name) if module else value
        sys.modules[package].__dict__[name] = value
        return value

    return getattribute, lambda: sorted(homes)


class OldModuleFinder:
    """A finder for the modules of OLD_MODULES, the last in `sys.meta_path`: used only if no other finds a module."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of an old import path, and None for any other name."""
        return ModuleSpec(name, self) if name in OLD_MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Delegate every attribute to the modules that define it."""
        name = module.__name__

        def getattribute(attribute: str) -> Any:
            for home in map(import_module, OLD_MODULES[name]):
                if hasattr(home, attribute):
                    return getattr(home, attribute)
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

        module.__dict__["__getattr__"] = getattribute


sys.meta_path.append(OldModuleFinder())
