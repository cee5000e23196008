"""Actions on a pending order as a whole: cancelling it, its address, its payment method.

Each checks everything before it writes anything.
"""

from __future__ import annotations

from tinker_episodes import ToolError, Universe

from .lookup import order_of, payment_method_of, user_of
from .payments import paid_by, pay, refund, require_funds
from .records import Address, Order

_REASONS = ("no longer needed", "ordered by mistake")


def require_status(order: Order, status: str, action: str) -> None:
    """Refuse an action that the order's status does not allow."""
    if order["status"] != status:
        raise ToolError(
            f"Order {order['order_id']} can't be {action}: its status is {order['status']!r}, "
            f"{status!r} is needed"
        )


def cancel(universe: Universe, order_id: str, reason: str) -> Order:
    """Cancel the order and refund each payment to where it came from."""
    order = order_of(universe, order_id)
    require_status(order, "pending", "cancelled")
    if reason not in _REASONS:
        known = " or ".join(repr(known) for known in _REASONS)
        raise ToolError(f"The reason {reason[:80]!r} is not accepted: give {known}")
    own: Order = universe["orders"][order_id]
    for method_id, amount in paid_by(own).items():
        refund(universe, own, method_id, amount)
    own["status"] = "cancelled"
    own["cancel_reason"] = reason
    return own


def change_address(universe: Universe, order_id: str, address: Address) -> Order:
    """Send the order elsewhere."""
    order = order_of(universe, order_id)
    require_status(order, "pending", "sent elsewhere")
    own: Order = universe["orders"][order_id]
    own["address"] = address
    return own


def change_payment(universe: Universe, order_id: str, payment_method_id: str) -> Order:
    """Have another method pay the whole order, and refund the one that paid it. Once an order."""
    order = order_of(universe, order_id)
    require_status(order, "pending", "paid otherwise")
    method = payment_method_of(user_of(universe, order["user_id"]), payment_method_id)
    history = order["payment_history"]
    if len(history) != 1 or history[0]["transaction_type"] != "payment":
        raise ToolError(f"The payment of order {order_id} was changed already")
    before, amount = history[0]["payment_method_id"], history[0]["amount"]
    if before == payment_method_id:
        raise ToolError("The order is paid by that method already: give another one")
    require_funds(method, amount, "the order")
    own: Order = universe["orders"][order_id]
    pay(universe, own, payment_method_id, amount)
    refund(universe, own, before, amount)
    return own
