"""Finding records. Nothing is copied: what comes back is for reading alone.

Whatever is not there is a `ToolError`, which the model sees as its call's result.
"""

from __future__ import annotations

from typing import Any

from tinker_episodes import ToolError, Universe

from .records import Order, PaymentMethod, Product, User, Variant


def order_of(universe: Universe, order_id: str) -> Order:
    """The order of an id, which starts with `#`."""
    return _record(universe, "orders", order_id, "Order not found")


def user_of(universe: Universe, user_id: str) -> User:
    """The user of an id."""
    return _record(universe, "users", user_id, "User not found")


def product_of(universe: Universe, product_id: str) -> Product:
    """The product of an id. An item's id is none of a product."""
    return _record(universe, "products", product_id, "Product not found")


def variant_of(universe: Universe, item_id: str) -> Variant:
    """The variant of an item id, whatever its product."""
    for product in universe["products"].values():
        if item_id in product["variants"]:
            return product["variants"][item_id]
    raise ToolError("Item not found")


def payment_method_of(user: User, payment_method_id: str) -> PaymentMethod:
    """One of the user's own payment methods."""
    method = user["payment_methods"].get(payment_method_id)
    if method is None:
        raise ToolError("Payment method not found")
    return method


def user_by_email(universe: Universe, email: str) -> User:
    """The user of an email address, in whatever case it is written."""
    wanted = email.casefold()
    for user in universe["users"].values():
        if user["email"].casefold() == wanted:
            return user
    raise ToolError("User not found")


def user_by_name_zip(universe: Universe, first_name: str, last_name: str, zip_code: str) -> User:
    """The user of a name, in whatever case it is written, and a zip code."""
    wanted = (first_name.casefold(), last_name.casefold(), zip_code)
    for user in universe["users"].values():
        name = user["name"]
        found = (
            name["first_name"].casefold(),
            name["last_name"].casefold(),
            user["address"]["zip"],
        )
        if found == wanted:
            return user
    raise ToolError("User not found")


def _record(universe: Universe, table: str, key: str, missing: str) -> Any:
    try:
        return universe[table].peek(key)
    except KeyError:
        raise ToolError(missing) from None
