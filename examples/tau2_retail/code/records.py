"""What the shop's records are, and the form in which tools and scores show them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Address(TypedDict):
    """Where a user lives, or where an order goes."""

    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


class Item(TypedDict):
    """One piece of an order."""

    name: str
    product_id: str
    item_id: str
    price: float
    options: dict[str, str]


class Fulfillment(TypedDict):
    """One parcel of an order."""

    tracking_id: list[str]
    item_ids: list[str]


class Payment(TypedDict):
    """Money that a payment method paid or got back."""

    transaction_type: Literal["payment", "refund"]
    amount: float
    payment_method_id: str


class Order(TypedDict):
    """An order. The fields that only some actions fill are absent until then."""

    order_id: str
    user_id: str
    address: Address
    items: list[Item]
    status: str
    fulfillments: list[Fulfillment]
    payment_history: list[Payment]
    cancel_reason: NotRequired[str]
    exchange_items: NotRequired[list[str]]
    exchange_new_items: NotRequired[list[str]]
    exchange_payment_method_id: NotRequired[str]
    exchange_price_difference: NotRequired[float]
    return_items: NotRequired[list[str]]
    return_payment_method_id: NotRequired[str]


class Variant(TypedDict):
    """One choice of a product's options."""

    item_id: str
    options: dict[str, str]
    available: bool
    price: float


class Product(TypedDict):
    """A type of product and its variants by item id."""

    name: str
    product_id: str
    variants: dict[str, Variant]


class PaymentMethod(TypedDict):
    """A credit card, a PayPal account or a gift card: only the last has a balance."""

    source: str
    id: str
    brand: NotRequired[str]
    last_four: NotRequired[str]
    balance: NotRequired[float]


class Name(TypedDict):
    """A user's name."""

    first_name: str
    last_name: str


class User(TypedDict):
    """A user's profile."""

    user_id: str
    name: Name
    address: Address
    email: str
    payment_methods: dict[str, PaymentMethod]
    orders: list[str]


_FILLED_BY_ACTIONS = (
    "cancel_reason",
    "exchange_items",
    "exchange_new_items",
    "exchange_payment_method_id",
    "exchange_price_difference",
    "return_items",
    "return_payment_method_id",
)


def shown_order(order: Order) -> dict[str, Any]:
    """An order with every field there is, null where no action has filled it."""
    always = {key: value for key, value in order.items() if key not in _FILLED_BY_ACTIONS}
    return always | {key: order.get(key) for key in _FILLED_BY_ACTIONS}


def shown(table: str, record: Any) -> Any:
    """A record of any table in the form that outputs have."""
    return shown_order(record) if table == "orders" and record is not None else record
