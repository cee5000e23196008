"""The loopback server against the same model called bare, at the same batch: sampling and training.

    python tst/bench/loopback_bench.py

Prints tokens a second and the server's share of the bare model's. The server shares the machine
with its client, as it does in training. What else runs on the machine spoils both numbers.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import tinker
from tinker import types

from tinker_episodes import loopback

REPEATS = 9
SAMPLES, SAMPLED = 64, 64
EXAMPLES = 128
LENGTHS = (50, 400)


def main() -> None:
    """Measure both, in turns, and print a table."""
    print(f"{os.cpu_count()} cores; best of {REPEATS}; load {os.getloadavg()[0]:.1f}")
    print(f"{'what':<10}{'length':>8}{'bare tok/s':>14}{'server tok/s':>14}{'share':>8}")
    with loopback.serve() as url:
        service = tinker.ServiceClient(base_url=url)
        name = loopback.model_name()
        sampler = service.create_sampling_client(base_model=name).result()
        training = service.create_lora_training_client(base_model=name).result()
        for length in LENGTHS:
            served = sample_served(sampler, length)
            report("sample", length, SAMPLES * SAMPLED, bare("sample", length), served)
        for length in LENGTHS:
            served = train_served(training, length)
            report("train", length, EXAMPLES * length, bare("train", length), served)


def report(what: str, length: int, tokens: int, bare_s: float, served_s: float) -> None:
    rates = f"{tokens / bare_s:>14,.0f}{tokens / served_s:>14,.0f}"
    print(f"{what:<10}{length:>8}{rates}{bare_s / served_s:>8.0%}", flush=True)


def best_s(work: Callable[[], object]) -> float:
    """The shortest time of `work`, after one call to warm up."""
    work()
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def prompts(length: int) -> list[list[int]]:
    random = np.random.default_rng(length)
    return random.integers(20, 2_900, (max(SAMPLES, EXAMPLES), length)).tolist()


def sample_served(sampler: tinker.SamplingClient, length: int) -> float:
    given = [types.ModelInput.from_ints(prompt) for prompt in prompts(length)[:SAMPLES]]
    params = types.SamplingParams(max_tokens=SAMPLED, stop=[])

    async def all_at_once() -> None:
        await asyncio.gather(*(sampler.sample(prompt, 1, params) for prompt in given))

    return best_s(lambda: asyncio.run(all_at_once()))


def train_served(training: tinker.TrainingClient, length: int) -> float:
    data = [
        types.Datum(types.ModelInput.from_ints(prompt), {"target_tokens": prompt})
        for prompt in prompts(length)[:EXAMPLES]
    ]

    def step() -> None:
        future = training.forward_backward(data, "cross_entropy")
        training.optim_step(types.AdamParams(learning_rate=1e-4)).result()
        future.result()

    return best_s(step)


def bare(what: str, length: int) -> float:
    """The bare model's time, in a process of its own, as the server's is."""
    command = [sys.executable, __file__, what, str(length)]
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}  # as the server sets it
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    return float(output)


def run_bare(what: str, length: int) -> None:
    import torch
    import torch.nn.functional as F

    from tinker_episodes.loopback.model import Shape, Transformer

    model = Transformer(Shape(vocabulary=3_000, width=64, layers=2, heads=2))
    ids = torch.tensor(prompts(length)[: SAMPLES if what == "sample" else EXAMPLES])

    @torch.inference_mode()
    def sample() -> None:
        hidden, cache = model.prefill(ids, torch.full((SAMPLES,), length))
        last = hidden[:, -1]
        for _ in range(SAMPLED):
            scores = model.logits(last)
            cumulated = scores.softmax(-1).cumsum(-1)
            tokens = torch.searchsorted(cumulated, torch.rand(SAMPLES, 1)).clamp(max=2_999)
            scores.log_softmax(-1).gather(1, tokens)
            last = model.extend(tokens, cache)[:, -1]

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def train() -> None:
        for part in ids.split(max(1, 8_192 // length)):
            scores = model.logits(model(part)).flatten(0, 1)
            F.cross_entropy(scores, part.flatten(), reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()

    print(best_s(sample if what == "sample" else train))


if __name__ == "__main__":
    if sys.argv[1:]:
        run_bare(sys.argv[1], int(sys.argv[2]))
    else:
        main()
