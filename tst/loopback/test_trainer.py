"""The model, its head and the trainer against plain torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tinker.types import AdamParams

from tinker_episodes.loopback.examples import Example, batches
from tinker_episodes.loopback.head import target_logprobs
from tinker_episodes.loopback.losses import LOSSES, loss_settings
from tinker_episodes.loopback.model import Shape, Transformer
from tinker_episodes.loopback.trainer import Trainer

from .test_losses import REFERENCES

SHAPE = Shape(vocabulary=50, width=16, layers=2, heads=2)


def example(length: int, seed: int, *, loss: str = "cross_entropy") -> Example:
    random = np.random.default_rng(seed)
    names = LOSSES[loss].required | LOSSES[loss].optional - {
        "clip_low_threshold",
        "clip_high_threshold",
    }
    inputs = {name: random.normal(size=(length, 1)).astype(np.float32) for name in sorted(names)}
    if "logprobs" in inputs:
        inputs["logprobs"] = -4 + 0.1 * inputs["logprobs"]
    tokens = random.integers(0, 50, length)
    return Example(tokens, random.integers(0, 50, (length, 1)), inputs, flat=True)


def plain_loss(model: Transformer, examples: list[Example], loss: str) -> torch.Tensor:
    """The reference's loss of each example by itself, without padding or the chunked head."""
    reference, _ = REFERENCES[loss]
    total = torch.zeros(())
    for one in examples:
        logits = model.logits(model(torch.tensor(one.tokens)[None]))
        logprobs = F.log_softmax(logits, -1).gather(2, torch.tensor(one.targets)[None])
        inputs = {name: torch.tensor(value)[None] for name, value in one.inputs.items()}
        total = total + reference(logprobs, inputs)
    return total


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_padded_batches_give_the_loss_and_gradients_of_each_example_alone(loss: str) -> None:
    settings = loss_settings(loss, REFERENCES[loss][1])
    trainer = Trainer(Transformer(SHAPE))
    plain = Transformer(SHAPE)
    examples = [example(length, length, loss=loss) for length in (9, 3, 30, 5, 9)]
    result = trainer.run(examples, loss, settings, backward=True)
    expected = plain_loss(plain, examples, loss)
    expected.backward()
    assert result.loss == pytest.approx(expected.item(), abs=1e-5, rel=1e-6)
    assert [len(logprobs) for logprobs in result.logprobs] == [9, 3, 30, 5, 9]
    for ours, theirs in zip(trainer.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)


def test_head_equals_log_softmax_where_only_some_positions_have_a_gradient() -> None:
    torch.manual_seed(0)
    hidden, embedding = torch.randn(40, 8), torch.randn(23, 8)
    targets = torch.randint(0, 23, (40, 3))
    weights = torch.randn(40, 3) * (torch.rand(40, 1) < 0.5)
    ours = [hidden.clone().requires_grad_(), embedding.clone().requires_grad_()]
    theirs = [hidden.clone().requires_grad_(), embedding.clone().requires_grad_()]
    logprobs = target_logprobs(ours[0], ours[1], targets)
    expected = F.log_softmax(theirs[0] @ theirs[1].T, -1).gather(1, targets)
    torch.testing.assert_close(logprobs, expected)
    (logprobs * weights).sum().backward()
    (expected * weights).sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


def test_step_is_torch_adamw_with_clipping_and_weight_decay() -> None:
    trainer, plain = Trainer(Transformer(SHAPE)), Transformer(SHAPE)
    optimizer = torch.optim.AdamW(
        plain.parameters(), lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1
    )
    params = AdamParams(
        learning_rate=0.01, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.1, grad_clip_norm=0.5
    )
    examples = [example(12, 1), example(7, 2)]
    for _ in range(3):
        trainer.run(examples, "cross_entropy", {}, backward=True)
        metrics = trainer.step(params)
        plain_loss(plain, examples, "cross_entropy").backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        assert metrics["grad_norm:mean"] == pytest.approx(float(norm), rel=1e-4)
    for ours, theirs in zip(trainer.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_extending_a_cache_equals_reading_it_all() -> None:
    model = Transformer(SHAPE)
    ids = torch.randint(0, 50, (3, 20), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([12, 7, 12])
    with torch.no_grad():
        _, cache = model.prefill(ids[:, :12], lengths)
        extended = [model.extend(ids[:, 12:14], cache), model.extend(ids[:, 14:15], cache)]
        for row, length in enumerate(lengths.tolist()):
            whole = torch.cat([ids[row, :length], ids[row, 12:15]])
            expected = model(whole[None])[0, length:]
            torch.testing.assert_close(torch.cat([extended[0][row], extended[1][row]]), expected)


def test_batches_hold_every_example_once_and_bound_their_padding() -> None:
    examples = [example(length, length) for length in (1, 900, 30, 31, 29, 5_000, 5_000, 2)]
    made = batches(examples)
    assert sorted(place for batch in made for place in batch.members) == list(range(8))
    for batch in made:
        lengths = [len(examples[place].tokens) for place in batch.members]
        assert max(lengths) <= 1.25 * min(lengths) + 16
        assert len(lengths) == 1 or max(lengths) * len(lengths) <= 8_192
