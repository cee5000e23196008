"""Train on a bundle with the rollouts played on a Ray cluster.

    pip install 'tinker-episodes[ray]'
    python examples/ray_cluster.py bundle=number_search log_path=runs/first index=postgresql://…

The trainer hands each group of rollouts to a worker of the cluster. Workers file into the run
index, so it must be one that all of them reach: a file where they share one machine, PostgreSQL
where they do not. `address=auto` joins a running cluster; without it, Ray starts one here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

import chz
import ray
from tinker_cookbook.rl import train

from tinker_episodes import EpisodeDatasetBuilder

P = ParamSpec("P")
R = TypeVar("R")


class RayExecutor(Executor):
    """Calls, each on a worker of the cluster that takes it when it has a CPU to spare."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        reference: Any = _call.remote(fn, args, kwargs)
        answered: Future[R | SystemExit] = reference.future()
        result: Future[R] = Future()
        answered.add_done_callback(lambda done: _pass_on(done, result))
        return result


@ray.remote(max_retries=0)  # the host's strategies retry
def _call(fn: Callable[..., R], args: Any, kwargs: Any) -> R | SystemExit:
    try:
        return fn(*args, **kwargs)
    except SystemExit as stop:  # Ray would take it for the end of the worker
        return stop


def _pass_on(answered: Future[R | SystemExit], result: Future[R]) -> None:
    try:
        value = answered.result()
    except Exception as error:  # noqa: BLE001 - the trainer's to deal with
        result.set_exception(error)
        return
    if isinstance(value, SystemExit):
        result.set_exception(value)
    else:
        result.set_result(value)


@chz.chz
class Settings:
    """What the command line takes."""

    bundle: str
    log_path: str
    model_name: str = "Qwen/Qwen3.5-9B"
    renderer_name: str = "qwen3_5_preserve_thinking"
    groups_per_batch: int = 16
    group_size: int = 8
    max_tokens: int = 1024
    temperature: float = 1.0
    learning_rate: float = 4e-5
    max_steps: int | None = None
    index: str | None = None
    base_url: str | None = None
    address: str | None = None
    """Of a running cluster; None: one on this machine."""
    cpus: int | None = None
    """Of a cluster that is started here; None: all there are."""


def main(settings: Settings) -> None:
    """Train, with the rollouts on the cluster."""
    ray.init(
        address=settings.address,
        num_cpus=settings.cpus,
        include_dashboard=None if settings.address else False,
        log_to_driver=False,
    )
    data = EpisodeDatasetBuilder(
        bundle=settings.bundle,
        model_name=settings.model_name,
        renderer_name=settings.renderer_name,
        groups_per_batch=settings.groups_per_batch,
        group_size=settings.group_size,
        log_path=settings.log_path,
        index=settings.index,
    )
    config = train.Config(
        dataset_builder=data,
        model_name=settings.model_name,
        renderer_name=settings.renderer_name,
        log_path=settings.log_path,
        recipe_name="tinker_episodes",
        learning_rate=settings.learning_rate,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        max_steps=settings.max_steps,
        base_url=settings.base_url,
    )
    try:
        asyncio.run(train.main(config, rollout_executor=RayExecutor()))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    chz.nested_entrypoint(main)
