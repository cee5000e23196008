"""The dataset builder that a user's training configuration names."""

from __future__ import annotations

import asyncio
import logging

import chz
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits
from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder

from tinker_episodes.bundle import Bundle, find_bundle
from tinker_episodes.cookbook.advice import advise
from tinker_episodes.cookbook.dataset import EpisodeDataset
from tinker_episodes.cookbook.group import GroupSettings
from tinker_episodes.cookbook.process import goes_on
from tinker_episodes.cookbook.rendering import rendering_of
from tinker_episodes.cookbook.starts import RunRef
from tinker_episodes.cookbook.wire import check_names
from tinker_episodes.environment import read_environment
from tinker_episodes.errors import ConfigError
from tinker_episodes.index import Split
from tinker_episodes.index.schema import check_url, default_url
from tinker_episodes.scoring import reward_scorer
from tinker_episodes.task import Task

logger = logging.getLogger(__name__)


@chz.chz
class EpisodeDatasetBuilder(RLDatasetBuilder):
    """Reinforcement-learning datasets from a bundle of agent tasks, for
    `tinker_cookbook.rl.train.Config`.

    Calling it checks every name; a wrong one raises `ConfigError` with those that there are.
    """

    bundle: str
    """An installed bundle's name, `./folder`, or `package.module:NAME` for one made in code."""
    model_name: str
    """As in the training configuration: its tokenizer is used."""
    renderer_name: str
    """A renderer of the cookbook that has tools."""
    log_path: str
    """As in the training configuration: it is the run's identity."""
    groups_per_batch: int
    """Tasks a training step."""
    group_size: int
    """Rollouts a task."""
    train_split: str = "all"
    """`all`, or an eval of the bundle."""
    test_split: str | None = None
    """`all`, or an eval of the bundle; None: no evals."""
    test_group_size: int = 1
    """Rollouts a task in evals."""
    reward: str | None = None
    """The scorer whose value is the reward; default: the bundle's, or the only one."""
    max_concurrent_episodes: int | None = None
    """Episodes that are open at once in one process, train and eval together; None: no bound."""
    index: str | None = None
    """The database URL of the run index; default: `episodes.db` beside the log path."""
    seed: int = 0
    """Of the shuffles."""
    num_epochs: int = 1
    """How often each training task is played; each epoch has its own shuffle."""
    limits: RolloutLimits = chz.field(default_factory=RolloutLimits)
    """The host's limits of one rollout. One that reaches a limit is scored as it was left."""
    parse_errors: ParseErrorPolicy | None = None
    """The host's policy for malformed replies; None: the first one ends the rollout."""
    history_tokens: int | None = None
    """How many tokens a prompt may have before its oldest exchanges are dropped; None: no bound."""
    reuse_log_path: bool = False
    """Begin even where the log path holds rollouts that this start does not go on from: of other
    bundles, or with no checkpoint. Its own then stand in their place; nothing is deleted."""

    @chz.validate
    def _check_numbers(self) -> None:
        for name in ("groups_per_batch", "group_size", "test_group_size", "num_epochs"):
            value = getattr(self, name)  # the fields named here
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        for name in ("max_concurrent_episodes", "history_tokens"):
            value = getattr(self, name)  # as above
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        """The training dataset and the eval's, if there is a `test_split`.

        Raises:
            ConfigError: a name that isn't there, or a log path that holds another run's rollouts.
            BundleError: the bundle has faults.
            RunIndexError: the run index can't be used.
        """
        bundle = find_bundle(self.bundle)
        train = _tasks(bundle, self.train_split, self.reward)
        test = None if self.test_split is None else _tasks(bundle, self.test_split, self.reward)
        _check_apart(self.train_split, train, self.test_split, test or ())
        rendering = rendering_of(self.model_name, self.renderer_name)
        environment = read_environment(bundle.environment)
        check_names(rendering.renderer, environment.tools.values())
        await advise(rendering, self.renderer_name, environment, [*train, *(test or ())])
        index = self.index or default_url(self.log_path)
        await asyncio.to_thread(check_url, index)
        run = await asyncio.to_thread(
            RunRef.begin,
            self.log_path,
            index,
            bundle=bundle.name,
            reuse_log_path=self.reuse_log_path,
        )
        goes_on(run)
        return self._train(bundle, run, train), self._test(bundle, run, test)

    def _train(self, bundle: Bundle, run: RunRef, tasks: tuple[Task, ...]) -> RLDataset:
        return EpisodeDataset(
            self._settings(bundle, run, self.group_size),
            [task.id for task in tasks],
            Split.TRAIN,
            groups_per_batch=self.groups_per_batch,
            num_epochs=self.num_epochs,
            seed=self.seed,
        )

    def _test(
        self, bundle: Bundle, run: RunRef, tasks: tuple[Task, ...] | None
    ) -> RLDataset | None:
        if tasks is None:
            return None
        return EpisodeDataset(
            self._settings(bundle, run, self.test_group_size),
            [task.id for task in tasks],
            Split.EVAL,
            groups_per_batch=self.groups_per_batch,
        )

    def _settings(self, bundle: Bundle, run: RunRef, group_size: int) -> GroupSettings:
        return GroupSettings(
            bundle=bundle,
            run=run,
            model_name=self.model_name,
            renderer_name=self.renderer_name,
            group_size=group_size,
            reward=self.reward,
            limits=self.limits,
            parse_errors=self.parse_errors,
            max_concurrent_episodes=self.max_concurrent_episodes,
            history_tokens=self.history_tokens,
        )


def _tasks(bundle: Bundle, split: str, reward: str | None) -> tuple[Task, ...]:
    """The tasks of a split, each with a reward."""
    tasks = bundle.split(split)
    scorers = read_environment(bundle.environment).scorers
    named = reward or bundle.reward
    if named is not None and named not in scorers:
        raise ConfigError(f"there is no scorer {named!r}; there are: {', '.join(scorers)}")
    for task in tasks:
        reward_scorer(scorers, task, named)
    if not tasks:
        raise ConfigError(f"the split {split!r} of bundle {bundle.name!r} holds no task")
    return tasks


def _check_apart(
    train_split: str, train: tuple[Task, ...], test_split: str | None, test: tuple[Task, ...]
) -> None:
    """Say where the two splits share tasks: an eval of trained tasks measures memory."""
    shared = {task.id for task in train} & {task.id for task in test}
    if shared:
        logger.warning("the splits %r and %r share %d tasks", train_split, test_split, len(shared))
