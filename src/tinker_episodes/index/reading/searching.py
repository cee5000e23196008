"""Search: rollouts that hold words and meet filters, the last filed first, with the place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.dialect import SEARCH, Clause, Found, found_by, newest_ids
from tinker_episodes.index.packing import unpacked
from tinker_episodes.index.reading.where import GROUPS, WHERE, Where, where_of
from tinker_episodes.index.records import Split, Status
from tinker_episodes.index.tables import (
    groups,
    rollouts,
    run_groups,
    runs,
    totals,
    transcripts,
)
from tinker_episodes.index.words import Passage, fact, passages_of, reward_facts, words_of

_PREFIX = 3
"""The fewest characters before a `*`."""
_AT_ONCE = 50
"""Transcripts that are looked into for a phrase at once."""
_LOOKED_AT = 400
"""The most transcripts that one page looks into for a phrase."""
_BEFORE, _AFTER = 60, 140
"""Characters of a snippet before and after the place."""


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for: all that is given must hold."""

    text: str = ""
    """Words in prompts, messages, thinking, calls and results, without case, in any order; `word*`
    for all that begin so; `"some words"` for a phrase. System prompts are not searched.
    """
    run: str | None = None
    """The run's name."""
    split: Split | None = None
    first_step: int | None = None
    last_step: int | None = None
    bundle: str | None = None
    """The bundle's name."""
    task: str | None = None
    """The task's whole id."""
    tag: str | None = None
    tool: str | None = None
    """A tool that was called."""
    low: float | None = None
    """The least reward."""
    high: float | None = None
    """The greatest reward."""
    cut: str | None = None
    """Why it was cut; an empty text for any reason."""
    status: Status | None = None
    error: Literal["tool", "format"] | None = None
    """Whether it had such an error."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A rollout that was found, and the place."""

    where: Where
    rollout: str
    """Its key."""
    reward: float | None
    status: Status
    cut: str | None
    entry: int | None
    """The entry of its transcript that has the words; None where no text was asked for."""
    kind: str | None
    """`prompt`, `message`, `thinking`, `call`, `result` or `note`."""
    snippet: str
    """The text around the place."""
    marks: tuple[tuple[int, int], ...]
    """Where the words stand in the snippet: from, to."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page of what was found."""

    hits: tuple[Hit, ...]
    next: str | None
    """What to give as `after` to go on; None at the end. There may be more even where a page has
    few hits or none: a phrase is looked for in so many transcripts at once.
    """


@dataclass(frozen=True, slots=True)
class _Asked:
    """A text, taken apart."""

    words: tuple[str, ...]
    phrases: tuple[str, ...]


def search_page(
    connection: Connection, search: Search, *, after: str | None = None, limit: int = 20
) -> SearchPage:
    """A page of the rollouts that were found, the last filed first.

    Raises:
        RunIndexError: the text has no word, a `*` comes too early, or `after` is no cursor.
    """
    asked = _asked(search.text)
    found = _found(connection, search, asked)
    at_once = limit if not asked.phrases else _AT_ONCE
    last = _cursor(after)
    hits: list[Hit] = []
    looked_at = 0
    while True:
        ids = newest_ids(connection, found, count=at_once, below=last)
        looked_at += len(ids)
        for row in connection.execute(_ROWS, {"ids": ids}).all() if ids else ():
            last = row.id
            hit = _hit(row, asked)
            if hit is not None:
                hits.append(hit)
            if len(hits) == limit:
                return SearchPage(tuple(hits), str(last))
        if len(ids) < at_once:
            return SearchPage(tuple(hits), None)
        if looked_at >= _LOOKED_AT:
            return SearchPage(tuple(hits), str(last))


# ---------------------------------------------------------------- the query

_ROWS = (
    select(
        *WHERE, rollouts.c.key, rollouts.c.reward, rollouts.c.status, rollouts.c.cut,
        rollouts.c.id, transcripts.c.body,
    )
    .select_from(
        GROUPS.join(rollouts, rollouts.c.group_id == groups.c.id).join(
            transcripts, transcripts.c.rollout_id == rollouts.c.id
        )
    )
    .where(rollouts.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(rollouts.c.id.desc())
)  # fmt: skip


def _found(connection: Connection, search: Search, asked: _Asked) -> Found:
    """The rollouts that have the words and meet the filters."""
    clauses: list[Clause] = [*_facts(connection, search), *((word,) for word in asked.words)]
    exact = _exact(search)
    if clauses:
        id, condition = found_by(connection, clauses)
        source = SEARCH.join(_PLACED, id == rollouts.c.id) if exact else SEARCH
        query = select(id).select_from(source).where(condition, *exact)
    else:
        id = rollouts.c.id
        query = select(id).select_from(_PLACED).where(*exact)
    return Found(query, id, *_span(connection, search))


_PLACED = rollouts.join(groups, rollouts.c.group_id == groups.c.id).join(
    run_groups, groups.c.run_group_id == run_groups.c.id
)


def _facts(connection: Connection, search: Search) -> list[list[str]]:
    """What the inverted index knows of the filters."""
    found: list[list[str]] = []
    if search.run is not None:
        path = connection.execute(select(runs.c.path).where(runs.c.name == search.run)).scalar()
        found.append([fact("run", path or "")])
    given = {
        "split": search.split,
        "bundle": search.bundle,
        "task": search.task,
        "tag": search.tag,
        "tool": search.tool,
        "cut": search.cut,
        "status": search.status,
        "error": search.error,
    }
    found += [[fact(kind, str(value))] for kind, value in given.items() if value is not None]
    if search.low is not None or search.high is not None:
        found.append(reward_facts(*_range(search)))
    return found


def _exact(search: Search) -> list[ColumnElement[bool]]:
    """What the inverted index does not know, or not exactly."""
    found: list[ColumnElement[bool]] = []
    if search.low is not None or search.high is not None:
        found.append(rollouts.c.reward.between(*_range(search)))
    if search.split is not None:
        found.append(run_groups.c.split == str(search.split))
    return found + _steps(search)


def _steps(search: Search) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if search.first_step is not None:
        found.append(run_groups.c.step >= search.first_step)
    if search.last_step is not None:
        found.append(run_groups.c.step <= search.last_step)
    return found


def _range(search: Search) -> tuple[float, float]:
    low = -1e308 if search.low is None else search.low
    return low, 1e308 if search.high is None else search.high


def _span(connection: Connection, search: Search) -> tuple[int, int]:
    """The ids between which the rollouts of the run and the steps stand."""
    steps = _steps(search)
    if not steps and search.run is None:
        return 0, connection.execute(_LAST).scalar() or 0
    query = (
        select(func.min(totals.c.first_rollout), func.max(totals.c.last_rollout))
        .select_from(
            run_groups.join(runs, run_groups.c.run_id == runs.c.id).join(
                totals, totals.c.run_group_id == run_groups.c.id
            )
        )
        .where(*steps)
    )
    if search.run is not None:
        query = query.where(runs.c.name == search.run)
    first, last = connection.execute(query).one()
    return first or 0, last or 0


_LAST = select(func.max(rollouts.c.id))


def _cursor(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isdecimal():
        raise RunIndexError(f"{after!r} is not where a page of a search ends")
    return int(after)


# ---------------------------------------------------------------- the text


def _asked(text: str) -> _Asked:
    phrases = tuple(phrase for phrase in re.findall(r'"([^"]*)"', text) if phrase.strip())
    loose = re.sub(r'"[^"]*"', " ", text)
    words = [word for phrase in phrases for word in words_of(phrase)]
    for part in loose.split():
        words += _words_of_part(part)
    if text.strip() and not words:
        raise RunIndexError(f"{text!r} has no word to search for: letters or digits make one")
    return _Asked(tuple(dict.fromkeys(words)), phrases)


def _words_of_part(part: str) -> list[str]:
    words = list(words_of(part))
    if part.endswith("*") and words:
        if len(words[-1]) < _PREFIX:
            raise RunIndexError(f"{part!r} is too short: {_PREFIX} characters before a `*` do")
        words[-1] = f"{words[-1]}*"
    return words


def _hit(row: Any, asked: _Asked) -> Hit | None:
    """A hit with its place; None where a phrase is not in it."""
    place: tuple[Passage, str, tuple[tuple[int, int], ...]] | None = None
    if asked.words:
        passages = list(passages_of(unpacked(row.body)))
        if not all(any(_find(p.text, phrase) for p in passages) for phrase in asked.phrases):
            return None
        place = _place(passages, asked)
    passage, snippet, marks = place or (None, "", ())
    return Hit(
        where=where_of(row),
        rollout=row[len(WHERE)],
        reward=row.reward,
        status=Status(row.status),
        cut=row.cut,
        entry=None if passage is None else passage.entry,
        kind=None if passage is None else passage.kind,
        snippet=snippet,
        marks=marks,
    )


def _place(
    passages: Sequence[Passage], asked: _Asked
) -> tuple[Passage, str, tuple[tuple[int, int], ...]] | None:
    """The passage that has most of what is asked for, the first of them; and its snippet."""
    patterns = [_pattern(phrase, whole=False) for phrase in asked.phrases]
    in_phrases = {word for phrase in asked.phrases for word in words_of(phrase)}
    patterns += [_pattern(word, whole=True) for word in asked.words if word not in in_phrases]
    best, most = None, 0
    for passage in passages:
        has = sum(pattern.search(passage.text) is not None for pattern in patterns)
        if has > most:
            best, most = passage, has
    if best is None:
        return None
    first = min(found.start() for p in patterns if (found := p.search(best.text)))
    start, end = max(0, first - _BEFORE), first + _AFTER
    snippet = best.text[start:end]
    marks = sorted({match.span() for p in patterns for match in p.finditer(snippet)})
    return best, snippet, tuple(marks)


def _find(text: str, phrase: str) -> bool:
    return _pattern(phrase, whole=False).search(text) is not None


def _pattern(text: str, *, whole: bool) -> re.Pattern[str]:
    """A pattern of a phrase, or of a word as the inverted index takes words."""
    if not whole:
        return re.compile(re.escape(text), re.IGNORECASE)
    word = re.escape(text.removesuffix("*"))
    ends = "" if text.endswith("*") else r"(?![^\W_])"
    return re.compile(rf"(?<![^\W_]){word}{ends}", re.IGNORECASE)
