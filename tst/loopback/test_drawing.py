"""Tokens are drawn as their probabilities say, whatever the vocabulary's size."""

from __future__ import annotations

import pytest
import torch

from tinker_episodes.loopback.drawing import draw


def scores_of(rows: int, vocabulary: int) -> torch.Tensor:
    return 3 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(vocabulary))


@pytest.mark.parametrize("vocabulary", [1, 63, 64, 65, 3_000])
def test_a_drawn_token_is_where_the_cumulated_probabilities_pass_the_level(vocabulary: int) -> None:
    scores = scores_of(500, vocabulary)
    levels = torch.linspace(0, 0.9999, 500)
    tokens, normalisers = draw(scores, levels)
    torch.testing.assert_close(normalisers, scores.logsumexp(-1, keepdim=True))
    ends = scores.double().softmax(-1).cumsum(-1)
    begins = torch.cat([torch.zeros(500, 1), ends], dim=1)
    at = tokens[:, None]
    assert (begins.gather(1, at)[:, 0] <= levels + 1e-5).all()
    assert (ends.gather(1, at)[:, 0] >= levels - 1e-5).all()


@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 0.999999, 1.0])
def test_a_token_without_a_chance_is_never_drawn(level: float) -> None:
    scores = scores_of(2_000, 300)
    scores[torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) < 0.9] = -torch.inf
    scores[:, 150] = 0.0
    tokens, _ = draw(scores, torch.full((2_000,), level))
    assert torch.isfinite(scores.gather(1, tokens[:, None])).all()


def test_what_a_row_draws_does_not_depend_on_the_others() -> None:
    scores, levels = scores_of(64, 3_000), torch.linspace(0, 0.99, 64)
    together, _ = draw(scores, levels)
    alone = [draw(scores[row : row + 1], levels[row : row + 1])[0] for row in range(64)]
    assert torch.equal(together, torch.cat(alone))
