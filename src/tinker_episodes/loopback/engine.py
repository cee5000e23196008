"""The sampling engine: every waiting request joins the batch that is being sampled, at any token.

A lane is one model's batch of samples of similar length. Its rows live in slots: a finished sample
frees its slot for the next one, and nobody waits for the longest.
"""

import contextlib
from collections import defaultdict, deque
from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from tinker_episodes.loopback.model import Cache, Transformer
from tinker_episodes.loopback.prefill import Prompt, Read, read_prompts
from tinker_episodes.loopback.prefixes import Prefixes
from tinker_episodes.loopback.sampling import Chooser, Row, SampleJob
from tinker_episodes.loopback.scoring import score_prompt

_ADMISSION_STEPS = 4
"""Waiting requests join every so many tokens: reading their prompts together costs less."""
_ADMITTED_TOKENS = 32_768
"""Prompt tokens that are read between two sampled tokens."""
_SHARED_TOKENS = 2_048
"""Fewer prompt tokens are read by one thread alone: waiting for another costs more."""
_CACHED_FLOATS = 2**28
"""Numbers in the caches of all lanes, a gigabyte, from which on new samples wait."""
_SHORTEST_LANE = 256


class Lane:
    """One model's samples of similar length, in slots of one batch."""

    def __init__(
        self, model: Transformer, cache: Cache, hidden: Tensor, prefixes: Prefixes
    ) -> None:
        self._model = model
        self._prefixes = prefixes
        self._cache = cache
        self._hidden = hidden
        self._rows: list[Row | None] = [None] * len(hidden)
        self._chooser: Chooser | None = None

    @property
    def rows(self) -> list[Row]:
        """The samples that are being made."""
        return [row for row in self._rows if row is not None]

    @property
    def floats(self) -> int:
        """The size of its cache."""
        return self._cache.data.numel()

    def admit(self, rows: Sequence[Row], cache: Cache, hidden: Tensor) -> None:
        """Give rows that have read their prompts a slot each."""
        free = [slot for slot, row in enumerate(self._rows) if row is None]
        if len(rows) > len(free):
            self._grow(max(len(rows) - len(free), len(self._rows) // 4))
            free = [slot for slot, row in enumerate(self._rows) if row is None]
        taken = free[: len(rows)]
        slots = torch.tensor(taken)
        length = cache.data.shape[4]
        self._cache.reserve(length)
        self._cache.data[:, :, slots, :, :length] = cache.data
        self._cache.lengths[slots] = cache.lengths
        self._hidden[slots] = hidden
        for slot, row in zip(taken, rows, strict=True):
            self._rows[slot] = row
        self._chooser = None

    def step(self) -> None:
        """Sample one token of every row."""
        if self._chooser is None:
            self._chooser = Chooser(self._rows)
        tokens, logprobs = self._chooser.choose(self._model.logits(self._hidden))
        ended = [
            slot
            for slot, row in enumerate(self._rows)
            if row is not None and row.accept(tokens[slot], logprobs[slot])
        ]
        if ended:
            self._free(ended)
        if self.rows:
            if ended:
                kept = self._shrink()
                tokens = [tokens[slot] for slot in kept]
            following = torch.tensor(tokens)[:, None]
            self._hidden = self._model.extend(following, self._cache)[:, -1]
            self._rest_free_slots()

    def _free(self, slots: Sequence[int]) -> None:
        for slot in slots:
            row = self._rows[slot]
            assert row is not None, "it has just ended"
            self._prefixes.keep(self._model, row.cached, self._cache, slot)
            self._rows[slot] = None
        self._chooser = None
        self._rest_free_slots()

    def _rest_free_slots(self) -> None:
        """A free slot is computed with the others, at position 0, so that none grows unused."""
        free = [slot for slot, row in enumerate(self._rows) if row is None]
        if free:
            self._cache.lengths[torch.tensor(free)] = 0

    def _grow(self, added: int) -> None:
        data = self._cache.data
        shape = (*data.shape[:2], added, *data.shape[3:])
        self._cache.data = torch.cat([data, data.new_zeros(shape)], dim=2)
        lengths = self._cache.lengths
        self._cache.lengths = torch.cat([lengths, lengths.new_zeros(added)])
        self._hidden = torch.cat(
            [self._hidden, self._hidden.new_zeros(added, data.shape[-1] * data.shape[3])]
        )
        self._rows += [None] * added

    def _shrink(self) -> list[int]:
        """Drop the free slots once they are half of all; the slots that stay."""
        kept = [slot for slot, row in enumerate(self._rows) if row is not None]
        if len(kept) * 2 > len(self._rows):
            return list(range(len(self._rows)))
        index = torch.tensor(kept)
        self._cache = self._cache.rows(index)
        self._hidden = self._hidden[index]
        self._rows = [self._rows[slot] for slot in kept]
        return kept


class Engine:
    """All lanes, and the requests that wait for one. Used from one thread."""

    def __init__(self, token_bytes: Sequence[bytes], prefixes: Prefixes) -> None:
        self._token_bytes = token_bytes
        self._waiting: deque[SampleJob] = deque()
        self._prefixes = prefixes
        self._lanes: dict[tuple[Transformer, int], Lane] = {}
        self._steps = 0

    @property
    def busy(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._waiting or self._lanes)

    def add(self, job: SampleJob) -> None:
        """Let a request wait for the next step."""
        self._waiting.append(job)

    @torch.inference_mode()
    def step(self) -> None:
        """Read waiting prompts, then sample one token of every row."""
        if self._waiting and (not self._lanes or self._steps % _ADMISSION_STEPS == 0):
            self._admit_waiting()
        with _one_thread():
            self._step_lanes()
        self._steps += 1

    def _admit_waiting(self) -> None:
        for model, jobs in self._next_jobs().items():
            small = sum(len(job.prompt) for job in jobs) < _SHARED_TOKENS
            try:
                with _one_thread() if small else contextlib.nullcontext():
                    self._admit(model, jobs)
            except Exception as error:  # noqa: BLE001  # whatever fails here is these requests' answer
                _fail(jobs, error)

    def _step_lanes(self) -> None:
        for key, lane in list(self._lanes.items()):
            rows = lane.rows
            try:
                lane.step()
            except Exception as error:  # noqa: BLE001  # whatever fails here is these requests' answer
                _fail({row.job: None for row in rows}, error)
                del self._lanes[key]
                continue
            if not lane.rows:
                del self._lanes[key]

    def _next_jobs(self) -> dict[Transformer, list[SampleJob]]:
        """The requests to admit now, by their model."""
        chosen: defaultdict[Transformer, list[SampleJob]] = defaultdict(list)
        tokens = 0
        cached = sum(lane.floats for lane in self._lanes.values())
        while self._waiting and tokens < _ADMITTED_TOKENS and cached < _CACHED_FLOATS:
            job = self._waiting.popleft()
            if job.cancelled:
                continue
            try:
                model = job.weights()
            except Exception as error:  # noqa: BLE001  # whatever fails here is the request's answer
                job.done(error)
                continue
            tokens += len(job.prompt)
            cached += job.count * len(job.prompt) * model.shape.floats_a_token
            chosen[model].append(job)
        return chosen

    def _admit(self, model: Transformer, jobs: Sequence[SampleJob]) -> None:
        by_prompt: defaultdict[Prompt, list[SampleJob]] = defaultdict(list)
        for job in jobs:
            by_prompt[tuple(job.prompt)].append(job)
        scored = {tuple(job.prompt) for job in jobs if job.wanted is not None}
        for read in read_prompts(model, by_prompt, self._prefixes, whole=scored):
            rows: list[Row] = []
            places: list[int] = []
            for place, prompt in enumerate(read.prompts):
                for job in by_prompt[prompt]:
                    self._score(model, read, place, job)
                    made = job.rows(self._token_bytes)
                    rows += made
                    places += [place] * len(made)
            index = torch.tensor(places)
            lane = self._lane(model, read)
            lane.admit(rows, read.cache.rows(index), read.last[index])

    def _score(self, model: Transformer, read: Read, place: int, job: SampleJob) -> None:
        if job.wanted is not None:
            assert read.hidden is not None, "scored prompts are read as a whole"
            hidden = read.hidden[place, : len(job.prompt)]
            job.scores = score_prompt(model, hidden, job.prompt, job.wanted)

    def _lane(self, model: Transformer, read: Read) -> Lane:
        longest = int(read.cache.lengths.max())
        size = max(_SHORTEST_LANE, 1 << (longest - 1).bit_length())
        key = (model, size)
        if key not in self._lanes:
            none = torch.zeros(0, dtype=torch.int64)
            cache = read.cache.rows(none)
            self._lanes[key] = Lane(model, cache, read.last[none], self._prefixes)
        return self._lanes[key]


@contextlib.contextmanager
def _one_thread() -> Generator[None]:
    """Compute in this thread alone: work as small as one token's is slower when it is shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _fail(jobs: Sequence[SampleJob] | dict[SampleJob, None], error: Exception) -> None:
    for job in jobs:
        job.cancelled = True
        job.done(error)
