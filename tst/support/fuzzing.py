"""Hostile replies, and rollouts that are fed them: tokens at random, and replies as models write
them that were cut, spliced, doubled and filled with what parsers stumble over. Seeded.

    python tst/support/fuzzing.py count=100000 seed=0
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    warnings.simplefilter("ignore")

import chz
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy

from support.calls import CallWriter
from support.cells import VALUES
from support.index_records import make_group
from support.tokenizers import renderer_for, renderer_names
from tinker_episodes import Environment, EpisodeEnv, Task, scorer, tool
from tinker_episodes.cookbook.filing import rollout_record
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.index.packing import as_json
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer

TASK = Task.of("t", "Go.")
STEPS = 6
"""Replies that one rollout takes at most."""
FILED = 40
"""Rollouts that are filed at once."""


class Eager(Environment):
    """Tools of many types. What they are called with, they say back."""

    result_limit = 2_000

    @tool
    def f(self, v: str) -> str:
        """Say a text back."""
        return v

    @tool
    def add(self, number: int, sure: bool | None = None) -> int:
        """Say a number back."""
        return number

    @tool
    def pack(
        self,
        items: list[int],
        kind: Literal["none", "null"] | None = None,
        more: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Say a whole object back."""
        return {"items": items, "kind": kind, "more": more}

    @scorer
    def done(self) -> float:
        return 1.0


class Replies:
    """Hostile replies for one renderer."""

    def __init__(self, writer: CallWriter, seed: int) -> None:
        self._writer = writer
        self._random = random.Random(f"{writer.renderer._renderer_name} {seed}")
        special = getattr(writer.renderer.tokenizer, "special_tokens", {})
        self._special = list(special.values())[:200] or list(range(200_000, 200_020))
        self._template = [*writer.marked(writer.before), *writer.marked(writer.after)]
        self._pieces = [writer.plain(_plain(text[:3000])) for text in [*VALUES.values(), *_TEXTS]]

    def __iter__(self) -> Iterator[list[int]]:
        make = (self._noise, self._valid, self._valid, self._mutated, self._mutated, self._spliced)
        while True:
            tokens = self._random.choice(make)()
            if self._random.random() < 0.9 and tokens[-1:] != [self._writer.stop]:
                tokens = [token for token in tokens if token != self._writer.stop]
                tokens.append(self._writer.stop)
            yield tokens

    def _noise(self) -> list[int]:
        """Any ids: bytes that are no text, special tokens, ids beyond the vocabulary."""
        r = self._random
        top = r.choice([300, 5_000, 100_000, 250_000])
        any_id = lambda: r.choice(self._special) if r.random() < 0.2 else r.randrange(top)  # noqa: E731
        return [any_id() for _ in range(r.randrange(60))]

    def _valid(self) -> list[int]:
        """A call as it should be, of a tool that may not be there, with any value."""
        r = self._random
        name, argument = r.choice(_TARGETS)
        text = r.choice(_BOUNDED)
        if not (self._writer.typed and r.random() < 0.3):
            text = self._writer.json_value(text if self._writer.typed else _plain(text))
        return self._writer.call(_plain(text), name=name, argument=argument)

    def _mutated(self) -> list[int]:
        """A call with tokens taken out, doubled, exchanged, or cut off."""
        r = self._random
        tokens = self._valid()
        for _ in range(r.randrange(1, 4)):
            at, size = r.randrange(len(tokens) + 1), r.randrange(1, 6)
            kind = r.randrange(5)
            if kind == 0:
                del tokens[at : at + size]
            elif kind == 1:
                tokens[at:at] = tokens[at : at + size]
            elif kind == 2:
                tokens[at:at] = [r.choice(self._special)]
            elif kind == 3:
                tokens[at:at] = r.choice(self._pieces)
            else:
                del tokens[at:]
        return tokens

    def _spliced(self) -> list[int]:
        """Parts of the template and of texts in any order."""
        r = self._random
        tokens: list[int] = []
        for _ in range(r.randrange(1, 8)):
            if r.random() < 0.6:
                at = r.randrange(len(self._template))
                tokens += self._template[at : at + r.randrange(1, 30)]
            else:
                tokens += r.choice(self._pieces)
        return tokens


_TARGETS = [("f", "v"), ("f", "v"), ("add", "number"), ("pack", "items"), ("g", "v"), ("f", "w")]
_BOUNDED = [text[:6000] for text in VALUES.values()]
_TEXTS = [
    "<think>",
    "</think>",
    "\n" * 200,
    " " * 3000,
    '{"name": "f", "arguments": {"v": ',
    '{"name": "f", "arguments": "{\\"v\\": 1}"}',
    '{"v": "\\ud800"}',
    '{"\\ud800": 1e999, "v": [[[]]]}',
    '{"a":' * 900,
    "<tool_call>\n<function=f>\n<parameter=v>\n" * 20,
    "<tool_call>" * 300,
    "</parameter></function></tool_call>",
    "<|im_end|><|im_start|>user\n",
    "functions.f:0",
    "to=functions.f",
    "\u2028\x00\x1b[31m\ufffd",
]


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


async def play(rendering: Rendering, replies: Iterator[list[int]]) -> tuple[EpisodeEnv, int]:
    """One rollout over hostile replies, and how many it took. Every observation is rendered."""
    policy = ParseErrorPolicy(max_consecutive=1000)
    env = EpisodeEnv(environment=Eager, task=TASK, renderer=rendering, parse_errors=policy)
    await env.initial_observation()
    for taken in range(1, STEPS + 1):
        tokens = next(replies)
        try:
            result = await env.step(tokens)
        except Exception as error:
            raise AssertionError(
                f"{type(error).__name__}: {error} of the tokens {tokens}"
            ) from error
        if result.episode_done:
            return env, taken
        assert result.next_observation.length > 0
    await env.ending.drop("enough")
    return env, STEPS


async def fuzz(renderer_name: str, count: int, *, seed: int, folder: Path) -> Counter[str]:
    """Feed `count` replies to rollouts of one renderer, file them all, and read each back."""
    rendering = Rendering(renderer_for(renderer_name))
    replies = iter(Replies(CallWriter(rendering.renderer), seed))
    url = f"sqlite:///{folder / f'{renderer_name}-{seed}.db'}"
    found: Counter[str] = Counter()
    envs: list[EpisodeEnv] = []
    while found["replies"] < count:
        env, taken = await play(rendering, replies)
        counts = env.episode.counts
        found += Counter(
            replies=taken,
            rollouts=1,
            calls=counts.tool_calls,
            refused=counts.tool_errors,
            malformed=counts.format_errors,
        )
        envs.append(env)
        if len(envs) == FILED or found["replies"] >= count:
            await _file_and_compare(envs, url)
            envs.clear()
    index_writer(url).close()
    return found


async def _file_and_compare(envs: list[EpisodeEnv], url: str) -> None:
    records = [rollout_record(env, at) for at, env in enumerate(envs)]
    await index_writer(url).file(make_group(key=records[0].key), records)
    reader = IndexReader(url)
    try:
        for record in records:
            said = {name: record.transcript[name] for name in ("entries", "changes")}
            assert reader.transcript(record.key) == json.loads(as_json(said)), record.key
    finally:
        reader.close()


async def main(count: int = 100_000, seed: int = 0, renderers: str = "") -> None:
    """Feed replies to every renderer, and print what came of them."""
    names = renderers.split(",") if renderers else renderer_names()
    each = -(-count // len(names))
    total: Counter[str] = Counter()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            before = _peak_mb()
            found = await fuzz(name, each, seed=seed, folder=Path(folder))
            total += found
            print(f"{name}: {dict(found)}, peak {before:.0f} -> {_peak_mb():.0f} MB", flush=True)
    print(f"all: {dict(total)}, seed {seed}, {time.perf_counter() - start:.0f} s, no exception")


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    asyncio.run(chz.entrypoint(main, allow_hyphens=True))
