"""Which bundle a name means: an installed one, a folder, or one made in code."""

from __future__ import annotations

import copyreg
import functools
import importlib
import importlib.util
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from tinker_episodes.bundle.bundle import Bundle
from tinker_episodes.bundle.reading import read_bundle
from tinker_episodes.errors import ConfigError

GROUP = "tinker_episodes.bundles"
"""The entry-point group through which packages ship bundles:

`name = "package.with.bundle_toml"`.
"""


def installed_bundles() -> dict[str, EntryPoint]:
    """The bundles that installed packages ship, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def find_bundle(name: str) -> Bundle:
    """The bundle of `number_search` (installed), `./folder` (a folder) or `pkg.mod:BUNDLE` (made in
    code).

    Read once a process: a bundle that changes on disk is seen by the next process.

    Raises:
        ConfigError: nothing of that name; the message lists the installed ones.
        BundleError: it is there and has faults.
    """
    installed = installed_bundles()
    if name in installed:
        return _read(str(_folder_of(installed[name])))
    if Path(name).is_dir() or _looks_like_path(name):
        return _read(str(Path(name).expanduser().resolve()))
    if ":" in name:
        return _in_code(name)
    known = ", ".join(sorted(installed)) or "none"
    raise ConfigError(
        f"there is no bundle {name!r}; installed: {known}; "
        "a folder is written as './folder', one made in code as 'package.module:NAME'"
    )


def _reduced(bundle: Bundle) -> tuple[Callable[..., Bundle], tuple[Any, ...]]:
    """How a bundle is pickled: by its source, which is read once a process; whole without one."""
    if bundle.source is not None:
        return find_bundle, (bundle.source,)
    return _made_again, (bundle.fields(),)


def _made_again(fields: dict[str, Any]) -> Bundle:
    return Bundle(**fields)


copyreg.pickle(Bundle, _reduced)


def _looks_like_path(name: str) -> bool:
    return "/" in name or "\\" in name or name.startswith((".", "~"))


@functools.cache
def _read(folder: str) -> Bundle:
    return read_bundle(Path(folder))


def _folder_of(point: EntryPoint) -> Path:
    """The folder of the package that an entry point names, found without running the package."""
    spec = importlib.util.find_spec(point.value)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the installed bundle {point.name!r} names no package: {point.value!r}")
    return Path(next(iter(spec.submodule_search_locations)))


def _in_code(name: str) -> Bundle:
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(f"bundle {name!r}: {module_name} can't be imported: {error}") from error
    found = getattr(module, attribute, None)  # the name comes from the user's own configuration
    if not isinstance(found, Bundle):
        raise ConfigError(f"bundle {name!r}: there is no Bundle {attribute!r} in {module_name}")
    found.source = name
    return found
