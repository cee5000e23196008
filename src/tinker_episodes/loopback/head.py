"""Log-probabilities of target tokens, without keeping scores for every position in memory.

The scores [positions, vocabulary] are the largest thing that training computes. They are made in
chunks; the backward pass makes them again, only for the positions whose gradient is not zero.
"""

from typing import Any

import torch
from torch import Tensor

_CHUNK_SCORES = 2**22
"""Scores that are in memory at once."""


def target_logprobs(hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
    """The log-probability [n, k] of `targets` [n, k] after each hidden state [n, width]."""
    return _TargetLogprobs.apply(hidden, embedding, targets)  # type: ignore[no-any-return]  # torch's apply is untyped


class _TargetLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:  # type: ignore[override]  # torch's signature is untyped
        logprobs = torch.empty(targets.shape)
        normalisers = torch.empty(len(hidden))
        for part in _chunks(len(hidden), len(embedding)):
            scores = hidden[part] @ embedding.T
            normalisers[part] = scores.logsumexp(-1)
            logprobs[part] = scores.gather(1, targets[part]) - normalisers[part, None]
        ctx.save_for_backward(hidden, embedding, targets, normalisers)
        return logprobs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        hidden, embedding, targets, normalisers = ctx.saved_tensors
        (grad,) = grads
        needed = grad.ne(0).any(dim=1).nonzero()[:, 0]
        grad_hidden = torch.zeros_like(hidden)
        grad_embedding = torch.zeros_like(embedding)
        for part in _chunks(len(needed), len(embedding)):
            rows = needed[part]
            states, weights = hidden[rows], grad[rows]
            scores = states @ embedding.T
            scores.sub_(normalisers[rows, None]).exp_().mul_(-weights.sum(1, keepdim=True))
            scores.scatter_add_(1, targets[rows], weights)
            grad_hidden[rows] = scores @ embedding
            grad_embedding.addmm_(scores.T, states)
        return grad_hidden, grad_embedding, None


def _chunks(count: int, vocabulary: int) -> list[slice]:
    size = max(1, _CHUNK_SCORES // vocabulary)
    return [slice(start, start + size) for start in range(0, count, size)]
