"""The retail example's tools and score, on a tiny shop."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.retail import (
    CARD,
    GIFT_3,
    GIFT_40,
    NEW_HOME,
    OPTIONAL,
    PAYPAL,
    Step,
    answer,
    balance,
    cancel,
    changed,
    give_back,
    pay_with,
    play,
    swap,
)

from tinker_episodes import Bundle

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
