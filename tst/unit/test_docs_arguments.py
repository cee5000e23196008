"""The documentation's tables of rules are those of the docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "arguments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("mark", "module"),
    [("rules", "arguments.py"), ("formats", "cookbook/wire/formats.py")],
)
def test_page_holds_the_docstring(mark: str, module: str) -> None:
    source = (ROOT / "src" / "tinker_episodes" / module).read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring is not None
    rules = docstring.split("\n\n", 1)[1]
    shown = PAGE.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    assert shown.strip() == rules.strip()
