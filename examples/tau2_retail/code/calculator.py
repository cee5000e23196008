"""Sums for the model: numbers, + - * / and parentheses.

They are read by a parser of its own: nothing is evaluated as code.
"""

from __future__ import annotations

import math
import re

from tinker_episodes import ToolError

_LONGEST = 1000
"""Characters of an expression. It bounds the digits of every number that can come out."""
_DEEPEST = 50
"""Levels of parentheses and signs."""
_TOKEN = re.compile(r" *([0-9]+(?:\.[0-9]*)?|\.[0-9]+|[-+*/()])")


def calculate(expression: str) -> str:
    """The value of an expression, rounded to cents.

    Raises:
        ToolError: it is no such expression, or has no finite value.
    """
    if len(expression) > _LONGEST:
        raise ToolError(f"The expression has {len(expression)} characters; {_LONGEST} are allowed")
    reading = _Reading(_tokens(expression))
    try:
        value = float(reading.whole())
    except ZeroDivisionError:
        raise ToolError("The expression divides by zero") from None
    except OverflowError:
        raise ToolError("The numbers are too large") from None
    if not math.isfinite(value):
        raise ToolError("The numbers are too large")
    return str(round(value, 2) + 0.0)


def _tokens(expression: str) -> list[str]:
    text = expression.rstrip(" ")
    tokens: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            shown = text[at:].lstrip(" ")[:1]
            raise ToolError(f"{shown!r} can't be read: give numbers, + - * / and parentheses")
        tokens.append(match[1])
        at = match.end()
    return tokens


class _Reading:
    """One pass over an expression's tokens: sums of products of signed numbers and parentheses."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def whole(self) -> float:
        value = self._sum(0)
        if self._next() is not None:
            raise ToolError(f"{self._next()!r} is not expected there")
        return value

    def _sum(self, depth: int) -> float:
        value = self._product(depth)
        while self._next() in ("+", "-"):
            if self._take() == "+":
                value += self._product(depth)
            else:
                value -= self._product(depth)
        return value

    def _product(self, depth: int) -> float:
        value = self._factor(depth)
        while self._next() in ("*", "/"):
            if self._take() == "*":
                value *= self._factor(depth)
            else:
                value /= self._factor(depth)
        return value

    def _factor(self, depth: int) -> float:
        if depth > _DEEPEST:
            raise ToolError("The expression is nested too deeply")
        token = self._take()
        if token == "-":
            return -self._factor(depth + 1)
        if token == "+":
            return self._factor(depth + 1)
        if token == "(":
            value = self._sum(depth + 1)
            if self._take() != ")":
                raise ToolError("A parenthesis is not closed")
            return value
        if token is None or token in "*/)":
            raise ToolError("A number is missing")
        # Whole numbers stay exact until the end.
        return float(token) if "." in token else int(token)

    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str | None:
        token = self._next()
        self._at += 1
        return token
