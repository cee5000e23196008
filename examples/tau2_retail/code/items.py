"""Actions on the items of an order: modifying, exchanging and returning them.

Each checks everything before it writes anything. An item that is named twice must be in the order
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinker_episodes import ToolError, Universe

from .lookup import order_of, payment_method_of, product_of, user_of
from .orders import require_status
from .payments import require_funds, settle
from .records import Item, Order, Variant


@dataclass(frozen=True, slots=True)
class _Swap:
    """One piece of an order and what takes its place."""

    place: int
    """Its index in the order's items."""
    old: Item
    new: Variant


def modify(
    universe: Universe, order_id: str, item_ids: Sequence[str], new_ids: Sequence[str], method: str
) -> Order:
    """Put other variants in a pending order and settle the price difference now. Once an order."""
    order = order_of(universe, order_id)
    require_status(order, "pending", "modified")
    swaps = _swaps(universe, order, item_ids, new_ids)
    difference = _price_difference(swaps)
    paying = payment_method_of(user_of(universe, order["user_id"]), method)
    require_funds(paying, difference, "the price difference")
    own: Order = universe["orders"][order_id]
    settle(universe, own, method, difference)
    _put(own, swaps)
    own["status"] = "pending (item modified)"
    return own


def _put(order: Order, swaps: Sequence[_Swap]) -> None:
    """Write the new items in the order.

    The benchmark writes the price and options of the last new item in every modified one, and its
    gold results hold that. What is paid is not touched by it.
    """
    last = swaps[-1].new
    for swap in swaps:
        item = order["items"][swap.place]
        item["item_id"] = swap.new["item_id"]
        item["price"] = last["price"]
        item["options"] = dict(last["options"])


def exchange(
    universe: Universe, order_id: str, item_ids: Sequence[str], new_ids: Sequence[str], method: str
) -> Order:
    """Note which items of a delivered order are to be exchanged. No money moves yet."""
    order = order_of(universe, order_id)
    require_status(order, "delivered", "exchanged")
    swaps = _swaps(universe, order, item_ids, new_ids)
    difference = round(_price_difference(swaps), 2) + 0.0
    paying = payment_method_of(user_of(universe, order["user_id"]), method)
    require_funds(paying, difference, "the price difference")
    own: Order = universe["orders"][order_id]
    own["status"] = "exchange requested"
    own["exchange_items"] = sorted(item_ids)
    own["exchange_new_items"] = sorted(new_ids)
    own["exchange_payment_method_id"] = method
    own["exchange_price_difference"] = difference
    return own


def give_back(universe: Universe, order_id: str, item_ids: Sequence[str], method: str) -> Order:
    """Note which items of a delivered order are to be returned. No money moves yet."""
    order = order_of(universe, order_id)
    require_status(order, "delivered", "returned")
    _places(order, item_ids)
    refunded = payment_method_of(user_of(universe, order["user_id"]), method)
    original = [entry["payment_method_id"] for entry in order["payment_history"][:1]]
    if method not in original and refunded["source"] != "gift_card":
        raise ToolError("The refund goes to the original payment method or to a gift card")
    own: Order = universe["orders"][order_id]
    own["status"] = "return requested"
    own["return_items"] = sorted(item_ids)
    own["return_payment_method_id"] = method
    return own


def _places(order: Order, item_ids: Sequence[str]) -> list[int]:
    """Where each item stands in the order; a repeated one stands at another place each time."""
    if not item_ids:
        raise ToolError("Give at least one item")
    free = list(enumerate(item["item_id"] for item in order["items"]))
    places: list[int] = []
    for item_id in item_ids:
        found = next((entry for entry in free if entry[1] == item_id), None)
        if found is None:
            times = item_ids.count(item_id)
            raise ToolError(f"Item {item_id[:80]!r} is not {times} times in the order")
        free.remove(found)
        places.append(found[0])
    return places


def _swaps(
    universe: Universe, order: Order, item_ids: Sequence[str], new_ids: Sequence[str]
) -> list[_Swap]:
    """The pairs of old and new, each an available other variant of the same product."""
    if len(item_ids) != len(new_ids):
        raise ToolError(
            f"{len(item_ids)} items and {len(new_ids)} new ones: give one new item for each"
        )
    swaps: list[_Swap] = []
    for place, new_id in zip(_places(order, item_ids), new_ids, strict=True):
        old = order["items"][place]
        swaps.append(_Swap(place, old, _replacement(universe, old, new_id)))
    return swaps


def _replacement(universe: Universe, old: Item, new_id: str) -> Variant:
    variant = product_of(universe, old["product_id"])["variants"].get(new_id)
    if variant is None:
        raise ToolError(f"New item {new_id[:80]!r} is no variant of {old['name']}")
    if new_id == old["item_id"]:
        raise ToolError(f"New item {new_id!r} is the old one: give another variant")
    if not variant["available"]:
        raise ToolError(f"New item {new_id!r} is not available")
    return variant


def _price_difference(swaps: Sequence[_Swap]) -> float:
    """What the new items cost more than the old ones, added up pair by pair."""
    total = 0.0
    for swap in swaps:
        total += swap.new["price"] - swap.old["price"]
    return total
