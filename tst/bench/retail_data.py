"""The retail example as a bundle, from a copy of tau2-bench's data where there is one."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tinker_episodes import Bundle, find_bundle

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("TAU2_RETAIL_DATA", ROOT.parent / "shared" / "data" / "tau2-retail"))
MISSING = f"no tau2-bench data with gold.json in {DATA}; TAU2_RETAIL_DATA names it"


def is_here() -> bool:
    """Whether the benchmark's data is at hand."""
    return (DATA / "gold.json").is_file()


@functools.cache
def folder() -> Path:
    """The bundle's folder, made once a process and removed at its end."""
    sys.path.insert(0, str(ROOT / "examples" / "tau2_retail"))
    from make_bundle import make

    parent = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, parent)
    make(DATA, Path(parent) / "retail")
    return Path(parent) / "retail"


def bundle() -> Bundle:
    """The bundle."""
    return find_bundle(str(folder()))


def gold() -> list[dict[str, Any]]:
    """The gold plays: a task, its calls with their outputs, what they change."""
    return json.loads((DATA / "gold.json").read_text(encoding="utf-8"))["tasks"]


def database() -> dict[str, Any]:
    """The shop's data as plain JSON."""
    return json.loads((DATA / "db.json").read_text(encoding="utf-8"))


def enlarged(data: dict[str, Any], times: int) -> dict[str, Any]:
    """The same tables with every record `times` times, under keys of their own."""
    return {
        name: {f"{key}{'+' * n}": record for n in range(times) for key, record in table.items()}
        for name, table in data.items()
    }
