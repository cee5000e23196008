"""The sampling engine by itself: lanes, slots, and prompts that continue earlier samples."""

import numpy as np
import pytest
import torch

from tinker_episodes.loopback.engine import Engine
from tinker_episodes.loopback.model import Shape, Transformer
from tinker_episodes.loopback.prefixes import LONGEST_ADDITION, SHORTEST, Prefixes
from tinker_episodes.loopback.sampling import Params, Sampled, SampleJob

MODEL = Transformer(Shape(vocabulary=60, width=16, layers=2, heads=2)).requires_grad_(False)
FLOAT_ERROR = 1e-5


def job(prompt: list[int], results: list[Sampled | Exception], **params: object) -> SampleJob:
    return SampleJob(
        prompt=prompt,
        params=Params(**({"max_tokens": 8} | params)),
        count=1,
        noise=[len(prompt)],
        weights=lambda: MODEL,
        wanted=None,
        done=results.append,
    )


def run(engine: Engine, jobs: list[SampleJob]) -> None:
    for one in jobs:
        engine.add(one)
    while engine.busy:
        engine.step()


def check(prompt: list[int], result: Sampled | Exception) -> list[int]:
    """A result's tokens, whose log-probabilities are those of a forward pass over all."""
    assert isinstance(result, Sampled)
    (sample,) = result.samples
    whole = torch.tensor([*prompt, *sample.tokens])
    logprobs = MODEL.logits(MODEL(whole[None, :-1]))[0].log_softmax(-1)
    expected = logprobs.gather(1, whole[1:, None])[len(prompt) - 1 :, 0]
    assert np.abs(expected.numpy() - np.array(sample.logprobs)).max() < FLOAT_ERROR
    return list(sample.tokens)


def prompt_of(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 60, length).tolist()


def test_samples_that_join_at_any_token_are_right() -> None:
    engine = Engine([b"x"] * 60, Prefixes())
    prompts = [prompt_of(length) for length in (3, 40, 3, 700, 120, 9, 260, 1)]
    results: list[list[Sampled | Exception]] = [[] for _ in prompts]
    for place, prompt in enumerate(prompts):
        engine.add(job(prompt, results[place], max_tokens=3 + 2 * place))
        engine.step()
    while engine.busy:
        engine.step()
    for place, (prompt, (result,)) in enumerate(zip(prompts, results, strict=True)):
        assert len(check(prompt, result)) == 3 + 2 * place


@pytest.mark.parametrize("added", [1, 50, LONGEST_ADDITION + 1])
def test_a_prompt_that_continues_a_sample_gets_what_a_fresh_one_gets(added: int) -> None:
    first: list[Sampled | Exception] = []
    continued: list[Sampled | Exception] = []
    fresh: list[Sampled | Exception] = []
    engine = Engine([b"x"] * 60, Prefixes())
    start = prompt_of(SHORTEST + 5)
    run(engine, [job(start, first)])
    follow = start + check(start, first[0]) + prompt_of(added, seed=1)
    run(engine, [job(follow, continued, max_tokens=20)])
    run(Engine([b"x"] * 60, Prefixes()), [job(follow, fresh, max_tokens=20)])
    assert check(follow, continued[0]) == check(follow, fresh[0])


def test_only_new_tokens_of_a_continued_prompt_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    prefill = Transformer.prefill

    def counted(self: Transformer, ids: torch.Tensor, lengths: torch.Tensor):
        read.append(ids.numel())
        return prefill(self, ids, lengths)

    monkeypatch.setattr(Transformer, "prefill", counted)
    engine = Engine([b"x"] * 60, Prefixes())
    results: list[Sampled | Exception] = []
    start = prompt_of(SHORTEST)
    run(engine, [job(start, results)])
    run(engine, [job(start + check(start, results[0]) + [1, 2], results)])
    assert read == [SHORTEST]


def test_the_same_prompts_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    prefill = Transformer.prefill

    def counted(self: Transformer, ids: torch.Tensor, lengths: torch.Tensor):
        read.append(len(ids))
        return prefill(self, ids, lengths)

    monkeypatch.setattr(Transformer, "prefill", counted)
    results: list[Sampled | Exception] = []
    run(Engine([b"x"] * 60, Prefixes()), [job([1, 2, 3], results) for _ in range(16)])
    assert (read, len(results)) == ([1], 16)


def test_a_request_that_fails_leaves_the_others_alone() -> None:
    engine = Engine([b"x"] * 60, Prefixes())
    results: list[Sampled | Exception] = []
    broken = job([1], results)
    broken.weights = lambda: (_ for _ in ()).throw(OSError("no weights"))
    run(engine, [broken, job([1, 2], results)])
    assert isinstance(results[0], OSError)
    check([1, 2], results[1])
