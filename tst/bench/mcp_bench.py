"""A tool that an MCP server has, beside the SDK's own call: the library has no part for it."""

from __future__ import annotations

from collections.abc import Iterator

from table import Row, left_out


def rows() -> Iterator[Row]:
    """One row, left out."""
    yield left_out("MCP call, in process", "the library takes no tools from MCP servers")
