"""Importing a bundle's environment class: from its own folder, or from an installed module."""

from __future__ import annotations

import hashlib
import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path

from tinker_episodes.environment import Environment

Report = Callable[[str, str, str], None]


def load_environment(folder: Path, name: str, report: Report) -> type[Environment] | None:
    """The class of `module:Class`. A module that is a file of the folder comes first.

    What can't be loaded is given to `report` (file, place, message).
    """
    module_name, _, class_name = name.partition(":")
    file = folder / f"{module_name}.py"
    own = file.is_file()
    where = file.name if own else "bundle.toml"
    place = "" if own else "environment"
    try:
        module = _own_module(folder, module_name) if own else importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - runs the author's code
        report(where, place, _import_fault(module_name, own, error, file))
        return None
    found = getattr(module, class_name, None)  # the name comes from the bundle's author
    if not (isinstance(found, type) and issubclass(found, Environment)):
        report(where, class_name, f"there is no Environment class {class_name!r} in {module_name}")
        return None
    return found


def _own_module(folder: Path, name: str) -> types.ModuleType:
    """A module of the folder, in a package named by the folder's hash: two bundles may both have an
    environment.py.
    """
    package = f"tinker_episodes_bundle_{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"
    if package not in sys.modules:
        made = types.ModuleType(package, "A bundle's folder as a package.")
        made.__path__ = [str(folder)]
        sys.modules[package] = made
    return importlib.import_module(f"{package}.{name}")


def _import_fault(name: str, own: bool, error: BaseException, file: Path) -> str:
    if not own and isinstance(error, ModuleNotFoundError) and error.name == name.split(".")[0]:
        return f"there is neither a file {file.name} in the bundle nor a module {name!r}"
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: it is not Python: {error.msg}"
    line = _line_of(error, file)
    where = f"line {line}: " if line else ""
    return f"{where}importing it raised {type(error).__name__}: {error}"


def _line_of(error: BaseException, file: Path) -> int | None:
    """The line of the bundle's file that raised."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
