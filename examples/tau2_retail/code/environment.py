"""The shop's support desk: sixteen tools on its records, and a score of what they changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from tinker_episodes import Environment, Score, scorer, tool

from . import calculator, items, orders
from .goal import Goal, changes_of, differences, gold_changes
from .lookup import order_of, product_of, user_by_email, user_by_name_zip, user_of, variant_of
from .records import Address, Product, User, Variant, shown_order

OrderId = Annotated[str, "The order's id with its #, such as #W0000000"]
UserId = Annotated[str, "The user's id, such as first_last_0000"]
MethodId = Annotated[str, "The id of one of the user's payment methods"]
ItemIds = Annotated[list[str], "The item ids in the order, one entry a piece"]
NewItemIds = Annotated[list[str], "The item ids that replace them, in the same order"]


class Retail(Environment):
    """A shop's database, a policy to work by, and one user's request."""

    Params = Goal
    system_prompt = Path(__file__).with_name("policy.md").read_text(encoding="utf-8")

    # ------------------------------------------------------------ looking things up

    @tool
    def find_user_id_by_email(self, email: Annotated[str, "The user's email address"]) -> str:
        """Find a user by email address. Gives the user's id."""
        return user_by_email(self.universe, email)["user_id"]

    @tool
    def find_user_id_by_name_zip(
        self,
        first_name: Annotated[str, "The user's first name"],
        last_name: Annotated[str, "The user's last name"],
        zip: Annotated[str, "The zip code of the user's address"],
    ) -> str:
        """Find a user by name and zip code, if no email address is known. Gives the user's id."""
        return user_by_name_zip(self.universe, first_name, last_name, zip)["user_id"]

    @tool
    def get_user_details(self, user_id: UserId) -> User:
        """Read a user's profile: address, payment methods and the ids of all orders."""
        return user_of(self.universe, user_id)

    @tool
    def get_order_details(self, order_id: OrderId) -> dict[str, Any]:
        """Read an order: its status, items, address, parcels and payments."""
        return shown_order(order_of(self.universe, order_id))

    @tool
    def get_product_details(
        self, product_id: Annotated[str, "The product's id, which is not an item's"]
    ) -> Product:
        """Read a product: all of its variants with options, price and availability."""
        return product_of(self.universe, product_id)

    @tool
    def get_item_details(self, item_id: Annotated[str, "The item's id"]) -> Variant:
        """Read one variant of a product by its item id: options, price and availability."""
        return variant_of(self.universe, item_id)

    @tool
    def list_all_product_types(self) -> dict[str, str]:
        """List the names of all products with their product ids."""
        products = self.universe["products"].values()
        return dict(sorted((product["name"], product["product_id"]) for product in products))

    # ------------------------------------------------------------ pending orders

    @tool
    def cancel_pending_order(
        self,
        order_id: OrderId,
        reason: Annotated[str, "Either 'no longer needed' or 'ordered by mistake'"],
    ) -> dict[str, Any]:
        """Cancel a pending order. What was paid goes back to the payment method that paid it."""
        return shown_order(orders.cancel(self.universe, order_id, reason))

    @tool
    def modify_pending_order_address(
        self,
        order_id: OrderId,
        address1: Annotated[str, "Street and number"],
        address2: Annotated[str, "Apartment or suite; may be empty"],
        city: str,
        state: Annotated[str, "Such as CA"],
        country: Annotated[str, "Such as USA"],
        zip: str,
    ) -> dict[str, Any]:
        """Change where a pending order is sent. The user's own address stays as it is."""
        address = _address(address1, address2, city, state, country, zip)
        return shown_order(orders.change_address(self.universe, order_id, address))

    @tool
    def modify_pending_order_payment(
        self, order_id: OrderId, payment_method_id: MethodId
    ) -> dict[str, Any]:
        """Change which payment method pays a pending order. The one that paid is refunded."""
        return shown_order(orders.change_payment(self.universe, order_id, payment_method_id))

    @tool
    def modify_pending_order_items(
        self,
        order_id: OrderId,
        item_ids: ItemIds,
        new_item_ids: NewItemIds,
        payment_method_id: MethodId,
    ) -> dict[str, Any]:
        """Replace items of a pending order with other variants of the same products.

        It works once an order and nothing else can be changed after it: give all items at once.
        """
        changed = items.modify(self.universe, order_id, item_ids, new_item_ids, payment_method_id)
        return shown_order(changed)

    # ------------------------------------------------------------ delivered orders

    @tool
    def exchange_delivered_order_items(
        self,
        order_id: OrderId,
        item_ids: ItemIds,
        new_item_ids: NewItemIds,
        payment_method_id: MethodId,
    ) -> dict[str, Any]:
        """Exchange items of a delivered order for other variants of the same products.

        It works once an order: give all items at once.
        """
        changed = items.exchange(self.universe, order_id, item_ids, new_item_ids, payment_method_id)
        return shown_order(changed)

    @tool
    def return_delivered_order_items(
        self, order_id: OrderId, item_ids: ItemIds, payment_method_id: MethodId
    ) -> dict[str, Any]:
        """Return items of a delivered order, for a refund to what paid it or to a gift card.

        It works once an order: give all items at once.
        """
        return shown_order(items.give_back(self.universe, order_id, item_ids, payment_method_id))

    # ------------------------------------------------------------ the rest

    @tool
    def modify_user_address(
        self,
        user_id: UserId,
        address1: Annotated[str, "Street and number"],
        address2: Annotated[str, "Apartment or suite; may be empty"],
        city: str,
        state: Annotated[str, "Such as CA"],
        country: Annotated[str, "Such as USA"],
        zip: str,
    ) -> User:
        """Change a user's default address. Orders that exist already stay as they are."""
        user_of(self.universe, user_id)
        own: User = self.universe["users"][user_id]
        own["address"] = _address(address1, address2, city, state, country, zip)
        return own

    @tool
    def calculate(
        self,
        expression: Annotated[str, "Numbers with + - * / and parentheses, such as (1 + 2) * 3"],
    ) -> str:
        """Work out a sum. The result is rounded to two decimals."""
        return calculator.calculate(expression)

    @tool
    def transfer_to_human_agents(
        self, summary: Annotated[str, "What the user wants and why the tools can't do it"]
    ) -> str:
        """Hand the user over to a person. Only for what the other tools and the policy can't do."""
        return "Transfer successful"

    # ------------------------------------------------------------ the score

    @scorer
    async def database(self) -> Score:
        """1 where the database has changed just as the task's gold actions change it."""
        assert isinstance(self.task.params, Goal)
        expected = await gold_changes(self, self.task.params)
        differing = differences(expected, changes_of(self.universe))
        if not differing:
            return Score(1.0, f"the changes are right: {', '.join(expected) or 'none'}")
        wrong = "; ".join(f"{what}: {', '.join(part)}" for what, part in differing.items())
        return Score(0.0, f"records differ from the right ones ({wrong})", differing)


def _address(
    address1: str, address2: str, city: str, state: str, country: str, zip_code: str
) -> Address:
    return {
        "address1": address1,
        "address2": address2,
        "city": city,
        "country": country,
        "state": state,
        "zip": zip_code,
    }
