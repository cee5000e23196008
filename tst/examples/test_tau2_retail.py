"""The retail example: each tool's contract on a tiny shop, and the gold results where they are."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinker_episodes import Bundle, Call, CallResult, Episode, Message, Outcome, ToolError
from tinker_episodes.tools import tools_of

CARD, GIFT_3, GIFT_40, PAYPAL = "credit_card_1", "gift_card_1", "gift_card_2", "paypal_1"
NEW_HOME = {
    "address1": "2 New Road",
    "address2": "",
    "city": "City",
    "country": "USA",
    "state": "NY",
    "zip": "1",
}
OPTIONAL = (
    "cancel_reason",
    "exchange_items",
    "exchange_new_items",
    "exchange_payment_method_id",
    "exchange_price_difference",
    "return_items",
    "return_payment_method_id",
)

Step = tuple[str, Mapping[str, Any]]


async def play(
    bundle: Bundle, *steps: Step, task: str = "0"
) -> tuple[tuple[CallResult, ...], Outcome]:
    """One episode in which the model makes these calls in one reply."""
    episode = Episode(bundle.environment, bundle.tasks[task], data=bundle.universe)
    await episode.open()
    episode.record(Message("assistant", "", tuple(Call(name, given) for name, given in steps)))
    return await episode.run_calls(), await episode.close()


async def answer(bundle: Bundle, name: str, **arguments: Any) -> Any:
    """What a call is answered with where it succeeds."""
    (result,), _ = await play(bundle, (name, arguments))
    assert not result.error, result.content
    return json.loads(str(result.content))


def swap(order: str, old: list[str], new: list[str], method: str) -> dict[str, Any]:
    return {
        "order_id": order,
        "item_ids": old,
        "new_item_ids": new,
        "payment_method_id": method,
    }


def give_back(order: str, items: list[str], method: str) -> dict[str, Any]:
    return {"order_id": order, "item_ids": items, "payment_method_id": method}


def cancel(order: str, reason: str = "no longer needed") -> dict[str, Any]:
    return {"order_id": order, "reason": reason}


def pay_with(order: str, method: str) -> dict[str, Any]:
    return {"order_id": order, "payment_method_id": method}


def normal(table: str, record: Any) -> Any:
    return {**dict.fromkeys(OPTIONAL), **record} if table == "orders" else record


def changed(outcome: Outcome) -> dict[str, Any]:
    return {f"{c.table}/{c.key}": normal(c.table, c.after) for c in outcome.changes}


def balance(outcome: Outcome, method: str) -> float:
    return changed(outcome)["users/ana"]["payment_methods"][method]["balance"]


def part(bundle: Bundle, name: str) -> types.ModuleType:
    """A module of the bundle's own package."""
    return sys.modules[f"{bundle.environment.__module__.rpartition('.')[0]}.{name}"]


# ---------------------------------------------------------------- refusals

MODIFY, EXCHANGE, RETURN = (
    "modify_pending_order_items",
    "exchange_delivered_order_items",
    "return_delivered_order_items",
)
CANCEL, PAYMENT, ADDRESS = (
    "cancel_pending_order",
    "modify_pending_order_payment",
    "modify_pending_order_address",
)

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("find_user_id_by_email", {"email": "no@example.com"}, "Error: User not found"),
    (
        "find_user_id_by_name_zip",
        {"first_name": "Ana", "last_name": "Cruz", "zip": "90002"},
        "Error: User not found",
    ),
    ("get_user_details", {"user_id": "cy"}, "Error: User not found"),
    ("get_order_details", {"order_id": "W1"}, "Error: Order not found"),
    ("get_product_details", {"product_id": "11"}, "Error: Product not found"),
    ("get_item_details", {"item_id": "p1"}, "Error: Item not found"),
    ("modify_user_address", {"user_id": "cy", **NEW_HOME}, "Error: User not found"),
    (CANCEL, cancel("#W9"), "Error: Order not found"),
    (CANCEL, cancel("#W2"), "status is 'delivered'"),
    (CANCEL, cancel("#W3"), "status is 'processed'"),
    (CANCEL, cancel("#W4"), "status is 'cancelled'"),
    (CANCEL, cancel("#W1", "changed my mind"), "'changed my mind' is not accepted"),
    (CANCEL, cancel("#W1", ""), "is not accepted"),
    (ADDRESS, {"order_id": "#W9", **NEW_HOME}, "Error: Order not found"),
    (ADDRESS, {"order_id": "#W3", **NEW_HOME}, "status is 'processed'"),
    (PAYMENT, pay_with("#W9", PAYPAL), "Error: Order not found"),
    (PAYMENT, pay_with("#W2", PAYPAL), "status is 'delivered'"),
    (PAYMENT, pay_with("#W1", "paypal_9"), "Payment method not found"),
    (PAYMENT, pay_with("#W1", "credit_card_2"), "Payment method not found"),
    (PAYMENT, pay_with("#W1", CARD), "by that method already"),
    (PAYMENT, pay_with("#W1", GIFT_3), "Insufficient gift card balance"),
    (MODIFY, swap("#W9", ["11"], ["12"], CARD), "Error: Order not found"),
    (MODIFY, swap("#W2", ["11"], ["12"], CARD), "status is 'delivered'"),
    (MODIFY, swap("#W1", [], [], CARD), "at least one item"),
    (MODIFY, swap("#W1", ["11", "11"], ["12"], CARD), "2 items and 1 new ones"),
    (MODIFY, swap("#W1", ["11"], ["12", "14"], CARD), "1 items and 2 new ones"),
    (MODIFY, swap("#W1", ["12"], ["11"], CARD), "'12' is not 1 times in the order"),
    (MODIFY, swap("#W1", ["11"] * 3, ["12"] * 3, CARD), "'11' is not 3 times in the order"),
    (MODIFY, swap("#W1", ["11"], ["22"], CARD), "'22' is no variant of Mug"),
    (MODIFY, swap("#W1", ["11"], ["p1"], CARD), "'p1' is no variant of Mug"),
    (MODIFY, swap("#W1", ["11"], ["13"], CARD), "'13' is not available"),
    (MODIFY, swap("#W1", ["11"], ["11"], CARD), "'11' is the old one"),
    (MODIFY, swap("#W1", ["11", "21"], ["12", "21"], CARD), "'21' is the old one"),
    (MODIFY, swap("#W1", ["11"], ["12"], "credit_card_2"), "Payment method not found"),
    (
        MODIFY,
        swap("#W1", ["11", "21"], ["12", "22"], GIFT_3),
        "Error: Insufficient gift card balance to pay for the price difference",
    ),
    (EXCHANGE, swap("#W1", ["11"], ["12"], CARD), "status is 'pending'"),
    (EXCHANGE, swap("#W2", [], [], CARD), "at least one item"),
    (EXCHANGE, swap("#W2", ["11"], [], CARD), "1 items and 0 new ones"),
    (EXCHANGE, swap("#W2", ["11"] * 3, ["12"] * 3, CARD), "'11' is not 3 times"),
    (EXCHANGE, swap("#W2", ["11"], ["22"], CARD), "no variant of Mug"),
    (EXCHANGE, swap("#W2", ["11"], ["13"], CARD), "not available"),
    (EXCHANGE, swap("#W2", ["11"], ["11"], CARD), "is the old one"),
    (EXCHANGE, swap("#W2", ["11"], ["12"], "gift_card_3"), "Payment method not found"),
    (
        EXCHANGE,
        swap("#W2", ["11", "11"], ["12", "12"], GIFT_3),
        "Error: Insufficient gift card balance to pay for the price difference",
    ),
    (RETURN, give_back("#W9", ["11"], CARD), "Error: Order not found"),
    (RETURN, give_back("#W1", ["11"], CARD), "status is 'pending'"),
    (RETURN, give_back("#W2", [], CARD), "at least one item"),
    (RETURN, give_back("#W2", ["12"], CARD), "'12' is not 1 times"),
    (RETURN, give_back("#W2", ["21", "21"], CARD), "'21' is not 2 times"),
    (RETURN, give_back("#W2", ["11"], PAYPAL), "original payment method or to a gift card"),
    (RETURN, give_back("#W2", ["11"], "gift_card_3"), "Payment method not found"),
    (RETURN, {**give_back("#W2", [], CARD), "item_ids": "11"}, "does not fit"),
    (RETURN, {**give_back("#W2", [], CARD), "item_ids": [11]}, "does not fit"),
    (CANCEL, {"order_id": "#W1"}, "missing: reason"),
    (CANCEL, {**cancel("#W1"), "refund": True}, "there is no argument"),
    ("get_order_details", {"order_id": 1}, "does not fit"),
    ("get_order_details", {"order_id": None}, "does not fit"),
    ("calculate", {"expression": "2 ** 3"}, "A number is missing"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), REFUSED)
async def test_refused_call_says_why_and_changes_nothing(
    tiny_retail: Bundle, name: str, arguments: dict[str, Any], message: str
) -> None:
    (result,), outcome = await play(tiny_retail, (name, arguments), task="1")
    assert result.error
    assert str(result.content).startswith("Error: ")
    assert message in str(result.content)
    assert outcome.changes == ()
    assert outcome.reward == 1.0  # task 1 is one where nothing is to change


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((CANCEL, cancel("#W1")), (CANCEL, cancel("#W1")), "'cancelled'"),
        ((PAYMENT, pay_with("#W1", PAYPAL)), (PAYMENT, pay_with("#W1", CARD)), "changed already"),
        (
            (EXCHANGE, swap("#W2", ["11"], ["12"], CARD)),
            (RETURN, give_back("#W2", ["21"], CARD)),
            "'exchange requested'",
        ),
        (
            (RETURN, give_back("#W2", ["21"], CARD)),
            (EXCHANGE, swap("#W2", ["11"], ["12"], CARD)),
            "'return requested'",
        ),
        *(
            ((MODIFY, swap("#W1", ["11"], ["12"], CARD)), second, "'pending (item modified)'")
            for second in (
                (MODIFY, swap("#W1", ["11"], ["12"], CARD)),
                (CANCEL, cancel("#W1")),
                (PAYMENT, pay_with("#W1", PAYPAL)),
                (ADDRESS, {"order_id": "#W1", **NEW_HOME}),
            )
        ),
    ],
)
async def test_second_action_on_an_order_is_refused(
    tiny_retail: Bundle, first: Step, second: Step, message: str
) -> None:
    (done, refused), outcome = await play(tiny_retail, first, second)
    _, alone = await play(tiny_retail, first)
    assert not done.error
    assert refused.error and message in str(refused.content)
    assert outcome.changes == alone.changes


# ---------------------------------------------------------------- what tools do


async def test_users_are_found_in_whatever_case(tiny_retail: Bundle) -> None:
    by_email = ("find_user_id_by_email", {"email": "ANA.Cruz@Example.com"})
    by_name = (
        "find_user_id_by_name_zip",
        {"first_name": "ana", "last_name": "CRUZ", "zip": "90001"},
    )
    results, _ = await play(tiny_retail, by_email, by_name)
    assert [result.content for result in results] == ["ana", "ana"]


async def test_products_are_listed_by_name(tiny_retail: Bundle) -> None:
    listed = await answer(tiny_retail, "list_all_product_types")
    assert list(listed.items()) == [("Hat", "p2"), ("Mug", "p1")]


async def test_item_is_read_by_its_own_id(tiny_retail: Bundle) -> None:
    item = await answer(tiny_retail, "get_item_details", item_id="22")
    assert item == {
        "item_id": "22",
        "options": {"color": "blue"},
        "available": True,
        "price": 35.15,
    }


async def test_order_shows_the_fields_that_no_action_has_filled(tiny_retail: Bundle) -> None:
    order = await answer(tiny_retail, "get_order_details", order_id="#W1")
    assert tuple(order)[-7:] == OPTIONAL
    assert {order[key] for key in OPTIONAL} == {None}


async def test_cancelled_order_is_refunded_to_its_gift_card_at_once(tiny_retail: Bundle) -> None:
    _, outcome = await play(tiny_retail, (CANCEL, cancel("#W5", "ordered by mistake")))
    order = changed(outcome)["orders/#W5"]
    assert (order["status"], order["cancel_reason"]) == ("cancelled", "ordered by mistake")
    assert order["payment_history"][1:] == [
        {"transaction_type": "refund", "amount": 30.1, "payment_method_id": GIFT_3}
    ]
    assert balance(outcome, GIFT_3) == 33.1


async def test_cancelled_order_is_refunded_to_the_method_that_pays_it_now(
    tiny_retail: Bundle,
) -> None:
    _, outcome = await play(
        tiny_retail, (PAYMENT, pay_with("#W5", PAYPAL)), (CANCEL, cancel("#W5"))
    )
    entries = changed(outcome)["orders/#W5"]["payment_history"]
    assert [(e["transaction_type"], e["payment_method_id"]) for e in entries] == [
        ("payment", GIFT_3),
        ("payment", PAYPAL),
        ("refund", GIFT_3),
        ("refund", PAYPAL),
    ]
    assert balance(outcome, GIFT_3) == 33.1


async def test_gift_card_pays_a_whole_order_to_the_last_cent(tiny_retail: Bundle) -> None:
    _, outcome = await play(tiny_retail, (PAYMENT, pay_with("#W1", GIFT_40)))
    assert changed(outcome)["orders/#W1"]["status"] == "pending"
    assert json.dumps(balance(outcome, GIFT_40)) == "0.1"


async def test_modified_items_are_paid_at_once(tiny_retail: Bundle) -> None:
    _, outcome = await play(tiny_retail, (MODIFY, swap("#W5", ["21"], ["22"], GIFT_40)))
    order = changed(outcome)["orders/#W5"]
    assert order["status"] == "pending (item modified)"
    assert order["items"][0]["item_id"] == "22"
    assert order["items"][0]["price"] == 35.15
    assert order["items"][0]["options"] == {"color": "blue"}
    assert order["payment_history"][1]["amount"] == 35.15 - 20.1
    assert order["payment_history"][1]["transaction_type"] == "payment"
    assert balance(outcome, GIFT_40) == 25.15


async def test_gift_card_that_holds_just_the_difference_pays_it(tiny_retail: Bundle) -> None:
    assert 20.17 - 20.1 > 0.07  # in floats
    _, outcome = await play(tiny_retail, (MODIFY, swap("#W5", ["21"], ["23"], "gift_card_4")))
    assert json.dumps(balance(outcome, "gift_card_4")) == "0.0"


@pytest.mark.parametrize(
    ("old", "new", "amount", "left"), [("21", "24", 2.0500000000000007, 5.05), ("11", "14", 0, 3)]
)
async def test_item_that_costs_no_more_is_refunded_at_once(
    tiny_retail: Bundle, old: str, new: str, amount: float, left: float
) -> None:
    call = (MODIFY, swap("#W5", [old], [new], GIFT_3))
    (result,), outcome = await play(tiny_retail, call)
    assert not result.error
    assert changed(outcome)["orders/#W5"]["payment_history"][1] == {
        "transaction_type": "refund",
        "amount": amount,
        "payment_method_id": GIFT_3,
    }
    user = changed(outcome).get("users/ana")  # not changed by a refund of nothing
    assert (3.0 if user is None else balance(outcome, GIFT_3)) == left


async def test_item_that_is_there_twice_can_be_modified_twice(tiny_retail: Bundle) -> None:
    new = ["12", "14"]
    _, outcome = await play(tiny_retail, (MODIFY, swap("#W1", ["11", "11"], new, GIFT_3)))
    order = changed(outcome)["orders/#W1"]
    assert [item["item_id"] for item in order["items"]] == ["12", "14", "21"]
    # As in the benchmark, each modified item shows the price and options of the last new one.
    assert [item["price"] for item in order["items"]] == [10.0, 10.0, 20.1]
    assert balance(outcome, GIFT_3) == 0.5


async def test_exchange_is_noted_and_not_paid(tiny_retail: Bundle) -> None:
    exchange = swap("#W2", ["21", "11"], ["22", "12"], GIFT_40)
    _, outcome = await play(tiny_retail, (EXCHANGE, exchange))
    before = await answer(tiny_retail, "get_order_details", order_id="#W2")
    assert changed(outcome) == {
        "orders/#W2": {
            **before,
            "status": "exchange requested",
            "exchange_items": ["11", "21"],
            "exchange_new_items": ["12", "22"],
            "exchange_payment_method_id": GIFT_40,
            "exchange_price_difference": 17.55,
        }
    }


@pytest.mark.parametrize("method", [CARD, GIFT_3])
async def test_return_is_noted_and_not_refunded(tiny_retail: Bundle, method: str) -> None:
    _, outcome = await play(tiny_retail, (RETURN, give_back("#W2", ["21", "11", "11"], method)))
    before = await answer(tiny_retail, "get_order_details", order_id="#W2")
    assert changed(outcome) == {
        "orders/#W2": {
            **before,
            "status": "return requested",
            "return_items": ["11", "11", "21"],
            "return_payment_method_id": method,
        }
    }


async def test_user_and_order_addresses_are_apart(tiny_retail: Bundle) -> None:
    _, of_user = await play(tiny_retail, ("modify_user_address", {"user_id": "ana", **NEW_HOME}))
    _, of_order = await play(tiny_retail, (ADDRESS, {"order_id": "#W1", **NEW_HOME}))
    assert list(changed(of_user)) == ["users/ana"]
    assert changed(of_user)["users/ana"]["address"] == NEW_HOME
    assert list(changed(of_order)) == ["orders/#W1"]
    assert changed(of_order)["orders/#W1"]["address"] == NEW_HOME


# ---------------------------------------------------------------- the score


async def test_gold_actions_score_one_and_other_changes_zero(tiny_retail: Bundle) -> None:
    right = (CANCEL, cancel("#W5"))
    other_reason = (CANCEL, cancel("#W5", "ordered by mistake"))
    too_much = ("modify_user_address", {"user_id": "bo", **NEW_HOME})
    rewards = [
        (await play(tiny_retail, *steps))[1].reward
        for steps in ((right,), (), (other_reason,), (right, too_much))
    ]
    assert rewards == [1.0, 0.0, 0.0, 0.0]


async def test_score_says_which_records_and_fields_differ(tiny_retail: Bundle) -> None:
    too_much = ("modify_user_address", {"user_id": "bo", **NEW_HOME})
    wrong = (CANCEL, cancel("#W5", "ordered by mistake"))
    _, outcome = await play(tiny_retail, wrong, too_much)
    score = outcome.scores["database"]
    assert "different: orders/#W5" in score.explanation
    assert "unexpected: users/bo" in score.explanation
    assert score.evidence["different"]["orders/#W5"] == {
        "cancel_reason": {"expected": "no longer needed", "found": "ordered by mistake"}
    }
    json.dumps(score.evidence)


async def test_change_that_is_taken_back_is_none(tiny_retail: Bundle) -> None:
    home = (await answer(tiny_retail, "get_user_details", user_id="ana"))["address"]
    away = ("modify_user_address", {"user_id": "ana", **NEW_HOME})
    back = ("modify_user_address", {"user_id": "ana", **home})
    _, outcome = await play(tiny_retail, away, back, task="1")
    assert outcome.changes == ()
    assert outcome.reward == 1.0


# ---------------------------------------------------------------- whatever a model may write

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


# ---------------------------------------------------------------- the command


def test_command_writes_splits_and_tags(tiny_retail: Bundle) -> None:
    splits = {name: [t.id for t in tiny_retail.split(name)] for name in ["all", *tiny_retail.evals]}
    assert splits == {
        "all": ["0", "1"],
        "train": ["0", "1"],
        "train_changed": ["0"],
        "test": ["2", "3"],
        "test_changed": ["2"],
    }
    tags = {id: task.tags for id, task in tiny_retail.tasks.items()}
    assert tags == {"0": ("cancel",), "1": ("unchanged",), "2": ("cancel",), "3": ("unchanged",)}


async def test_policy_is_the_system_prompt_and_the_request_the_prompt(tiny_retail: Bundle) -> None:
    episode = Episode(tiny_retail.environment, tiny_retail.tasks["0"], data=tiny_retail.universe)
    prompt = await episode.open()
    assert prompt.system_prompt == "Be kind.\n"
    assert "Request 0." in prompt.text
    assert "Ana." in prompt.text
    assert "does not know" not in prompt.text
    assert "behaves" not in prompt.text
    await episode.abandon("read")


def test_gold_actions_take_the_names_of_the_tools_alone(tiny_retail: Bundle) -> None:
    params = tiny_retail.environment.Params
    assert params is not None
    names = params.model_json_schema()["$defs"]["Action"]["properties"]["name"]["enum"]
    assert sorted(names) == sorted(types_of(tiny_retail))


def test_command_writes_its_own_bundle_anew(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "retail"
    retail_command.main(str(tiny_data), str(out))
    (out / "mine.txt").write_text("mine")
    (out / "policy.md").write_text("old")
    retail_command.main(str(tiny_data), str(out))
    assert (out / "policy.md").read_text() == "Be kind.\n"
    assert (out / "mine.txt").read_text() == "mine"
    assert [path.name for path in out.parent.iterdir()] == ["retail"]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("db.json", None, "there is no file .*db.json"),
        ("policy.md", None, "there is no file .*policy.md"),
        ("db.json", "{", "db.json is not JSON: line 1"),
        ("db.json", "[]", "db.json: Input should be a valid dictionary"),
        ("db.json", '{"flights": {}}', "'orders' must be an object of records"),
        (
            "db.json",
            '{"orders": {"#W1": 3}, "users": {}, "products": {}}',
            "orders.#W1: 'order_id' must be of type str",
        ),
        ("tasks.json", '[{"id": "0"}]', "0.user_scenario: Field required"),
        ("tasks.json", "[]", "there is no task '0' in tasks.json"),
        ("split_tasks.json", '{"train": []}', "there is no split 'test'"),
        ("split_tasks.json", '{"train": ["0"], "test": []}', "task '1' is in no split"),
        (
            "split_tasks.json",
            '{"train": ["0", "1", "2", "3"], "test": ["3"]}',
            "task '3' is in train and test",
        ),
        ("split_tasks.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_wrong_data_is_refused_in_one_line(
    retail_command: types.ModuleType,
    tiny_data: Path,
    tmp_path: Path,
    file: str,
    text: str | None,
    message: str,
) -> None:
    if text is None:
        (tiny_data / file).unlink()
    else:
        (tiny_data / file).write_text(text)
    with pytest.raises(SystemExit, match=message) as refused:
        retail_command.main(str(tiny_data), str(tmp_path / "out"))
    assert "\n" not in str(refused.value.code)
    assert not (tmp_path / "out").exists()


def test_data_that_is_not_utf8_is_refused(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    (tiny_data / "policy.md").write_bytes(b"\xff")
    with pytest.raises(SystemExit, match="is not UTF-8"):
        retail_command.main(str(tiny_data), str(tmp_path / "out"))


def test_task_with_an_unknown_tool_is_refused(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    text = (tiny_data / "tasks.json").read_text()
    (tiny_data / "tasks.json").write_text(text.replace("get_order_details", "book_flight"))
    with pytest.raises(SystemExit, match="book_flight"):
        retail_command.main(str(tiny_data), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_command_does_not_write_where_something_else_is(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    other, file = tmp_path / "other", tmp_path / "file"
    other.mkdir()
    (other / "bundle.toml").write_text('name = "other"')
    file.write_text("")
    for out, message in ((other, "holds no tau2_retail bundle"), (file, "is a file")):
        with pytest.raises(SystemExit, match=message):
            retail_command.main(str(tiny_data), str(out))
    with pytest.raises(SystemExit, match="holds no tau2_retail bundle"):
        retail_command.main(str(tiny_data), str(tiny_data))
    with pytest.raises(SystemExit, match="there is no folder"):
        retail_command.main(str(tmp_path / "none"), str(tmp_path / "out"))
    source = Path(retail_command.__file__ or "").with_name("code")
    with pytest.raises(SystemExit, match="holds the bundle's source"):
        retail_command.main(str(tiny_data), str(source))


@pytest.mark.parametrize("arguments", [[], ["data=here"], ["data=none", "out=x"], ["daat=x"]])
def test_command_line_mistake_gives_no_traceback(
    retail_command: types.ModuleType, tmp_path: Path, arguments: list[str]
) -> None:
    script = str(retail_command.__file__)
    env = {key: value for key, value in os.environ.items() if key != "PYTEST_VERSION"}
    done = subprocess.run(
        [sys.executable, script, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- the benchmark's gold results


@functools.cache
def types_of(bundle: Bundle) -> dict[str, dict[str, str]]:
    """Each tool's arguments and their types, in the words of gold.json."""
    found: dict[str, dict[str, str]] = {}
    for name, tool in tools_of(bundle.environment).items():
        found[name] = {key: _type(schema) for key, schema in tool.schema["properties"].items()}
        assert sorted(tool.schema.get("required", [])) == sorted(found[name])
        assert tool.description
    return found


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema["type"]
    return f"array of {schema['items']['type']}" if kind == "array" else kind


def test_tools_and_types_are_those_of_the_benchmark(tau2_retail: Bundle, tau2_data: Path) -> None:
    listed = json.loads((tau2_data / "gold.json").read_text())["tools"]
    assert types_of(tau2_retail) == {name: tool["parameters"] for name, tool in listed.items()}


async def test_gold_plays_give_the_gold_outputs_changes_and_reward(
    tau2_retail: Bundle, tau2_data: Path
) -> None:
    for gold in json.loads((tau2_data / "gold.json").read_text())["tasks"]:
        steps = [(call["name"], call["arguments"]) for call in gold["calls"]]
        results, outcome = await play(tau2_retail, *steps, task=gold["task"])
        answers = [(result.content, result.error) for result in results]
        assert answers == [(call["output"], call["error"]) for call in gold["calls"]], gold["task"]
        assert changed(outcome) == gold["changed"], gold["task"]
        assert outcome.reward == 1.0, gold["task"]


async def test_gold_plays_end_in_the_gold_database(tau2_retail: Bundle, tau2_data: Path) -> None:
    gold = json.loads((tau2_data / "gold.json").read_text())
    base = json.loads((tau2_data / "db.json").read_text())
    base["orders"] = {key: normal("orders", order) for key, order in base["orders"].items()}
    assert _sha256(base) == gold["base_db_sha256"]
    for task in gold["tasks"]:
        steps = [(call["name"], call["arguments"]) for call in task["calls"]]
        _, outcome = await play(tau2_retail, *steps, task=task["task"])
        final = {name: dict(table) for name, table in base.items()}
        for change in outcome.changes:
            final[change.table][change.key] = normal(change.table, change.after)
        assert _sha256(final) == task["db_sha256"], task["task"]


def _sha256(database: Any) -> str:
    text = json.dumps(database, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


async def test_idle_agent_scores_where_nothing_is_to_change_alone(tau2_retail: Bundle) -> None:
    idle = {id for id in tau2_retail.tasks if (await play(tau2_retail, task=id))[1].reward}
    tagged = {id for id, task in tau2_retail.tasks.items() if "unchanged" in task.tags}
    assert len(tau2_retail.tasks) == 114
    known = {"10", "12", "24", "25", "50", "57", "62", "65", "67", "68", "105"}
    assert idle == tagged == known


def test_policy_of_the_benchmark_is_the_system_prompt(tau2_retail: Bundle, tau2_data: Path) -> None:
    policy = (tau2_data / "policy.md").read_text(encoding="utf-8")
    assert tau2_retail.environment.system_prompt == policy
