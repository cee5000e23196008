"""Each loss against a plain reference, value and gradient."""

import math

import pytest
import torch

from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.losses import (
    LOSSES,
    check_inputs,
    find_loss,
    loss_settings,
)

CLIPS = {"clip_low_threshold": 0.7, "clip_high_threshold": 1.1}


def cross_entropy(logprobs, inputs):
    return -(logprobs * inputs["weights"]).sum()


def importance_sampling(logprobs, inputs):
    return -(torch.exp(logprobs - inputs["logprobs"]) * inputs["advantages"]).sum()


def ppo(logprobs, inputs):
    ratio = torch.exp(logprobs - inputs["logprobs"])
    clipped = torch.clamp(ratio, 0.7, 1.1)
    objective = torch.min(ratio * inputs["advantages"], clipped * inputs["advantages"])
    return -objective.sum()


def cispo(logprobs, inputs):
    ratio = torch.exp(logprobs - inputs["logprobs"])
    clipped = torch.clamp(ratio, 0.7, 1.1).detach()
    return -(clipped * logprobs * inputs["advantages"]).sum()


def dro(logprobs, inputs):
    quadratic = (logprobs - inputs["logprobs"]) ** 2
    return -(logprobs * inputs["advantages"] - 0.5 * 0.05 * quadratic).sum()


def gspo(logprobs, inputs):
    total = 0.0
    for row in range(len(logprobs)):
        marked = inputs["sequence_ratio_mask"][row] != 0
        detached = logprobs[row].detach()
        mean = (detached - inputs["logprobs"][row])[marked].mean()
        ratio = torch.exp(mean + logprobs[row] - detached)
        advantages = inputs["advantages"][row]
        clipped = torch.clamp(ratio, 0.7, 1.1)
        total = total - torch.min(ratio * advantages, clipped * advantages).sum()
    return total


REFERENCES = {
    "cross_entropy": (cross_entropy, {}),
    "importance_sampling": (importance_sampling, {}),
    "ppo": (ppo, CLIPS),
    "cispo": (cispo, CLIPS),
    "dro": (dro, {}),
    "gspo": (gspo, CLIPS),
}


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_loss_and_gradient_equal_the_reference(name: str) -> None:
    reference, given = REFERENCES[name]
    draw = torch.Generator().manual_seed(7)
    shape = (3, 11, 1)
    values = -3 * torch.rand(shape, generator=draw)
    inputs = {
        "weights": torch.rand(shape, generator=draw),
        "logprobs": values + 0.4 * torch.randn(shape, generator=draw),
        "advantages": torch.randn(shape, generator=draw),
        "sequence_ratio_mask": (torch.rand(shape, generator=draw) < 0.5).float(),
    }
    ours, theirs = (values.clone().requires_grad_() for _ in range(2))
    loss = LOSSES[name].elements(ours, inputs, loss_settings(name, given)).sum()
    expected = reference(theirs, inputs)
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=0)


def test_clip_thresholds_of_a_datum_go_before_those_of_the_request() -> None:
    logprobs = torch.zeros(1, 2, 1)
    inputs = {
        "logprobs": torch.full((1, 2, 1), -math.log(3)),
        "advantages": torch.ones(1, 2, 1),
        "clip_high_threshold": torch.tensor([[[1.5], [2.5]]]),
    }
    elements = LOSSES["ppo"].elements(logprobs, inputs, loss_settings("ppo", {}))
    assert elements.flatten().tolist() == pytest.approx([-1.5, -2.5])


def test_a_loss_that_is_not_here_is_refused_with_a_reason() -> None:
    with pytest.raises(ApiError, match="knows no published formula"):
        find_loss("stable_reinforce")
    with pytest.raises(ApiError, match="client"):
        find_loss("custom")
    with pytest.raises(ApiError, match="not known; there are cross_entropy"):
        find_loss("hinge")


def test_settings_and_inputs_that_a_loss_does_not_read_are_refused() -> None:
    with pytest.raises(ApiError, match="no setting 'beta'; it takes clip_low"):
        loss_settings("ppo", {"beta": 0.1})
    with pytest.raises(ApiError, match=r"gspo.*needs 'clip_high_threshold'"):
        loss_settings("gspo", {})
    with pytest.raises(ApiError, match="datum 3 lacks 'advantages'"):
        check_inputs("ppo", frozenset({"logprobs"}), datum=3)
    with pytest.raises(ApiError, match="datum 0 has 'mask', which loss"):
        check_inputs("cross_entropy", frozenset({"weights", "mask"}), datum=0)
