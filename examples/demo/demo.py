"""The whole path on this machine: a tiny model learns a tool-calling task, with no key.

    python examples/demo/demo.py [seed=0] [rl_steps=45]      # --help lists all settings

1. A model with random weights is served by the loopback server.
2. It imitates scripted play: a quarter of the players search by halves, the others count up or
   down, and all of them slip now and then.
3. The cookbook's unmodified `rl.train` trains it on the bundle's tasks, by their rewards alone.
4. The screen shows what it learned, and where every rollout is.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import warnings
from pathlib import Path

import chz
import tinker
from rich.text import Text
from screen import Screen
from scripted_play import Players, example_texts, scripted_data
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.rl import train
from tinker_cookbook.rl.rollout_runner import run_rollout

from tinker_episodes import Bundle, EpisodeDatasetBuilder, EpisodeEnv, find_bundle, loopback
from tinker_episodes.cookbook.rendering import rendering_of
from tinker_episodes.loopback.tokenizer_training import train_tokenizer
from tinker_episodes.wording import entry_lines

BUNDLE = "number_search"
RENDERER = "qwen3_instruct"
SHOWN = "w20-29"
"""The held-out task whose plays are shown. Counting does not reach it in time."""
_BATCH = 32
"""Scripted episodes in one warm-up step."""


@chz.chz
class Settings:
    """How the demo runs."""

    seed: int = 0
    """Of the model's weights, the scripted play and the order of tasks."""
    folder: str = "runs"
    """Where the run, its index and the tokenizer go."""
    episodes: int = 2_000
    """Scripted episodes to imitate."""
    halving: float = 0.25
    """The share of them that is played by halves; the others count up or down."""
    slips: float = 0.1
    """The share of scripted guesses that go anywhere."""
    warm_up_steps: int = 550
    warm_up_rate: float = 0.005
    rl_steps: int = 45
    rl_rate: float = 0.001
    eval_every: int = 15
    """RL steps between two held-out evals."""
    picture: str | None = None
    """Where to save what is shown as an SVG file, as the README has it."""

    def problems(self) -> list[str]:
        """What is wrong with the settings, one line each."""
        wrong: list[str] = []
        for name, least in (
            ("episodes", _BATCH),
            ("warm_up_steps", 1),
            ("rl_steps", 1),
            ("eval_every", 1),
        ):
            if (value := getattr(self, name)) < least:
                wrong.append(f"{name}={value} is too few: give {least} or more")
        for name in ("halving", "slips"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                wrong.append(f"{name}={value} is no share: give 0 to 1")
        for name in ("warm_up_rate", "rl_rate"):
            if not 0 < (value := getattr(self, name)) < 1:
                wrong.append(f"{name}={value} is no learning rate: give one between 0 and 1")
        return wrong


async def main(settings: Settings, run: Path) -> None:
    """Run the demo.

    Args:
        run: Where the run goes, an absolute path.
    """
    began = time.monotonic()
    bundle = find_bundle(BUNDLE)
    screen = Screen(SHOWN)
    rng = random.Random(settings.seed)
    screen.opens(bundle, settings.seed, Players(settings.halving, settings.slips))
    model = str(await _tokenizer(bundle, run / "tokenizer"))
    with loopback.serve(model=model, seed=settings.seed) as url:
        service = tinker.ServiceClient(base_url=url)
        before = await service.create_sampling_client(base_model=model)
        screen.plays("before", await _one_play(bundle, model, before))
        start = await _warm_up(settings, bundle, model, service, rng, screen)
        await _reinforce(settings, url, model, run, start, screen)
    screen.ends(run, time.monotonic() - began)
    if settings.picture is not None:
        screen.saves(run, Path(settings.picture))


async def _tokenizer(bundle: Bundle, folder: Path) -> Path:
    """A tokenizer of the task's own words: prompts that a tiny model can read."""
    rendering = rendering_of(loopback.model_name(), RENDERER)
    texts = await example_texts(bundle, rendering)
    train_tokenizer(texts, folder, vocab_size=1_000, cross_words=True, numbers=True)
    return folder


async def _warm_up(
    settings: Settings,
    bundle: Bundle,
    model: str,
    service: tinker.ServiceClient,
    rng: random.Random,
    screen: Screen,
) -> str:
    """Imitate scripted play, and give the checkpoint that reinforcement learning starts from."""
    data = await scripted_data(
        bundle,
        rendering_of(model, RENDERER),
        Players(settings.halving, settings.slips),
        episodes=settings.episodes,
        rng=rng,
    )
    client = await service.create_lora_training_client(base_model=model, rank=32)
    waiting: list[tuple[tinker.APIFuture, tinker.APIFuture]] = []
    with screen.progress("warm-up: imitate scripted play", settings.warm_up_steps) as step:
        for at in range(settings.warm_up_steps):
            rate = settings.warm_up_rate * (1 - 0.9 * at / settings.warm_up_steps)
            batch = rng.sample(data, _BATCH)
            waiting.append(
                (
                    client.forward_backward(batch, "cross_entropy"),
                    client.optim_step(tinker.AdamParams(learning_rate=rate, beta2=0.95)),
                )
            )
            if len(waiting) > 2:
                step(await _loss(*waiting.pop(0)))
        for loss, done in waiting:
            step(await _loss(loss, done))
    return (await client.save_state("warm_up")).path


async def _loss(loss: tinker.APIFuture, done: tinker.APIFuture) -> str:
    await done
    return f"loss {(await loss).metrics['loss:sum'] / _BATCH:.1f}"


async def _reinforce(
    settings: Settings, url: str, model: str, run: Path, start: str, screen: Screen
) -> None:
    """The cookbook's own trainer; its own output goes to a file beside the run."""
    config = train.Config(
        base_url=url,
        dataset_builder=EpisodeDatasetBuilder(
            bundle=BUNDLE,
            model_name=model,
            renderer_name=RENDERER,
            groups_per_batch=8,
            group_size=8,
            test_split="val",
            test_group_size=16,
            log_path=str(run),
            seed=settings.seed,
            num_epochs=100,
        ),
        model_name=model,
        renderer_name=RENDERER,
        log_path=str(run),
        recipe_name="tinker_episodes_demo",
        learning_rate=settings.rl_rate,
        max_tokens=24,
        num_substeps=2,
        eval_every=settings.eval_every,
        save_every=0,
        num_groups_to_log=0,
        max_steps=settings.rl_steps + 1,
        load_checkpoint_path=start,
    )
    with screen.follows(run, settings.rl_steps + 1):
        await train.main(config)


async def _one_play(bundle: Bundle, model: str, client: tinker.SamplingClient) -> list[Text]:
    """One play of a held-out task by the model as it is."""
    env = EpisodeEnv(
        environment=bundle.environment,
        task=bundle.tasks[SHOWN],
        renderer=rendering_of(model, RENDERER),
    )
    await run_rollout(TinkerTokenCompleter(client, max_tokens=24), env)
    entries = env.episode.transcript.to_json()
    return [line for entry in entries for line in entry_lines(entry)]


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    chosen: Settings = chz.entrypoint(Settings, argv=sys.argv[1:])
    if wrong := chosen.problems():
        sys.exit("\n".join(wrong))
    folder = Path(chosen.folder).expanduser().absolute()
    # The cookbook calls names that the SDK deprecates.
    warnings.simplefilter("ignore", FutureWarning)
    try:
        asyncio.run(main(chosen, folder / time.strftime("demo-%Y%m%d-%H%M%S")))
    except KeyboardInterrupt:
        sys.exit(130)
