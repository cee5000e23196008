"""What a sampling request can ask of its prompt: log-probabilities of its tokens, of the likeliest
ones, of given ones, and draws from the model at every position."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tinker_episodes.loopback.model import Transformer
from tinker_episodes.loopback.sparse import SparseLayout

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

MASK_LOGPROB = -99_999.0
"""Stands where no log-probability was computed, in a matrix of the likeliest tokens."""

_CHUNK_SCORES = 2**22


@dataclass(frozen=True, slots=True)
class TargetTokens:
    """Given tokens to score."""

    ids: Integers
    """[length - 1, k]; -1 asks for nothing."""
    layout: SparseLayout | None
    """Which of them the request listed, if it did not send them all."""


@dataclass(frozen=True, slots=True)
class ScoresWanted:
    """Which scores of the prompt a request asks for."""

    logprobs: bool
    last: int | None
    """Only the last so many tokens get log-probabilities."""
    likeliest: int
    targets: TargetTokens | None
    draws: int
    temperature: float
    noise: Sequence[int]


@dataclass(frozen=True, slots=True)
class PromptScores:
    """The scores of a prompt; the first token has none, as nothing comes before it."""

    logprobs: Floats
    likeliest_ids: npt.NDArray[np.int32]
    likeliest_logprobs: Floats
    target_logprobs: Floats
    drawn: Integers
    drawn_logprobs: Floats


def score_prompt(
    model: Transformer, hidden: Tensor, prompt: Sequence[int], wanted: ScoresWanted
) -> PromptScores:
    """The scores of a prompt, from its hidden states [length, width]."""
    length = len(prompt)
    scores = _empty_scores(length, wanted)
    random = np.random.default_rng([*wanted.noise, 2**32 - 1])
    size = max(1, _CHUNK_SCORES // model.shape.vocabulary)
    for start in range(0, length - 1, size):
        part = slice(start, min(start + size, length - 1))
        logprobs = model.logits(hidden[part]).log_softmax(-1)
        _score_part(logprobs, part, prompt, wanted, scores)
        if wanted.draws:
            drawn = _draw(logprobs, wanted, random)
            scores.drawn[part] = drawn.numpy()
            scores.drawn_logprobs[part] = logprobs.gather(1, drawn).numpy()
    unscored = 1 if wanted.last is None else length - wanted.last
    scores.logprobs[:unscored] = np.nan
    scores.likeliest_ids[:unscored] = 0
    scores.likeliest_logprobs[:unscored] = MASK_LOGPROB
    return scores


def _empty_scores(length: int, wanted: ScoresWanted) -> PromptScores:
    targets = (0, 0) if wanted.targets is None else wanted.targets.ids.shape
    return PromptScores(
        np.full(length, np.nan, dtype=np.float32),
        np.zeros((length, wanted.likeliest), dtype=np.int32),
        np.full((length, wanted.likeliest), MASK_LOGPROB, dtype=np.float32),
        np.zeros(targets, dtype=np.float32),
        np.zeros((length - 1, wanted.draws), dtype=np.int64),
        np.zeros((length - 1, wanted.draws), dtype=np.float32),
    )


def _score_part(
    logprobs: Tensor, part: slice, prompt: Sequence[int], wanted: ScoresWanted, scores: PromptScores
) -> None:
    """Scores that are about the tokens after the positions of `part`."""
    after = slice(part.start + 1, part.stop + 1)
    following = torch.tensor(prompt[after])[:, None]
    scores.logprobs[after] = logprobs.gather(1, following)[:, 0].numpy()
    if wanted.likeliest:
        count = min(wanted.likeliest, logprobs.shape[1])
        likeliest = logprobs.topk(count)
        scores.likeliest_ids[after, :count] = likeliest.indices.numpy()
        scores.likeliest_logprobs[after, :count] = likeliest.values.numpy()
    if wanted.targets is not None:
        ids = torch.tensor(wanted.targets.ids[part])
        given = logprobs.gather(1, ids.clamp(min=0))
        scores.target_logprobs[part] = torch.where(ids >= 0, given, 0.0).numpy()


def _draw(logprobs: Tensor, wanted: ScoresWanted, random: np.random.Generator) -> Tensor:
    """Tokens [positions, draws] from the model's distribution at each position."""
    if wanted.temperature == 0:
        return logprobs.argmax(-1, keepdim=True).repeat(1, wanted.draws)
    cumulated = (logprobs / wanted.temperature).softmax(-1).cumsum(-1)
    levels = torch.tensor(random.random((len(logprobs), wanted.draws)), dtype=torch.float32)
    drawn = torch.searchsorted(cumulated, levels * cumulated[:, -1:], right=True)
    return drawn.clamp(max=logprobs.shape[1] - 1)
