"""What importing the package costs, and which way imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tinker_episodes

SRC = Path(tinker_episodes.__file__).parent
HEAVY = ("torch", "transformers", "tinker", "tinker_cookbook")
OF_THE_HOST = {"EpisodeDatasetBuilder", "EpisodeEnv"}
AUTHORS = sorted(set(tinker_episodes.__all__) - OF_THE_HOST)
LAYERS = (
    "index",
    "cookbook",
    "loopback",
    "explorer",
    "sources",
    "bundles",
    "terminal",
    "testing",
    "cli",
)


def _loaded_after(code: str) -> set[str]:
    code = f"{code}\nimport sys; print(*{{m.partition('.')[0] for m in sys.modules}}, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert _loaded_after("import tinker_episodes").isdisjoint({*HEAVY, "pydantic", "sqlalchemy"})


def test_the_authors_names_load_nothing_heavy() -> None:
    names = ", ".join(AUTHORS)
    assert _loaded_after(f"from tinker_episodes import {names}").isdisjoint(HEAVY)


def test_the_run_index_loads_nothing_heavy() -> None:
    assert _loaded_after("import tinker_episodes.index.reading").isdisjoint(HEAVY)


@pytest.mark.skipif(not (SRC / "loopback/__init__.py").exists(), reason="there is no loopback yet")
def test_the_loopback_package_loads_nothing_heavy() -> None:
    assert _loaded_after("import tinker_episodes.loopback").isdisjoint(HEAVY)


@pytest.mark.parametrize("name", AUTHORS)
def test_every_public_name_of_the_author_resolves(name: str) -> None:
    found = getattr(tinker_episodes, name)
    assert name == "__version__" or found.__name__ == name


def test_every_public_name_says_where_it_is_from() -> None:
    lazy = set(tinker_episodes._MODULE_OF)
    assert lazy | {"__version__"} == set(tinker_episodes.__all__)


def test_all_is_what_dir_lists() -> None:
    assert dir(tinker_episodes) == sorted(tinker_episodes.__all__)


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Epizode'"):
        _ = tinker_episodes.Epizode


def test_the_guard_of_this_tier_refuses_the_host() -> None:
    sys.modules.pop("tinker_cookbook.no_such_module", None)
    with pytest.raises(ImportError, match="the unit tier runs without"):
        __import__(
            "transformers.no_such_module" if "transformers" in sys.modules else "transformers"
        )


# ---------------------------------------------------------------- which way imports point


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{file} imports relatively"
            yield node.module
            if node.module == "tinker_episodes":
                yield from (f"tinker_episodes.{alias.name}" for alias in node.names)


def _imports_by_layer(*layers: str) -> dict[str, set[str]]:
    """File → what it imports, for the files of these layers; `core` is all but the named layers."""
    found: dict[str, set[str]] = {}
    for file in SRC.rglob("*.py"):
        first = file.relative_to(SRC).parts[0].removesuffix(".py")
        layer = first if first in LAYERS else "core"
        if layer in layers and file != SRC / "__init__.py":
            found[file.relative_to(SRC).as_posix()] = set(_imports(file))
    assert found
    return found


def _offenders(imports: dict[str, set[str]], *banned: str) -> dict[str, list[str]]:
    hits = {
        file: sorted(n for n in names if any(n == b or n.startswith(f"{b}.") for b in banned))
        for file, names in imports.items()
    }
    return {file: names for file, names in hits.items() if names}


def test_the_core_imports_no_layer_above_it() -> None:
    above = [f"tinker_episodes.{layer}" for layer in LAYERS]
    assert _offenders(_imports_by_layer("core"), *above) == {}


def test_the_index_knows_values_only() -> None:
    names = {n for found in _imports_by_layer("index").values() for n in found}
    own = {n for n in names if n.startswith("tinker_episodes")}
    assert {n for n in own if not n.startswith("tinker_episodes.index")} == {
        "tinker_episodes.errors"
    }


def test_only_the_cookbook_adapter_imports_the_cookbook() -> None:
    others = _imports_by_layer("core", *(layer for layer in LAYERS if layer != "cookbook"))
    allowed = {"cli.py"}
    rest = {f: n for f, n in others.items() if f not in allowed and not f.startswith("cli/")}
    assert _offenders(rest, "tinker_cookbook") == {}


def test_the_explorer_reads_the_index_and_imports_nothing_that_trains() -> None:
    names = {n for found in _imports_by_layer("explorer").values() for n in found}
    own = {n for n in names if n.startswith("tinker_episodes.")}
    known = ("explorer", "index", "errors", "guard")
    assert {n for n in own if n.split(".")[1] not in known} == set()


def test_only_loopback_imports_torch() -> None:
    others = _imports_by_layer("core", *(layer for layer in LAYERS if layer != "loopback"))
    assert _offenders(others, "torch", "transformers") == {}


def test_no_test_of_this_tier_imports_the_host() -> None:
    imports = {file.name: set(_imports(file)) for file in Path(__file__).parent.glob("*.py")}
    banned = ("tinker_episodes.cookbook", *(f"tinker_episodes.{name}" for name in OF_THE_HOST))
    assert _offenders(imports, *HEAVY, *banned) == {}
