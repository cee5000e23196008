"""The losses of `forward_backward`, as the hosted API's documentation defines them.

Each takes the log-probabilities of one padded batch [rows, length, k] and gives the loss of every
element; the sum over the real ones is the loss.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tinker_episodes.loopback.errors import ApiError

LossConfig = Mapping[str, float]
LossInputs = Mapping[str, Tensor]

_CLIP = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss: its elements, the inputs that it reads, and its settings with their defaults."""

    elements: Callable[[Tensor, LossInputs, LossConfig], Tensor]
    required: frozenset[str]
    optional: frozenset[str]
    settings: Mapping[str, float | None]
    """A setting's default; None is one that the request must bring."""


def _cross_entropy(logprobs: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    return -logprobs * inputs["weights"]


def _importance_sampling(logprobs: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    return -_ratio(logprobs, inputs) * inputs["advantages"]


def _ppo(logprobs: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    ratio = _ratio(logprobs, inputs)
    return _clipped_objective(ratio, inputs, config)


def _cispo(logprobs: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    clipped = _clip(_ratio(logprobs, inputs), inputs, config)
    return -clipped.detach() * logprobs * inputs["advantages"]


def _dro(logprobs: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    penalty = (logprobs - inputs["logprobs"]) ** 2
    return -(logprobs * inputs["advantages"] - 0.5 * config["beta"] * penalty)


def _gspo(logprobs: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    marked = inputs["sequence_ratio_mask"].ne(0).to(logprobs.dtype)
    detached = logprobs.detach()
    total = ((detached - inputs["logprobs"]) * marked).sum(dim=(1, 2), keepdim=True)
    mean = total / marked.sum(dim=(1, 2), keepdim=True).clamp(min=1.0)
    return _clipped_objective(torch.exp(mean + logprobs - detached), inputs, config)


def _ratio(logprobs: Tensor, inputs: LossInputs) -> Tensor:
    return torch.exp(logprobs - inputs["logprobs"])


def _clip(ratio: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    low = inputs.get("clip_low_threshold", torch.tensor(config["clip_low_threshold"]))
    high = inputs.get("clip_high_threshold", torch.tensor(config["clip_high_threshold"]))
    return torch.clamp(ratio, low, high)


def _clipped_objective(ratio: Tensor, inputs: LossInputs, config: LossConfig) -> Tensor:
    advantages = inputs["advantages"]
    clipped = _clip(ratio, inputs, config)
    return -torch.minimum(ratio * advantages, clipped * advantages)


_POLICY = frozenset({"logprobs", "advantages"})
_CLIP_INPUTS = frozenset(_CLIP)
_NONE: frozenset[str] = frozenset()

LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss(_cross_entropy, _NONE, frozenset({"weights"}), {}),
    "importance_sampling": Loss(_importance_sampling, _POLICY, _NONE, {}),
    "ppo": Loss(_ppo, _POLICY, _CLIP_INPUTS, _CLIP),
    "cispo": Loss(_cispo, _POLICY, _CLIP_INPUTS, _CLIP),
    "dro": Loss(_dro, _POLICY, _NONE, {"beta": 0.05}),
    "gspo": Loss(_gspo, _POLICY | {"sequence_ratio_mask"}, _CLIP_INPUTS, dict.fromkeys(_CLIP)),
}

_REFUSED = {
    "stable_reinforce": "the loopback server does not have it, as it knows no published formula of "
    "its objective; 'ppo', 'cispo' and 'importance_sampling' take the same data "
    "(in asynchronous runs: AsyncConfig(loss_fn='ppo'))",
    "custom": "the loopback server has no custom losses of its own; forward_backward_custom "
    "computes them in the client",
}


def find_loss(name: str) -> Loss:
    """The loss of that name; `ApiError` says what there is."""
    if name in _REFUSED:
        raise ApiError(f"loss {name!r}: {_REFUSED[name]}")
    if name not in LOSSES:
        raise ApiError(f"loss {name!r} is not known; there are {', '.join(LOSSES)}")
    return LOSSES[name]


def loss_settings(name: str, given: LossConfig) -> dict[str, float]:
    """The settings of a loss: what the request gives, over the defaults."""
    defaults = find_loss(name).settings
    if unknown := sorted(set(given) - set(defaults)):
        known = ", ".join(defaults) or "no settings"
        raise ApiError(f"loss {name!r} has no setting {unknown[0]!r}; it takes {known}")
    settings = {key: given.get(key, default) for key, default in defaults.items()}
    if missing := sorted(key for key, value in settings.items() if value is None):
        raise ApiError(f"loss {name!r} needs {missing[0]!r} in its loss_fn_config")
    return {key: value for key, value in settings.items() if value is not None}


def check_inputs(name: str, keys: frozenset[str], *, datum: int) -> None:
    """Refuse a datum whose loss inputs are not those of the loss."""
    loss = find_loss(name)
    if missing := sorted(loss.required - keys):
        raise ApiError(f"datum {datum} lacks {missing[0]!r}, which loss {name!r} reads")
    if unknown := sorted(keys - loss.required - loss.optional):
        raise ApiError(f"datum {datum} has {unknown[0]!r}, which loss {name!r} does not read")
