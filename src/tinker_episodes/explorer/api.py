"""The data of each page as JSON. Endpoints are plain functions: Starlette runs them in threads, so
no query holds up the event loop. Keys and names are looked up, never made into paths.
"""

from __future__ import annotations

from typing import Any, cast, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tinker_episodes.explorer.asking import (
    Asked,
    AskingError,
    found,
    json_response,
    shallow,
    written_response,
)
from tinker_episodes.explorer.curves import Curves
from tinker_episodes.explorer.host_pages import host_groups, host_rollout
from tinker_episodes.explorer.hostlog.reader import PREFIX, metrics_of
from tinker_episodes.explorer.sources import Sources
from tinker_episodes.index import Split, Status
from tinker_episodes.index.reading import (
    GroupFilter,
    GroupSort,
    GroupsPage,
    IndexReader,
    Search,
    StepColumns,
)

_DRAWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_ONLY: dict[str, dict[str, bool]] = {
    "varied": {"constant": False},
    "constant": {"constant": True},
    "cut": {"cut": True},
    "errors": {"errors": True},
}
"""The filters of a step's groups by name."""


class Api:
    """The endpoints over what is read."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._curves = Curves()

    def routes(self) -> list[Route]:
        """One route an endpoint."""
        named = {
            "runs": self.runs, "steps": self.steps, "metrics": self.metrics, "groups": self.groups,
            "group": self.group, "rollout": self.rollout, "tokens": self.tokens, "task": self.task,
            "search": self.search, "labels": self.labels, "image": self.image,
        }  # fmt: skip
        return [Route(f"/{name}", endpoint) for name, endpoint in named.items()]

    def runs(self, request: Request) -> Response:
        """All runs: of the index, then those that the trainer alone logged."""
        index, hosts = self._sources.index, self._sources.hosts
        rows = [] if index is None else index.runs()
        alone = [] if hosts is None else hosts.runs(but={row.path for row in rows})
        listed = [shallow(row) | {"kind": "index"} for row in rows]
        listed += [shallow(run.row()) | {"kind": "log"} for run in alone]
        return json_response({"runs": listed, "place": self._sources.place})

    def steps(self, request: Request) -> Response:
        """A run's curves, column by column."""
        name = Asked(request).needed("run")
        index, hosts = self._sources.index, self._sources.hosts
        body = None if index is None else self._curves.of(index, name)
        if body is not None:
            return written_response(body)
        host = None if hosts is None else hosts.run(name)
        return json_response(StepColumns.of([] if host is None else host.steps()))

    def metrics(self, request: Request) -> Response:
        """The trainer's own metrics, where the explorer finds the run's log path."""
        name = Asked(request).needed("run")
        host = None if self._sources.hosts is None else self._sources.hosts.run(name)
        return json_response({"rows": [] if host is None else metrics_of(host.metrics())})

    def groups(self, request: Request) -> Response:
        """A page of a step's groups, with the step in numbers and its neighbours."""
        asked = Asked(request)
        run, split = asked.needed("run"), found(asked.choice("split", Split), "such split")
        step = found(asked.step("step"), "such step")
        index, hosts = self._sources.index, self._sources.hosts
        rows = [] if index is None else index.steps(run, split=split, first=step, last=step)
        if rows and index is not None:
            page = self._page(index, run, split, step, asked)
            previous, following = index.steps_beside(run, split, step)
        elif hosts is not None and (host := hosts.run(run)) is not None:
            near = [row for row in host.steps() if row.split is split]
            page = host_groups(hosts.step_groups(run, split, step), asked)
            rows = [row for row in near if row.step == step]
            previous = max((row.step for row in near if row.step < step), default=None)
            following = min((row.step for row in near if row.step > step), default=None)
        else:
            raise AskingError(f"There is no step {step} of {run}.", 404)
        totals = shallow(rows[0]) if rows else None
        beside = {"previous_step": previous, "next_step": following}
        return json_response(shallow(page) | {"totals": totals} | beside)

    def _page(
        self, index: IndexReader, run: str, split: Split, step: int, asked: Asked
    ) -> GroupsPage:
        sort = asked.text("sort") or "spread"
        if sort not in get_args(GroupSort):
            raise AskingError(f"sort: one of {', '.join(get_args(GroupSort))} would be right")
        return index.groups(
            run,
            split,
            step,
            sort=cast(GroupSort, sort),
            descending=asked.text("order") != "up",
            matching=group_filter(asked),
            attempt=asked.step("attempt"),
            after=asked.text("after"),
        )

    def group(self, request: Request) -> Response:
        """A group with its rollouts in short."""
        key = Asked(request).needed("key")
        host = self._sources.host_of(key)
        if host is not None:
            page = found(host.group(key), f"group {key}")
            return json_response(shallow(page) | {"kind": "log", "log": host.log(key)})
        index = self._sources.index
        page = found(None if index is None else index.group(key), f"group {key}")
        return json_response(shallow(page) | {"kind": "index", "log": None})

    def rollout(self, request: Request) -> Response:
        """A rollout whole, but for its tokens."""
        key = Asked(request).needed("key")
        host = self._sources.host_of(key)
        if host is not None:
            return json_response(host_rollout(host, key))
        index = self._sources.index
        page = found(None if index is None else index.rollout(key), f"rollout {key}")
        return json_response(shallow(page) | {"kind": "index", "log": None})

    def tokens(self, request: Request) -> Response:
        """A rollout's tokens by turn, and the texts of those that were sampled."""
        key = Asked(request).needed("key")
        index = self._sources.index
        sampled = None if index is None or key.startswith(PREFIX) else index.tokens(key)
        return json_response(found(sampled, f"token of rollout {key}"))

    def task(self, request: Request) -> Response:
        """One task over time."""
        asked = Asked(request)
        index = found(self._sources.index, "run index here: tasks over time come from one")
        page = index.task(
            asked.needed("bundle"),
            asked.needed("task"),
            run=asked.text("run"),
            after=asked.text("after"),
        )
        return json_response(page)

    def search(self, request: Request) -> Response:
        """Rollouts that hold words and meet filters."""
        asked = Asked(request)
        index = found(
            self._sources.index, "run index here: only the rollouts of one can be searched"
        )
        return json_response(index.search(search_of(asked), after=asked.text("after"), limit=30))

    def labels(self, request: Request) -> Response:
        """The names to filter by."""
        index = self._sources.index
        kinds = ("tag", "tool", "cut")
        return json_response({kind: [] if index is None else index.labels(kind) for kind in kinds})

    def image(self, request: Request) -> Response:
        """An image by its hash, if it is of a kind that can hold no script."""
        hash = Asked(request).needed("hash")
        index = self._sources.index
        image = found(None if index is None else index.image(hash), "such image")
        if image.media_type not in _DRAWN:
            raise AskingError("An image of this kind is not shown.", 415)
        return Response(
            image.data,
            media_type=image.media_type,
            headers={"Cache-Control": "max-age=86400, immutable"},
        )


def group_filter(asked: Asked) -> GroupFilter:
    """Which groups a request asks for."""
    only = asked.text("only")
    if only is not None and only not in _ONLY:
        raise AskingError(f"only: one of {', '.join(_ONLY)} would be right")
    chosen: dict[str, Any] = {} if only is None else dict(_ONLY[only])
    return GroupFilter(
        task=asked.text("task"),
        tag=asked.text("tag"),
        low=asked.number("low"),
        high=asked.number("high"),
        **chosen,
    )


def search_of(asked: Asked) -> Search:
    """What a request searches for."""
    error = asked.text("error")
    if error not in (None, "tool", "format"):
        raise AskingError("error: tool or format would be right")
    cut = asked.text("cut")
    return Search(
        text=asked.text("q") or "",
        run=asked.text("run"),
        split=asked.choice("split", Split),
        first_step=asked.step("from"),
        last_step=asked.step("to"),
        task=asked.text("task"),
        tag=asked.text("tag"),
        tool=asked.text("tool"),
        low=asked.number("low"),
        high=asked.number("high"),
        cut="" if cut == "any" else cut,
        status=asked.choice("status", Status),
        error=error,
    )
