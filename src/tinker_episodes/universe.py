"""The data that environments start from: shared, never written, copied record by record on access.

order = self.universe["orders"]["#W1"]      # this episode's own copy, from now on
for order in self.universe["orders"].values(): ...   # read-only, nothing is copied
self.universe.changes()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast

from tinker_episodes.errors import UniverseError

Key: TypeAlias = str | int


def _refuse(*_args: object, **_kwargs: object) -> NoReturn:
    raise UniverseError(
        "this record is shared by all episodes and can't be written: "
        "take the episode's own copy first, with universe[table][key]"
    )


class ReadOnlyDict(dict[str, Any]):
    """A `dict` of shared data: every write raises `UniverseError`."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object]]:
        return freeze, (thaw(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return cast(dict[str, Any], thaw(self))


class ReadOnlyList(list[Any]):
    """A `list` of shared data: every write raises `UniverseError`."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object]]:
        return freeze, (thaw(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return cast(list[Any], thaw(self))


def freeze(value: Any) -> Any:
    """The read-only form of JSON data."""
    if isinstance(value, dict):
        return ReadOnlyDict(
            (key, freeze(item)) for key, item in cast(dict[str, Any], value).items()
        )
    if isinstance(value, list):
        return ReadOnlyList(freeze(item) for item in cast(list[Any], value))
    return value


def thaw(value: Any) -> Any:
    """A plain, writable copy of JSON data."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [thaw(item) for item in cast(list[Any], value)]
    return value


@dataclass(frozen=True, slots=True)
class Change:
    """One record that an episode made, changed or deleted."""

    table: str
    key: Key
    before: Any
    """None where the episode made the record."""
    after: Any
    """None where the episode deleted it."""


_ABSENT: Any = object()


class Table(MutableMapping[Key, Any]):
    """One table or document of the universe, as one episode sees it.

    Indexing takes a record: it is copied once and is the episode's own from then on. `values()`,
    `items()` and `peek()` give what is there without copying: shared records are read-only. The
    keys of an array are its indices.
    """

    def __init__(self, name: str, base: Mapping[Key, Any]) -> None:
        self._name = name
        self._base = base
        self._own: dict[Key, Any] = {}

    def __getitem__(self, key: Key) -> Any:
        if key not in self._own:
            self._own[key] = thaw(self._base[key])
        if self._own[key] is _ABSENT:
            raise KeyError(key)
        return self._own[key]

    def __setitem__(self, key: Key, value: Any) -> None:
        # A scanned record that is put in becomes the episode's own.
        self._own[key] = thaw(value) if isinstance(value, ReadOnlyDict | ReadOnlyList) else value

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._own[key] = _ABSENT

    def __contains__(self, key: object) -> bool:
        own = self._own.get(cast(Key, key), None)
        return key in self._base if own is None and key not in self._own else own is not _ABSENT

    def __iter__(self) -> Iterator[Key]:
        return (key for key, _ in self.items()) if self._own else iter(self._base)

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._own else len(self._base)

    def peek(self, key: Key) -> Any:
        """What stands at `key`, without taking it: read-only where the episode has no copy of its
        own.

        Raises:
            KeyError: there is no such record.
        """
        value = self._own[key] if key in self._own else self._base[key]
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def values(self) -> Iterable[Any]:  # type: ignore[override]  # a scan, not a view object
        return (value for _, value in self.items())

    def items(self) -> Iterable[tuple[Key, Any]]:  # type: ignore[override]  # a scan, not a view object
        own = self._own  # what is taken during a scan is seen as taken
        for key, shared in self._base.items():
            value = own.get(key, shared) if own else shared
            if value is not _ABSENT:
                yield key, value
        for key in [key for key in own if key not in self._base]:
            value = own.get(key, _ABSENT)
            if value is not _ABSENT:
                yield key, value

    def changes(self) -> Iterator[Change]:
        """The records that differ from the shared data now."""
        for key, own in self._own.items():
            before = self._base.get(key)
            after = None if own is _ABSENT else own
            if before != after or (key in self._base) != (own is not _ABSENT):
                yield Change(self._name, key, before, thaw(after))


class Universe(Mapping[str, Table]):
    """One episode's view of the data: tables and documents by name.

    Opening one costs the same whatever the size.
    """

    def __init__(self, data: UniverseData) -> None:
        self._data = data
        self._tables: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name, self._data.tables[name])
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._data.tables)

    def __len__(self) -> int:
        return len(self._data.tables)

    @property
    def data(self) -> UniverseData:
        """The shared data, without what this episode changed: for scorers that replay on it."""
        return self._data

    def changes(self) -> tuple[Change, ...]:
        """What this episode changed, sorted by table and key."""
        found = (change for table in self._tables.values() for change in table.changes())
        return tuple(sorted(found, key=_place))


def _place(change: Change) -> tuple[str, bool, int, str]:
    """Where a change stands in a report: by table, an array's by index."""
    at = change.key
    return (change.table, isinstance(at, str), at if isinstance(at, int) else 0, str(at))


class UniverseData:
    """The shared data itself: objects and arrays by name, frozen once."""

    def __init__(self, tables: Mapping[str, Any] | None = None) -> None:
        self.tables: dict[str, Mapping[Key, Any]] = {}
        for name, table in (tables or {}).items():
            self.tables[name] = _as_table(name, table)

    def __reduce__(self) -> tuple[type[UniverseData], tuple[dict[str, Any]]]:
        return type(self), ({name: dict(table) for name, table in self.tables.items()},)


def _as_table(name: str, table: Any) -> Mapping[Key, Any]:
    if isinstance(table, list):
        return dict(enumerate(cast(list[Any], freeze(table))))
    if isinstance(table, dict):
        return cast(Mapping[Key, Any], freeze(table))
    raise ValueError(
        f"universe table {name!r} is {json.dumps(table)[:80]}: an object or an array would be right"
    )
