"""The retail example under whatever a model may write."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.retail import CARD, GIFT_3, GIFT_40, Step, part, play, types_of

from tinker_episodes import Bundle, ToolError

IDS = ["#W1", "#W2", "#W5", "#W9", "ana", "bo", "11", "12", "13", "21", "22", "p1", CARD, GIFT_3]
WORDS = st.sampled_from([*IDS, GIFT_40, "no longer needed", "", "1 + 1"])
VALUES = {"string": WORDS, "array": st.lists(st.sampled_from(["11", "12", "14", "21", "22"]))}
WRONG = st.none() | st.integers() | st.dictionaries(st.text(), st.text()) | st.text()


@st.composite
def steps_of(draw: st.DrawFn, bundle: Bundle) -> list[Step]:
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 6))):
        name, kinds = draw(st.sampled_from(sorted(types_of(bundle).items())))
        values = {k: VALUES["array" if "array" in kind else "string"] for k, kind in kinds.items()}
        right = st.fixed_dictionaries(values)
        steps.append((name, draw(right | st.dictionaries(st.sampled_from([*values, "x"]), WRONG))))
    return steps


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_calls_are_answered_and_refused_ones_change_nothing(
    tiny_retail: Bundle, data: st.DataObject
) -> None:
    steps = data.draw(steps_of(tiny_retail))
    results, outcome = asyncio.run(play(tiny_retail, *steps))
    kept = [step for step, result in zip(steps, results, strict=True) if not result.error]
    _, alone = asyncio.run(play(tiny_retail, *kept))
    assert outcome.changes == alone.changes
    assert outcome.reward == alone.reward


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3131.1 + 4777.75 + 367.38", "8276.23"),
        ("2 + 3 * (4 - 1) / 2", "6.5"),
        ("10 - 4 - 3", "3.0"),
        ("100 / 10 / 4", "2.5"),
        ("-(-2) * +3", "6.0"),
        (".5 + 1.", "1.5"),
        ("007", "7.0"),
        ("1 / 3", "0.33"),
        ("0 * -1.5", "0.0"),
        (" 1 ", "1.0"),
    ],
)
def test_sum_is_worked_out(tiny_retail: Bundle, expression: str, value: str) -> None:
    assert part(tiny_retail, "calculator").calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "number is missing"),
        ("1 +", "number is missing"),
        ("()", "number is missing"),
        ("2 ** 3", "number is missing"),
        ("7 // 2", "number is missing"),
        ("1 2", "'2' is not expected"),
        ("1.2.3", "is not expected"),
        ("(1", "not closed"),
        ("1)", "is not expected"),
        ("1 / 0", "divides by zero"),
        ("1 / (2 - 2.0)", "divides by zero"),
        ("9" * 400, "too large"),
        ("9" * 400 + ".0 * 2", "too large"),
        ("1+" * 500 + "1", "1001 characters"),
        ("(" * 60 + "1" + ")" * 60, "nested too deeply"),
        ("-" * 900 + "1", "nested too deeply"),
        ("__import__('os')", "'_' can't be read"),
        ("1e5", "'e' can't be read"),
        ("1\n+1", "can't be read"),
        ("١ + ١", "can't be read"),
        ("True", "'T' can't be read"),
        (".", "'.' can't be read"),
    ],
)
def test_what_is_no_sum_is_refused(tiny_retail: Bundle, expression: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        part(tiny_retail, "calculator").calculate(expression)


@given(expression=st.text() | st.text(alphabet="0123456789+-*/(). e_x", max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_number_or_refused(tiny_retail: Bundle, expression: str) -> None:
    try:
        value = part(tiny_retail, "calculator").calculate(expression)
    except ToolError:
        return
    assert not any(sign.isalpha() for sign in expression)
    float(value)


def _joined(pair: tuple[tuple[str, float], str, tuple[str, float]]) -> tuple[str, float]:
    (left, a), sign, (right, b) = pair
    value = a + b if sign == "+" else a - b if sign == "-" else a * b
    return f"({left} {sign} {right})", value


NUMBERS = st.integers(0, 99).map(lambda n: (str(n), n)) | st.integers(0, 9999).map(
    lambda n: (f"{n / 100:.2f}", n / 100)
)
SUMS = st.recursive(
    NUMBERS, lambda part: st.tuples(part, st.sampled_from("+-*"), part).map(_joined), max_leaves=12
)


@given(made=SUMS)
@settings(max_examples=200, deadline=None)
def test_sum_is_what_python_computes(tiny_retail: Bundle, made: tuple[str, float]) -> None:
    text, value = made
    assert part(tiny_retail, "calculator").calculate(text) == str(round(float(value), 2) + 0.0)
