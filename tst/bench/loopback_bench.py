"""The loopback server against the same model called bare, at the same batch: sampling and training.

The bare model has the server's shape, weights and thread counts, in a process of its own: a plain
decoding loop over a key-value cache, and plain passes with the server's own head. Both are
measured in turns. The goal is by the clock; who used the processor meanwhile is told beside it,
which other work on the machine changes less.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import tinker
from table import Row, Work
from tinker import types

from tinker_episodes import loopback

REPEATS = 9
SAMPLES, SAMPLED = 64, 64
EXAMPLES = 128
LENGTHS = (50, 400)
GOAL = 0.6
_TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one round took, in seconds by the clock and of the processor."""

    clock_s: float
    own_s: float
    server_s: float = 0.0


def rows() -> Iterator[Row]:
    """A row for each length: tokens a second through SDK and server, beside the bare model's."""
    with loopback.serve() as url:
        server = _child()
        service = tinker.ServiceClient(base_url=url)
        name = loopback.model_name()
        sampler = service.create_sampling_client(base_model=name).result()
        training = service.create_lora_training_client(base_model=name).result()
        with _bare_process() as bare:
            for length in LENGTHS:
                work = sample_served(sampler, length)
                costs = measure(bare, "sample", length, server, work)
                sizes = f"{SAMPLES} prompts of {length} tokens at once, {SAMPLED} sampled each"
                yield row("loopback: sampling", sizes, SAMPLES * SAMPLED, *costs)
            for length in LENGTHS:
                work = train_served(training, length)
                costs = measure(bare, "train", length, server, work)
                sizes = f"{EXAMPLES} data of {length} tokens, forward_backward and optim_step"
                yield row("loopback: training", sizes, EXAMPLES * length, *costs)
            assert bare.stdin is not None, "it is a pipe"
            bare.stdin.close()
        service.close("success").result()


def measure(
    bare: subprocess.Popen[str], what: str, length: int, server: int, work: Work
) -> tuple[list[Cost], list[Cost]]:
    """The costs of bare and served rounds in turns, after one of each to warm up."""
    bares: list[Cost] = []
    serveds: list[Cost] = []
    for _ in range(REPEATS + 1):
        bares.append(_ask(bare, what, length))
        before = _processor_s(server)
        cost = timed(work)
        serveds.append(Cost(cost.clock_s, cost.own_s, _processor_s(server) - before))
    return bares[1:], serveds[1:]


def row(work: str, sizes: str, tokens: int, bares: list[Cost], serveds: list[Cost]) -> Row:
    bare_s = statistics.median(cost.clock_s for cost in bares)
    served_s = statistics.median(cost.clock_s for cost in serveds)
    bare_ms = statistics.median(cost.own_s for cost in bares) * 1e3
    server_ms = statistics.mean(cost.server_s for cost in serveds) * 1e3  # it counts in ticks
    client_ms = statistics.median(cost.own_s for cost in serveds) * 1e3
    return Row(
        work,
        "the same model called bare",
        f"{sizes}; median of {REPEATS}",
        f"{bare_s / served_s:.0%} ({tokens / served_s:,.0f} of {tokens / bare_s:,.0f} tokens/s); "
        f"processor: bare {bare_ms:.0f} ms, server {server_ms:.0f} ms, SDK {client_ms:.0f} ms",
        f">= {GOAL:.0%}",
        bare_s / served_s >= GOAL,
        {
            "bare_s": bare_s,
            "served_s": served_s,
            "bare_processor_ms": bare_ms,
            "server_processor_ms": server_ms,
            "client_processor_ms": client_ms,
        },
    )


def timed(work: Work) -> Cost:
    """One round, without the garbage collector, whose turn would fall on whoever allocates next."""
    gc.collect()
    gc.disable()
    try:
        clock, own = time.perf_counter(), time.process_time()
        work()
        return Cost(time.perf_counter() - clock, time.process_time() - own)
    finally:
        gc.enable()


def prompts(length: int) -> list[list[int]]:
    random = np.random.default_rng(length)
    return random.integers(20, 2_900, (max(SAMPLES, EXAMPLES), length)).tolist()


def sample_served(sampler: tinker.SamplingClient, length: int) -> Work:
    given = [types.ModelInput.from_ints(prompt) for prompt in prompts(length)[:SAMPLES]]
    params = types.SamplingParams(max_tokens=SAMPLED, stop=[])

    async def all_at_once() -> None:
        await asyncio.gather(*(sampler.sample(prompt, 1, params) for prompt in given))

    return lambda: asyncio.run(all_at_once())


def train_served(training: tinker.TrainingClient, length: int) -> Work:
    data = [
        types.Datum(types.ModelInput.from_ints(prompt), {"target_tokens": prompt})
        for prompt in prompts(length)[:EXAMPLES]
    ]

    def step() -> None:
        future = training.forward_backward(data, "cross_entropy")
        training.optim_step(types.AdamParams(learning_rate=1e-4)).result()
        future.result()

    return step


def _bare_process() -> subprocess.Popen[str]:
    command = [sys.executable, __file__]
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}  # as the server sets it
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def _ask(bare: subprocess.Popen[str], what: str, length: int) -> Cost:
    assert bare.stdin is not None and bare.stdout is not None, "both are pipes"
    print(what, length, file=bare.stdin, flush=True)
    clock_s, own_s = bare.stdout.readline().split()
    return Cost(float(clock_s), float(own_s))


def _child() -> int:
    """The server's process: this one's only child."""
    (child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(child)


def _processor_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_S


def answer_bare(requests: IO[str]) -> None:
    """Run the bare model's rounds, one for each line."""
    import torch

    from tinker_episodes.loopback.head import target_logprobs
    from tinker_episodes.loopback.model import Shape, Transformer
    from tinker_episodes.loopback.vocabulary import read_vocabulary

    vocabulary = read_vocabulary(Path(loopback.model_name())).size
    model = Transformer(Shape(vocabulary, width=64, layers=2, heads=2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    threads = torch.get_num_threads()

    @torch.inference_mode()
    def sample(ids: torch.Tensor) -> None:
        hidden, cache = model.prefill(ids, torch.full((len(ids),), ids.shape[1]))
        last = hidden[:, -1]
        torch.set_num_threads(1)
        for _ in range(SAMPLED):
            scores = model.logits(last)
            cumulated = scores.softmax(-1).cumsum(-1)
            drawn = torch.searchsorted(cumulated, torch.rand(len(ids), 1))
            tokens = drawn.clamp(max=vocabulary - 1)
            scores.log_softmax(-1).gather(1, tokens).tolist()
            last = model.extend(tokens, cache)[:, -1]
        torch.set_num_threads(threads)

    def train(ids: torch.Tensor) -> None:
        for part in ids.split(max(1, 8_192 // ids.shape[1])):
            hidden = model(part).flatten(0, 1)
            (-target_logprobs(hidden, model.embedding.weight, part.reshape(-1, 1)).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()

    for line in requests:
        what, length = line.split()
        ids = torch.tensor(prompts(int(length))[: SAMPLES if what == "sample" else EXAMPLES])
        cost = timed(lambda: (sample if what == "sample" else train)(ids))  # noqa: B023  # called at once
        print(cost.clock_s, cost.own_s, flush=True)


if __name__ == "__main__":  # the bare model's own process
    answer_bare(sys.stdin)
