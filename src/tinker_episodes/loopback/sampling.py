"""Sampling: one request's samples as they grow, and the choice of every row's next token."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tinker_episodes.loopback.drawing import draw
from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.model import Transformer
from tinker_episodes.loopback.scoring import PromptScores, ScoresWanted


@dataclass(frozen=True, slots=True)
class Params:
    """How to sample."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    """0 for no limit."""
    top_p: float = 1.0
    stop_tokens: frozenset[int] = frozenset()
    stop_texts: tuple[bytes, ...] = ()
    alternatives: int = 0
    """How many of the likeliest tokens to report with each sampled one."""

    @property
    def cuts(self) -> bool:
        """Whether some tokens are never to be chosen."""
        return self.top_k > 0 or self.top_p < 1


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished sample."""

    tokens: Sequence[int]
    logprobs: Sequence[float]
    """Under the model itself: before temperature, top-k and top-p."""
    stopped: bool
    """Whether a stop ended it, rather than the limit."""
    alternatives: Sequence[tuple[Sequence[int], Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a request gets."""

    samples: Sequence[Sample]
    scores: PromptScores | None


@dataclass(slots=True, eq=False)
class SampleJob:
    """A request to sample, from the moment that it is accepted."""

    prompt: Sequence[int]
    params: Params
    count: int
    noise: Sequence[int]
    """Seeds the samples: the same noise gives the same samples."""
    weights: Callable[[], Transformer]
    """Gives the model; called on the worker's thread."""
    wanted: ScoresWanted | None
    done: Callable[["Sampled | Exception"], None]
    cancelled: bool = False
    scores: PromptScores | None = None
    finished: dict[int, Sample] = field(default_factory=dict[int, Sample])

    def cancel(self) -> None:
        """Stop; nobody wants the result any more."""
        self.cancelled = True

    def rows(self, token_bytes: Sequence[bytes]) -> list["Row"]:
        """The samples to make."""
        return [Row(self, place, token_bytes) for place in range(self.count)]


class Row:
    """One sample that grows."""

    def __init__(self, job: SampleJob, place: int, token_bytes: Sequence[bytes]) -> None:
        self.job = job
        self.params = job.params
        self.alternatives: list[tuple[list[int], list[float]]] = []
        self._place = place
        self._token_bytes = token_bytes
        self._random = np.random.default_rng([*job.noise, place])
        self._tokens: list[int] = []
        self._logprobs: list[float] = []
        self._tail = b""

    @property
    def cached(self) -> list[int]:
        """The tokens that the model has read: all but the last sampled one."""
        return [*self.job.prompt, *self._tokens[:-1]]

    def draw(self) -> float:
        """The next number from 0 to 1 of this row's own noise."""
        return self._random.random()

    def accept(self, token: int, logprob: float) -> bool:
        """Take the next token; true when the sample, or its request, is over."""
        if math.isnan(logprob):
            return self._fail()
        self._tokens.append(token)
        self._logprobs.append(logprob)
        stopped = self._stops(token)
        if not stopped and len(self._tokens) < self.params.max_tokens:
            return self.job.cancelled
        sample = Sample(self._tokens, self._logprobs, stopped, self.alternatives)
        self.job.finished[self._place] = sample
        if len(self.job.finished) == self.job.count and not self.job.cancelled:
            samples = [self.job.finished[place] for place in range(self.job.count)]
            self.job.done(Sampled(samples, self.job.scores))
        return True

    def _fail(self) -> bool:
        if not self.job.cancelled:
            self.job.cancel()
            self.job.done(
                ApiError(
                    "the model gives no probabilities, as its weights are not finite any more; "
                    "a lower learning rate keeps them so"
                )
            )
        return True

    def _stops(self, token: int) -> bool:
        if token in self.params.stop_tokens:
            return True
        if not self.params.stop_texts:
            return False
        text = self._tail + self._token_bytes[token]
        longest = max(len(stop) for stop in self.params.stop_texts)
        self._tail = text[-longest:]
        return any(stop in text for stop in self.params.stop_texts)


class Chooser:
    """Chooses the next token of every row of a batch."""

    def __init__(self, rows: Sequence[Row | None]) -> None:
        self._rows = rows
        live = [(slot, row.params) for slot, row in enumerate(rows) if row is not None]
        temperatures = torch.ones(len(rows))
        for slot, params in live:
            temperatures[slot] = params.temperature
        self._greedy = temperatures == 0
        self._divisors = torch.where(self._greedy, 1.0, temperatures)[:, None]
        self._cut = [(slot, params) for slot, params in live if params.cuts]
        self._plain = not self._cut and bool((temperatures == 1).all())
        self._alternatives = max((params.alternatives for _, params in live), default=0)

    def choose(self, scores: Tensor) -> tuple[list[int], list[float]]:
        """Tokens and their log-probabilities, from scores [rows, vocabulary]."""
        tokens, normaliser = draw(scores, self._draws()) if self._plain else self._choose(scores)
        logprobs = scores.gather(1, tokens[:, None]) - normaliser
        if self._alternatives:
            self._report_alternatives(scores - normaliser)
        return _integers(tokens), _floats(logprobs[:, 0])

    def _choose(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """As `draw`, with each row's temperature and cuts, which do not change the normaliser."""
        tempered = scores / self._divisors
        if self._cut:
            tempered = self._without_unlikely(tempered)
        tokens, _ = draw(tempered, self._draws())
        tokens = torch.where(self._greedy, scores.argmax(-1), tokens)
        return tokens, scores.logsumexp(-1, keepdim=True)

    def _draws(self) -> Tensor:
        draws = [0.0 if row is None else row.draw() for row in self._rows]
        return torch.tensor(draws, dtype=torch.float32)

    def _without_unlikely(self, scores: Tensor) -> Tensor:
        """The scores, with those that top-k and top-p leave out at minus infinity."""
        scores = scores.clone()
        slots = torch.tensor([slot for slot, _ in self._cut])
        ordered, order = scores[slots].sort(descending=True)
        ranks = torch.arange(scores.shape[1])
        top_k = torch.tensor([params.top_k or scores.shape[1] for _, params in self._cut])
        ordered[ranks >= top_k[:, None]] = -torch.inf
        likely = ordered.softmax(-1)
        top_p = torch.tensor([params.top_p for _, params in self._cut])
        ordered[likely.cumsum(-1) - likely >= top_p[:, None]] = -torch.inf
        scores[slots] = torch.empty_like(ordered).scatter_(1, order, ordered)
        return scores

    def _report_alternatives(self, logprobs: Tensor) -> None:
        likeliest = logprobs.topk(min(self._alternatives, logprobs.shape[1]))
        for slot, row in enumerate(self._rows):
            if row is not None and (count := row.params.alternatives):
                ids = _integers(likeliest.indices[slot, :count])
                row.alternatives.append((ids, _floats(likeliest.values[slot, :count])))


def _integers(values: Tensor) -> list[int]:
    return values.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # untyped in torch


def _floats(values: Tensor) -> list[float]:
    return values.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # untyped in torch
