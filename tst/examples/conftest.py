"""The retail example: its command, a tiny shop as a bundle, and the benchmark if it is at hand."""

from __future__ import annotations

import importlib.util
import json
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinker_episodes import Bundle, find_bundle

RETAIL = Path(__file__).parents[2] / "examples" / "tau2_retail"
HOME = {
    "address1": "1 Old Road",
    "address2": "",
    "city": "Town",
    "country": "USA",
    "state": "CA",
    "zip": "90001",
}


def _variant(item_id: str, color: str, price: float, *, available: bool = True) -> dict[str, Any]:
    return {
        "item_id": item_id,
        "options": {"color": color},
        "available": available,
        "price": price,
    }


def _product(product_id: str, name: str, *variants: dict[str, Any]) -> dict[str, Any]:
    by_id = {variant["item_id"]: variant for variant in variants}
    return {"name": name, "product_id": product_id, "variants": by_id}


_PRODUCTS = {
    "p1": _product(
        "p1",
        "Mug",
        _variant("11", "red", 10.0),
        _variant("12", "blue", 12.5),
        _variant("13", "green", 9.1, available=False),
        _variant("14", "white", 10.0),
    ),
    "p2": _product(
        "p2",
        "Hat",
        _variant("21", "red", 20.1),
        _variant("22", "blue", 35.15),
        _variant("23", "white", 20.17),
        _variant("24", "black", 18.05),
    ),
}


def _order(order_id: str, user: str, status: str, paid_by: str, *items: str) -> dict[str, Any]:
    bought: list[dict[str, Any]] = []
    for item_id in items:
        product = next(p for p in _PRODUCTS.values() if item_id in p["variants"])
        variant = product["variants"][item_id]
        kept = {key: variant[key] for key in ("item_id", "price", "options")}
        bought.append({"name": product["name"], "product_id": product["product_id"], **kept})
    total = round(sum(item["price"] for item in bought), 2)
    payment = {"transaction_type": "payment", "amount": total, "payment_method_id": paid_by}
    return {
        "order_id": order_id,
        "user_id": user,
        "address": HOME,
        "items": bought,
        "status": status,
        "fulfillments": [],
        "payment_history": [payment],
    }


def _user(user_id: str, first: str, last: str, *methods: dict[str, Any]) -> dict[str, Any]:
    return {
        "user_id": user_id,
        "name": {"first_name": first, "last_name": last},
        "address": HOME,
        "email": f"{first}.{last}@example.com".lower(),
        "payment_methods": {method["id"]: method for method in methods},
        "orders": [],
    }


def _method(source: str, number: int, **more: Any) -> dict[str, Any]:
    return {"source": source, "id": f"{source}_{number}", **more}


_ORDERS = [
    _order("#W1", "ana", "pending", "credit_card_1", "11", "11", "21"),
    _order("#W2", "ana", "delivered", "credit_card_1", "21", "11", "11"),
    _order("#W3", "ana", "processed", "credit_card_1", "11"),
    _order("#W4", "ana", "cancelled", "credit_card_1", "11"),
    _order("#W5", "ana", "pending", "gift_card_1", "21", "11"),
]
_USERS = [
    _user(
        "ana",
        "Ana",
        "Cruz",
        _method("credit_card", 1, brand="visa", last_four="0000"),
        _method("gift_card", 1, balance=3.0),
        _method("gift_card", 2, balance=40.2),
        _method("gift_card", 4, balance=0.07),
        _method("paypal", 1),
    ),
    _user("bo", "Bo", "Dean", _method("credit_card", 2), _method("gift_card", 3, balance=500.0)),
]
_CANCEL = {
    "name": "cancel_pending_order",
    "arguments": {"order_id": "#W5", "reason": "no longer needed"},
}
_LOOK = {"name": "get_order_details", "arguments": {"order_id": "#W9"}}


def _task(id: str, *actions: dict[str, Any]) -> dict[str, Any]:
    told = {"reason_for_call": f"Request {id}.", "known_info": "Ana.", "unknown_info": None}
    return {
        "id": id,
        "user_scenario": {"persona": None, "instructions": {**told, "task_instructions": "."}},
        "evaluation_criteria": {"actions": list(actions), "nl_assertions": None},
    }


def write_tiny_data(folder: Path) -> Path:
    """A folder as the benchmark has it, of a shop of our own."""
    folder.mkdir(parents=True)
    database = {
        "orders": {order["order_id"]: order for order in _ORDERS},
        "users": {user["user_id"]: user for user in _USERS},
        "products": _PRODUCTS,
    }
    tasks = [_task("0", _LOOK, _CANCEL), _task("1", _LOOK), _task("2", _CANCEL), _task("3", _LOOK)]
    splits = {"train": ["0", "1"], "test": ["2", "3"], "base": ["0", "1", "2", "3"]}
    files = {"db": database, "tasks": tasks, "split_tasks": splits}
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    (folder / "policy.md").write_text("Be kind.\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def retail_command() -> Iterator[types.ModuleType]:
    """`make_bundle.py`, imported as the script is: with its own folder on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(RETAIL))
        spec = importlib.util.spec_from_file_location("make_bundle", RETAIL / "make_bundle.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def tiny_data(tmp_path: Path) -> Path:
    return write_tiny_data(tmp_path / "data")


@pytest.fixture(scope="session")
def tiny_retail(
    retail_command: types.ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Bundle:
    folder = tmp_path_factory.mktemp("tiny")
    retail_command.make(write_tiny_data(folder / "data"), folder / "retail")
    return find_bundle(str(folder / "retail"))


@pytest.fixture(scope="session")
def tau2_data() -> Path:
    """The benchmark's data with its gold results; skips where it is not at hand."""
    beside = Path(__file__).parents[3] / "shared" / "data" / "tau2-retail"
    folder = Path(os.environ.get("TAU2_RETAIL_DATA", beside))
    if not (folder / "gold.json").is_file():
        pytest.skip(f"no tau2-bench data with gold.json in {folder}; TAU2_RETAIL_DATA names it")
    return folder


@pytest.fixture(scope="session")
def tau2_retail(
    retail_command: types.ModuleType, tau2_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bundle:
    folder = tmp_path_factory.mktemp("tau2") / "retail"
    retail_command.make(tau2_data, folder)
    return find_bundle(str(folder))
