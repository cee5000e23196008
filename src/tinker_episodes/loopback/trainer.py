"""The weights of one training run, their gradients and their optimizer.

All of the model's weights are trained, whatever LoRA rank the run asks for.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tinker.types import AdamParams
from torch import Tensor

from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.examples import Batch, Example, Floats, batches
from tinker_episodes.loopback.head import target_logprobs
from tinker_episodes.loopback.losses import find_loss
from tinker_episodes.loopback.model import Transformer

State = dict[str, Any]
"""What torch saves: names and tensors."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What a forward pass gives: the loss, and each example's log-probabilities."""

    loss: float
    logprobs: Sequence[Floats]


class Trainer:
    """A model in training. Gradients add up until `step` uses them."""

    def __init__(self, base: Transformer) -> None:
        self.model = copy.deepcopy(base).requires_grad_(True)
        self._optimizer = torch.optim.AdamW(self.model.parameters())

    def run(
        self,
        examples: Sequence[Example],
        loss: str,
        settings: Mapping[str, float],
        *,
        backward: bool,
    ) -> Pass:
        """Compute a loss, summed over all examples, and with `backward` add its gradients."""
        logprobs: list[Floats | None] = [None] * len(examples)
        total = 0.0
        with torch.set_grad_enabled(backward):
            for batch in batches(examples):
                scored = self._score(batch)
                value = _loss(loss, scored, batch, settings)
                if backward:
                    value.backward()  # type: ignore[no-untyped-call]  # untyped in torch
                total += float(value.detach())
                _spread(scored.detach(), batch, examples, logprobs)
        return Pass(total, [array for array in logprobs if array is not None])

    def step(self, params: AdamParams) -> dict[str, float]:
        """One step of AdamW on the gradients so far, which are then forgotten."""
        for group in self._optimizer.param_groups:
            group.update(
                lr=params.learning_rate,
                betas=(params.beta1, params.beta2),
                eps=params.eps,
                weight_decay=params.weight_decay,
            )
        limit = params.grad_clip_norm if params.grad_clip_norm > 0 else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        self._optimizer.step()  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
        self._optimizer.zero_grad()
        return {"grad_norm:mean": float(norm)}

    def snapshot(self) -> Transformer:
        """A copy of the model, to sample from."""
        return copy.deepcopy(self.model).requires_grad_(False)

    def state(self, *, optimizer: bool) -> State:
        """What `load` restores."""
        state: State = {"model": self.model.state_dict()}
        if optimizer:
            state["optimizer"] = self._optimizer.state_dict()
        return state

    def load(self, state: State, *, optimizer: bool) -> None:
        """Continue from saved weights; without `optimizer`, with a fresh optimizer."""
        if optimizer and "optimizer" not in state:
            raise ApiError("these weights were saved without the optimizer's state")
        load_weights(self.model, state)
        self._optimizer = torch.optim.AdamW(self.model.parameters())
        if optimizer:
            self._optimizer.load_state_dict(state["optimizer"])

    def _score(self, batch: Batch) -> Tensor:
        """The log-probabilities of a batch's targets [rows, length, targets a position]."""
        hidden = self.model(batch.tokens)
        embedding = self.model.embedding.weight
        flat = target_logprobs(hidden.flatten(0, 1), embedding, batch.targets.flatten(0, 1))
        return flat.view(batch.targets.shape)


def load_weights(model: Transformer, state: State) -> None:
    """Put saved weights into a model of the same shape."""
    try:
        model.load_state_dict(state["model"])
    except (KeyError, RuntimeError) as error:
        raise ApiError("these weights were saved by a model of another shape") from error


def _loss(name: str, scored: Tensor, batch: Batch, settings: Mapping[str, float]) -> Tensor:
    elements = find_loss(name).elements(scored, batch.inputs, settings)
    return torch.where(batch.real, elements, 0.0).sum()


def _spread(
    scored: Tensor, batch: Batch, examples: Sequence[Example], logprobs: list[Floats | None]
) -> None:
    """Hand each example its own log-probabilities, without the padding."""
    for row, place in enumerate(batch.members):
        example = examples[place]
        values = scored[row, : len(example.tokens)].numpy().copy()
        logprobs[place] = values[:, 0] if example.flat else values
