"""The loopback server against the same model called bare, at the same batch: sampling and training.

    python tst/bench/loopback_bench.py [REPEATS]

The bare model has the server's shape, weights and thread counts, in a process of its own: a plain
decoding loop over a key-value cache, and plain passes with the server's own head. Both are
measured in turns; the figures are medians. `share` is the bare model's time as a part of the
served time, by the clock. The columns after it say who used the processor meanwhile: the bare
model, the server, and the client with its SDK, in milliseconds a round.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import tinker
from tinker import types

from tinker_episodes import loopback

REPEATS = 9
SAMPLES, SAMPLED = 64, 64
EXAMPLES = 128
LENGTHS = (50, 400)
_TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one round took, in seconds by the clock and of the processor."""

    clock_s: float
    own_s: float
    server_s: float = 0.0


def main(repeats: int) -> None:
    """Measure both, in turns, and print a table."""
    print(f"{os.cpu_count()} cores; medians of {repeats}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':<8}{'length':>7}{'bare tok/s':>12}{'served tok/s':>14}{'share':>7}", end="")
    print(f"{'bare ms':>10}{'server ms':>11}{'client ms':>11}")
    with loopback.serve() as url:
        server = _child()
        service = tinker.ServiceClient(base_url=url)
        name = loopback.model_name()
        sampler = service.create_sampling_client(base_model=name).result()
        training = service.create_lora_training_client(base_model=name).result()
        served = {
            "sample": lambda length: sample_served(sampler, length),
            "train": lambda length: train_served(training, length),
        }
        tokens = {"sample": lambda _: SAMPLES * SAMPLED, "train": lambda length: EXAMPLES * length}
        with _bare_process() as bare:
            for what, work in served.items():
                for length in LENGTHS:
                    costs = measure(bare, what, length, server, work(length), repeats)
                    report(what, length, tokens[what](length), *costs)


def measure(
    bare: subprocess.Popen[str],
    what: str,
    length: int,
    server: int,
    work: Callable[[], object],
    repeats: int,
) -> tuple[list[Cost], list[Cost]]:
    """The costs of bare and served rounds in turns, after one of each to warm up."""
    bares: list[Cost] = []
    serveds: list[Cost] = []
    for _ in range(repeats + 1):
        bares.append(_ask(bare, what, length))
        before = _processor_s(server)
        cost = timed(work)
        serveds.append(Cost(cost.clock_s, cost.own_s, _processor_s(server) - before))
    return bares[1:], serveds[1:]


def report(what: str, length: int, tokens: int, bares: list[Cost], serveds: list[Cost]) -> None:
    bare_s = statistics.median(cost.clock_s for cost in bares)
    served_s = statistics.median(cost.clock_s for cost in serveds)
    row = f"{what:<8}{length:>7}{tokens / bare_s:>12,.0f}{tokens / served_s:>14,.0f}"
    row += f"{bare_s / served_s:>7.0%}"
    for values in (
        [cost.own_s for cost in bares],
        [cost.server_s for cost in serveds],
        [cost.own_s for cost in serveds],
    ):
        row += f"{statistics.mean(values) * 1e3:>10,.0f} "
    print(row, flush=True)


def timed(work: Callable[[], object]) -> Cost:
    clock, own = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - clock, time.process_time() - own)


def prompts(length: int) -> list[list[int]]:
    random = np.random.default_rng(length)
    return random.integers(20, 2_900, (max(SAMPLES, EXAMPLES), length)).tolist()


def sample_served(sampler: tinker.SamplingClient, length: int) -> Callable[[], object]:
    given = [types.ModelInput.from_ints(prompt) for prompt in prompts(length)[:SAMPLES]]
    params = types.SamplingParams(max_tokens=SAMPLED, stop=[])

    async def all_at_once() -> None:
        await asyncio.gather(*(sampler.sample(prompt, 1, params) for prompt in given))

    return lambda: asyncio.run(all_at_once())


def train_served(training: tinker.TrainingClient, length: int) -> Callable[[], object]:
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
    command = [sys.executable, __file__, "--bare"]
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


if __name__ == "__main__":
    if sys.argv[1:] == ["--bare"]:
        answer_bare(sys.stdin)
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else REPEATS)
