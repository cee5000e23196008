"""Money: what an order's payment methods paid, and gift cards, which alone hold a balance.

Amounts are computed with the plain floats of the data, in the order of the call; balances are
rounded to cents.
"""

from __future__ import annotations

from tinker_episodes import ToolError, Universe

from .records import Order, Payment, PaymentMethod, User


def require_funds(method: PaymentMethod, amount: float, purpose: str) -> None:
    """Refuse a gift card that holds less than `amount`. Other methods pay anything."""
    balance = method.get("balance")
    if balance is not None and balance < round(amount, 2):
        raise ToolError(f"Insufficient gift card balance to pay for {purpose}")


def pay(universe: Universe, order: Order, method_id: str, amount: float) -> None:
    """Enter a payment in the order's history and take it from the gift card, if it is one."""
    _enter(order, {"transaction_type": "payment", "amount": amount, "payment_method_id": method_id})
    _credit(universe, order["user_id"], method_id, -amount)


def refund(universe: Universe, order: Order, method_id: str, amount: float) -> None:
    """Enter a refund in the order's history and put it on the gift card, if it is one."""
    _enter(order, {"transaction_type": "refund", "amount": amount, "payment_method_id": method_id})
    _credit(universe, order["user_id"], method_id, amount)


def settle(universe: Universe, order: Order, method_id: str, difference: float) -> None:
    """Pay a price difference, or refund it where it is not above zero."""
    if difference > 0:
        pay(universe, order, method_id, difference)
    else:
        refund(universe, order, method_id, abs(difference))


def paid_by(order: Order) -> dict[str, float]:
    """What each payment method has paid for the order and not got back yet."""
    paid: dict[str, float] = {}
    for entry in order["payment_history"]:
        sign = 1 if entry["transaction_type"] == "payment" else -1
        before = paid.get(entry["payment_method_id"], 0.0)
        paid[entry["payment_method_id"]] = round(before + sign * entry["amount"], 2)
    return {method_id: amount for method_id, amount in paid.items() if amount > 0}


def _enter(order: Order, payment: Payment) -> None:
    order["payment_history"].append(payment)


def _credit(universe: Universe, user_id: str, method_id: str, amount: float) -> None:
    user: User = universe["users"].peek(user_id)
    known = user["payment_methods"].get(method_id)
    if known is None or "balance" not in known:
        return
    own: User = universe["users"][user_id]
    card = own["payment_methods"][method_id]
    # Adding zero turns a rounded -0.0 into 0.0.
    card["balance"] = round(card.get("balance", 0.0) + amount, 2) + 0.0
