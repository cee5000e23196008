from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinker_episodes import Universe, UniverseData
from tinker_episodes.errors import UniverseError
from tinker_episodes.universe import Change, ReadOnlyDict, ReadOnlyList, Table, freeze, thaw

ORDERS = {"#1": {"items": ["a", "b"], "paid": True}, "#2": {"items": [], "paid": False}}


def _data() -> UniverseData:
    return UniverseData(
        {"orders": ORDERS, "names": ["Ada", "Bob", {"first": "Cy"}], "notes": {"n": None}}
    )


def _universe() -> Universe:
    return Universe(_data())


# ---------------------------------------------------------------- what is shared is read-only

_WRITES_TO_A_DICT: dict[str, Callable[[Any], Any]] = {
    "set": lambda d: d.__setitem__("k", 1),
    "set anew": lambda d: d.__setitem__("new", 1),
    "del": lambda d: d.__delitem__("k"),
    "|=": lambda d: d.__ior__({"k": 1}),
    "clear": lambda d: d.clear(),
    "pop": lambda d: d.pop("k"),
    "pop default": lambda d: d.pop("nothing", None),
    "popitem": lambda d: d.popitem(),
    "setdefault": lambda d: d.setdefault("k", 1),
    "update": lambda d: d.update(k=1),
    "update nothing": lambda d: d.update(),
}

_WRITES_TO_A_LIST: dict[str, Callable[[Any], Any]] = {
    "set": lambda x: x.__setitem__(0, 1),
    "set slice": lambda x: x.__setitem__(slice(None), []),
    "del": lambda x: x.__delitem__(0),
    "+=": lambda x: x.__iadd__([1]),
    "*=": lambda x: x.__imul__(2),
    "append": lambda x: x.append(1),
    "clear": lambda x: x.clear(),
    "extend": lambda x: x.extend([1]),
    "insert": lambda x: x.insert(0, 1),
    "pop": lambda x: x.pop(),
    "remove": lambda x: x.remove(2),
    "reverse": lambda x: x.reverse(),
    "sort": lambda x: x.sort(),
    "sort by key": lambda x: x.sort(key=str, reverse=True),
}


def test_every_method_that_writes_is_tried() -> None:
    """A method that a later Python adds to `dict` or `list` must be refused too."""
    reads = {"copy", "get", "items", "keys", "values", "fromkeys", "count", "index"}
    named = {
        name
        for kind in (dict, list)
        for name in vars(kind)
        if not name.startswith("_") and name not in reads
    }
    tried = {name.split()[0] for name in (*_WRITES_TO_A_DICT, *_WRITES_TO_A_LIST)}
    assert named <= tried


@pytest.mark.parametrize("write", _WRITES_TO_A_DICT.values(), ids=_WRITES_TO_A_DICT)
def test_a_shared_object_refuses_every_write(write: Callable[[Any], Any]) -> None:
    shared = freeze({"k": {"deep": 1}})
    with pytest.raises(UniverseError, match=r"take the episode's own copy first"):
        write(shared)
    assert shared == {"k": {"deep": 1}}


@pytest.mark.parametrize("write", _WRITES_TO_A_LIST.values(), ids=_WRITES_TO_A_LIST)
def test_a_shared_array_refuses_every_write(write: Callable[[Any], Any]) -> None:
    shared = freeze([3, 2, 1])
    with pytest.raises(UniverseError, match=r"take the episode's own copy first"):
        write(shared)
    assert shared == [3, 2, 1]


def test_freezing_goes_all_the_way_down() -> None:
    shared = freeze({"a": [{"b": []}]})
    with pytest.raises(UniverseError):
        shared["a"][0]["b"].append(1)


def test_a_shared_value_is_a_dict_and_a_list_to_readers() -> None:
    shared = freeze({"a": [1]})
    assert isinstance(shared, dict)
    assert isinstance(shared["a"], list)
    assert json.dumps(shared) == '{"a": [1]}'
    assert {**shared, "b": 2} == {"a": [1], "b": 2}
    assert shared["a"] + [2] == [1, 2]


@pytest.mark.parametrize("copied", [thaw, copy.deepcopy], ids=["thaw", "deepcopy"])
def test_a_copy_of_a_shared_value_can_be_written(copied: Callable[[Any], Any]) -> None:
    shared = freeze({"a": [{"b": 1}]})
    own = copied(shared)
    own["a"][0]["b"] = 2
    own["a"].append(3)
    assert own == {"a": [{"b": 2}, 3]}
    assert shared == {"a": [{"b": 1}]}


def test_a_shared_array_can_be_deeply_copied() -> None:
    own = copy.deepcopy(freeze([[1]]))
    own[0].append(2)
    assert own == [[1, 2]]


def test_a_shared_value_stays_read_only_when_pickled() -> None:
    again = pickle.loads(pickle.dumps(freeze({"a": [1]})))
    assert type(again) is ReadOnlyDict
    assert type(again["a"]) is ReadOnlyList
    assert again == {"a": [1]}


# ---------------------------------------------------------------- records


def test_indexing_takes_the_episodes_own_copy() -> None:
    table = _universe()["orders"]
    table["#1"]["items"].append("c")
    assert table["#1"]["items"] == ["a", "b", "c"]


def test_a_taken_record_is_the_same_object_each_time() -> None:
    table = _universe()["orders"]
    assert table["#1"] is table["#1"]


def test_a_table_is_the_same_object_each_time() -> None:
    universe = _universe()
    assert universe["orders"] is universe["orders"]


def test_get_takes_the_episodes_own_copy() -> None:
    table = _universe()["orders"]
    table.get("#1")["paid"] = False
    assert table["#1"]["paid"] is False
    assert table.get("#9") is None


@pytest.mark.parametrize(
    "scan",
    [
        lambda table: next(iter(table.values())),
        lambda table: next(iter(table.items()))[1],
        lambda table: table.peek("#1"),
    ],
    ids=["values", "items", "peek"],
)
def test_a_scan_gives_read_only_records(scan: Callable[[Table], Any]) -> None:
    record = scan(_universe()["orders"])
    with pytest.raises(UniverseError):
        record["paid"] = False


def test_a_scan_copies_nothing() -> None:
    data = _data()
    first, second = Universe(data)["orders"], Universe(data)["orders"]
    pairs = zip(first.values(), second.values(), strict=True)
    assert all(one is other for one, other in pairs)
    assert list(first.changes()) == []


def test_a_scan_gives_the_own_copy_of_a_taken_record() -> None:
    table = _universe()["orders"]
    own = table["#2"]
    assert [record is own for record in table.values()] == [False, True]


def test_what_is_taken_made_or_deleted_during_a_scan_is_seen_as_it_is_by_then() -> None:
    orders = Universe(UniverseData({"orders": {"a": {"n": 1}, "b": {"n": 1}, "c": {"n": 1}}}))[
        "orders"
    ]
    seen: list[tuple[Any, Any]] = []
    for key, record in orders.items():
        if key == "a":
            orders["b"]["n"] = 2
            del orders["c"]
            orders["d"] = {"n": 3}
        seen.append((key, dict(record)))
    assert seen == [("a", {"n": 1}), ("b", {"n": 2}), ("d", {"n": 3})]
    assert list(orders) == ["a", "b", "d"]
    assert [record["n"] for record in orders.values()] == [1, 2, 3]


def test_a_deep_copy_of_a_scanned_record_can_be_written() -> None:
    record = copy.deepcopy(_universe()["orders"].peek("#1"))
    record["items"].append("c")
    assert record["items"] == ["a", "b", "c"]


def test_a_scanned_record_that_is_put_back_is_the_episodes_own() -> None:
    table = _universe()["orders"]
    table["#3"] = table.peek("#1")
    table["#3"]["items"].append("c")
    assert table["#3"]["items"] == ["a", "b", "c"]
    assert table["#1"]["items"] == ["a", "b"]


def test_peeking_at_nothing_is_a_key_error() -> None:
    table = _universe()["orders"]
    del table["#1"]
    for key in ("#1", "#9"):
        with pytest.raises(KeyError):
            table.peek(key)


def test_an_array_has_its_indices_as_keys() -> None:
    table = _universe()["names"]
    assert (list(table), table[1], len(table)) == ([0, 1, 2], "Bob", 3)
    table[2]["first"] = "Di"
    table[len(table)] = "Eve"
    assert list(table.values()) == ["Ada", "Bob", {"first": "Di"}, "Eve"]


def test_a_null_record_is_there() -> None:
    table = _universe()["notes"]
    assert "n" in table
    assert table["n"] is None
    assert "n" in table
    assert list(table.values()) == [None]


def test_a_record_that_is_set_to_null_is_there() -> None:
    table = _universe()["orders"]
    table["#1"] = None
    assert "#1" in table
    assert table.peek("#1") is None


@pytest.mark.parametrize("key", ["#9", 0, None, ("#1",)])
def test_what_is_not_there_is_not_in_the_table(key: object) -> None:
    assert key not in _universe()["orders"]


def test_a_key_that_is_not_there_is_a_key_error() -> None:
    table = _universe()["orders"]
    with pytest.raises(KeyError):
        _ = table["#9"]
    assert list(table) == ["#1", "#2"]


def test_a_deleted_record_is_gone() -> None:
    table = _universe()["orders"]
    del table["#1"]
    assert "#1" not in table
    assert (list(table), len(table)) == (["#2"], 1)
    with pytest.raises(KeyError):
        _ = table["#1"]
    with pytest.raises(KeyError):
        del table["#1"]


def test_a_new_record_comes_last() -> None:
    table = _universe()["orders"]
    table["#0"] = {}
    assert (list(table), len(table)) == (["#1", "#2", "#0"], 3)


def test_records_can_be_taken_while_keys_are_read() -> None:
    table = _universe()["orders"]
    for key in table:
        table[key]["paid"] = None
    for key in table:
        table[key]["paid"] = 1
    assert [record["paid"] for record in table.values()] == [1, 1]


def test_popping_gives_the_record_and_removes_it() -> None:
    table = _universe()["orders"]
    assert table.pop("#1") == ORDERS["#1"]
    assert "#1" not in table


def test_a_universe_lists_its_tables() -> None:
    universe = _universe()
    assert (list(universe), len(universe)) == (["orders", "names", "notes"], 3)
    assert "nothing" not in universe
    with pytest.raises(KeyError):
        _ = universe["nothing"]


# ---------------------------------------------------------------- who sees what


def test_another_episode_does_not_see_a_change() -> None:
    data = _data()
    one, other = Universe(data), Universe(data)
    one["orders"]["#1"]["items"].append("c")
    del one["orders"]["#2"]
    one["orders"]["#3"] = {}
    assert dict(other["orders"].items()) == ORDERS


def test_the_shared_data_is_not_the_authors_objects() -> None:
    mine = {"t": {"k": {"n": 1}}}
    universe = Universe(UniverseData(mine))
    mine["t"]["k"]["n"] = 2
    assert universe["t"]["k"] == {"n": 1}


def test_the_shared_data_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(_data()))
    table = Universe(again)["names"]
    assert list(table.items()) == list(_universe()["names"].items())
    with pytest.raises(UniverseError):
        table.peek(2)["first"] = "Di"
    assert Universe(again)["orders"].peek("#1") == ORDERS["#1"]


@pytest.mark.parametrize("table", ["text", 5, None, True])
def test_a_table_is_an_object_or_an_array(table: Any) -> None:
    with pytest.raises(ValueError, match=r"universe table 't' is .*: an object or an array"):
        UniverseData({"t": table})


# ---------------------------------------------------------------- changes


def test_nothing_is_changed_at_first() -> None:
    assert _universe().changes() == ()


def test_reading_is_no_change() -> None:
    universe = _universe()
    _ = universe["orders"]["#1"], list(universe["names"].values()), universe["notes"]["n"]
    assert universe.changes() == ()


def test_a_changed_record_is_a_change_with_before_and_after() -> None:
    universe = _universe()
    universe["orders"]["#2"]["paid"] = True
    after = {"items": [], "paid": True}
    assert universe.changes() == (Change("orders", "#2", ORDERS["#2"], after),)


def test_a_record_that_is_changed_back_is_no_change() -> None:
    universe = _universe()
    universe["orders"]["#2"]["paid"] = True
    universe["orders"]["#2"]["paid"] = False
    assert universe.changes() == ()


def test_a_made_record_is_a_change_from_nothing() -> None:
    universe = _universe()
    universe["orders"]["#3"] = {"paid": True}
    assert universe.changes() == (Change("orders", "#3", None, {"paid": True}),)


def test_a_deleted_record_is_a_change_to_nothing() -> None:
    universe = _universe()
    del universe["orders"]["#2"]
    assert universe.changes() == (Change("orders", "#2", ORDERS["#2"], None),)


def test_a_record_that_is_deleted_and_made_again_is_compared_with_the_first() -> None:
    universe = _universe()
    del universe["orders"]["#2"]
    universe["orders"]["#2"] = {"items": [], "paid": False}
    assert universe.changes() == ()
    universe["orders"]["#2"] = {"new": 1}
    assert universe.changes() == (Change("orders", "#2", ORDERS["#2"], {"new": 1}),)


def test_a_record_that_is_made_and_deleted_is_no_change() -> None:
    universe = _universe()
    universe["orders"]["#3"] = {}
    del universe["orders"]["#3"]
    assert universe.changes() == ()


def test_a_null_record_can_be_made_and_deleted() -> None:
    universe = _universe()
    universe["orders"]["#3"] = None
    del universe["notes"]["n"]
    assert universe.changes() == (
        Change("notes", "n", None, None),
        Change("orders", "#3", None, None),
    )


def test_changes_are_sorted_by_table_and_key() -> None:
    universe = _universe()
    universe["orders"]["#2"]["paid"] = 1.5
    universe["orders"]["#1"]["paid"] = 1.5
    universe["names"][0] = "Al"
    assert [(c.table, c.key) for c in universe.changes()] == [
        ("names", 0),
        ("orders", "#1"),
        ("orders", "#2"),
    ]


def test_the_changes_of_an_array_are_sorted_by_index() -> None:
    universe = Universe(UniverseData({"t": list(range(12))}))
    for index in (10, 2, 0):
        universe["t"][index] = "new"
    assert [change.key for change in universe.changes()] == [0, 2, 10]


def test_a_later_write_does_not_change_an_earlier_report() -> None:
    universe = _universe()
    universe["orders"]["#2"]["items"].append("x")
    changes = universe.changes()
    universe["orders"]["#2"]["items"].append("y")
    assert changes[0].after["items"] == ["x"]


# ---------------------------------------------------------------- like a plain deep copy

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2)
    ),
    max_leaves=4,
)
_KEYS = st.sampled_from("abcd")
_STEPS = st.one_of(
    st.tuples(st.just("set"), _KEYS, _VALUES),
    st.tuples(st.just("change"), _KEYS, _VALUES),
    st.tuples(st.just("delete"), _KEYS, st.none()),
    st.tuples(st.just("pop"), _KEYS, st.none()),
    st.tuples(st.just("setdefault"), _KEYS, _VALUES),
    st.tuples(st.just("get"), _KEYS, st.none()),
    st.tuples(st.just("clear"), _KEYS, st.none()),
    st.tuples(st.just("update"), _KEYS, _VALUES),
)


def _do(on: Any, step: tuple[str, str, Any]) -> Any:
    action, key, value = step
    value = copy.deepcopy(value)
    if action == "set":
        on[key] = value
    elif action == "change":
        record = on[key]
        if isinstance(record, dict):
            record["x"] = value
        elif isinstance(record, list):
            record.append(value)
    elif action == "delete":
        del on[key]
    elif action == "pop":
        return on.pop(key)
    elif action == "setdefault":
        return copy.deepcopy(on.setdefault(key, value))
    elif action == "get":
        return copy.deepcopy(on.get(key))
    elif action == "clear":
        on.clear()
    else:
        on.update({key: value})
    return None


def _outcome(on: Any, step: tuple[str, str, Any]) -> Any:
    try:
        return _do(on, step)
    except KeyError:
        return KeyError


@settings(max_examples=300)
@given(base=st.dictionaries(_KEYS, _VALUES, max_size=4), steps=st.lists(_STEPS, max_size=8))
def test_any_steps_do_what_they_do_on_a_plain_copy(
    base: dict[str, Any], steps: list[tuple[str, str, Any]]
) -> None:
    untouched = copy.deepcopy(base)
    data = UniverseData({"t": base})
    universe, plain = Universe(data), copy.deepcopy(base)
    table = universe["t"]
    for step in steps:
        assert _outcome(table, step) == _outcome(plain, step)
        assert dict(table.items()) == plain
        assert (len(table), set(table)) == (len(plain), set(plain))
        assert all((key in table) == (key in plain) for key in "abcd")
    changed = {c.key: c.after for c in universe.changes()}
    absent = object()
    expected = {key for key in {*base, *plain} if base.get(key, absent) != plain.get(key, absent)}
    assert changed == {key: plain.get(key) for key in expected}
    assert dict(Universe(data)["t"].items()) == untouched
