"""Random schedules: groups of a random bundle on several event loops in one thread, in an order
that a seed decides.

Whatever takes time waits at a gate. When no loop can go on, one gate is opened, a group is
cancelled, or the shared clock jumps to the next timer. Where there is neither gate nor timer, it
is a deadlock, found at once.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.rollout_limits import (
    ParseErrorPolicy,
    RolloutLimits,
    TerminationRewardPolicy,
)
from tinker_cookbook.rl.rollout_runner import SamplingTurnTimeoutError
from tinker_cookbook.rl.rollout_strategy import (
    FailFast,
    MinViableGroup,
    RetryOnFailure,
    RolloutResult,
    RolloutStrategy,
)
from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout
from tinker_cookbook.rl.types import Env, TrajectoryGroup

from support.clock import Clock, Deadlock, VirtualLoop, flush_writers, hang
from support.scripted import DONE, JSON_END, call
from tinker_episodes import (
    Bundle,
    Environment,
    EpisodeClosed,
    EpisodeDatasetBuilder,
    EpisodeFailed,
    Message,
    Prompt,
    Task,
    loopback,
    scorer,
    tool,
)
from tinker_episodes.cookbook import EpisodeGroupBuilder
from tinker_episodes.cookbook.env import EpisodeEnv
from tinker_episodes.cookbook.rendering import Rendering, rendering_of
from tinker_episodes.cookbook.slots import slots_of


class Unwell(Exception):
    """What policies and hooks raise here."""


EXPECTED = (
    Unwell,
    EpisodeFailed,
    EpisodeClosed,
    SamplingTurnTimeoutError,
    AllTrajectoriesFailedError,
    TimeoutError,
)
"""What a group, or a rollout that the host left behind, may end with."""

MINUTE = 60.0


class SteppedLoop(VirtualLoop):
    """Stops where it would wait."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.wakes_at: float | None = None
        self.steps = 0

    def idle(self, timeout: float | None) -> None:
        self.wakes_at = None if timeout is None else self.clock.now_s + timeout
        self.stop()

    def files(self) -> bool:
        return Group.filing > 0

    def step(self) -> None:
        """Run what is ready now, once."""
        self.call_soon(self.stop)
        self.run_forever()

    def settle(self) -> bool:
        """Run until nothing is ready. Whether anything was."""
        self.steps = 0
        self.run_forever()
        return self.steps > 1

    def _run_once(self) -> None:
        self.steps += 1
        super()._run_once()  # type: ignore[misc] - asyncio's own


@dataclass(eq=False)
class Gate:
    future: asyncio.Future[None]
    hung: bool
    """Opened only when all is over."""


class Schedule:
    """One run."""

    current: Schedule

    def __init__(self, seed: int, folder: Path) -> None:
        Schedule.current = self
        self.seed = seed
        self.folder = folder
        self.log_path = str(folder / f"run-{seed}")
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.gates: list[Gate] = []
        self.made: list[Chaotic] = []
        self.groups: list[Group] = []
        self.tasks: list[asyncio.Task[TrajectoryGroup]] = []
        self.complaints: list[Any] = []
        self.hanging = threading.Event()
        self.plans = 0
        self.slots = self.rng.randint(1, 8)
        self.loops = [SteppedLoop(self.clock) for _ in range(self.rng.choice([1, 1, 2, 3]))]
        self.cancels = self.rng.choice([0, 0, 1, 2, 6])
        for loop in self.loops:
            loop.set_exception_handler(lambda _loop, context: self.complaints.append(context))

    # ------------------------------------------------------------ what takes time

    async def gate(self, *, hung: bool = False) -> None:
        """Wait until the schedule lets it go on."""
        gate = Gate(asyncio.get_running_loop().create_future(), hung)
        self.gates.append(gate)
        try:
            await gate.future
        finally:
            self.gates.remove(gate)

    def plan(self) -> random.Random:
        """The dice of one more rollout or environment, apart from the order of events."""
        self.plans += 1
        return random.Random(f"{self.seed}:{self.plans}")

    # ------------------------------------------------------------ the run

    def run(self) -> None:
        """Play all groups to their end, and check what must hold."""
        try:
            self._start()
            while not all(task.done() for task in self.tasks):
                self._go_on()
            self._settle()
            self._check_groups()
            self.hanging.set()
            while self.gates:  # rollouts that the host left behind
                for gate in list(self.gates):
                    _open(gate)
                self._settle()
            self._check_rest()
        finally:
            self.hanging.set()
            for loop in self.loops:
                loop.close()

    def _start(self) -> None:
        rng = self.rng
        limits = RolloutLimits(
            max_turns=rng.choice([None, 2, 6]),
            max_tool_calls=rng.choice([None, 3]),
            rollout_timeout_seconds=rng.choice([None, MINUTE]),
            sampling_turn_timeout_seconds=rng.choice([None, None, MINUTE / 2]),
        )
        builder = EpisodeDatasetBuilder(
            bundle="support.schedules:CHAOS",
            model_name=loopback.model_name(),
            renderer_name="qwen3_instruct",
            groups_per_batch=1,
            group_size=1,
            log_path=self.log_path,
            max_concurrent_episodes=self.slots,
            limits=limits,
            parse_errors=rng.choice([None, ParseErrorPolicy(max_consecutive=1)]),
        )
        train, _ = asyncio.run(builder())
        bounded = limits.rollout_timeout_seconds or limits.sampling_turn_timeout_seconds
        for _ in range(rng.choice([1, 2, 3, 5])):
            (made,) = train.get_batch(0)
            assert isinstance(made, EpisodeGroupBuilder)
            settings, *rest = made.__reduce__()[1]
            group = Group(_sized(settings, rng.choice([1, 2, 3, 4, 8, 32])), *rest)
            self.groups.append(group)
            strategy = _strategy(rng)
            hangs = bool(bounded or getattr(strategy, "per_rollout_timeout", 0))
            policy = Mood(rendering_of(loopback.model_name(), "qwen3_instruct"), hangs=hangs)
            play = do_group_rollout(group, policy, strategy, _termination(rng))
            self.tasks.append(rng.choice(self.loops).create_task(play))

    def _go_on(self) -> None:
        if self.rng.random() < 0.3:
            for _ in range(self.rng.randint(1, 6)):
                self.rng.choice(self.loops).step()
        else:
            self._settle()
            if all(task.done() for task in self.tasks):
                return
        if self.cancels and self.rng.random() < 0.05:
            self.cancels -= 1
            self.rng.choice(self.tasks).cancel()
            return
        gates = self._closed_gates()
        if gates and self.rng.random() < 0.95:
            _open(self.rng.choice(gates))
            return
        self._settle()
        timers = [loop.wakes_at for loop in self.loops if loop.wakes_at is not None]
        if timers:
            self.clock.now_s = max(self.clock.now_s, min(timers))
        elif not self._closed_gates() and not all(task.done() for task in self.tasks):
            waiting = [repr(t) for loop in self.loops for t in asyncio.all_tasks(loop)]
            raise Deadlock("nothing can go on any more, and these wait:\n" + "\n".join(waiting))

    def _closed_gates(self) -> list[Gate]:
        return [gate for gate in self.gates if not gate.hung and not gate.future.done()]

    def _settle(self) -> None:
        """Run every loop until none can go on."""
        while True:
            worked = [loop.settle() for loop in self.rng.sample(self.loops, len(self.loops))]
            if not any(worked):
                return

    # ------------------------------------------------------------ what must hold

    def _check_groups(self) -> None:
        for group, task in zip(self.groups, self.tasks, strict=True):
            if task.cancelled():
                continue
            error = task.exception()
            if error is not None:
                assert isinstance(error, EXPECTED), repr(error)
                continue
            group.check(task.result())
        taken = slots_of(self.log_path, self.slots).taken
        assert taken == 0, f"{taken} slots are still taken"
        most = Chaotic.most
        assert most <= self.slots, f"{most} were open at once, with {self.slots} slots"

    def _check_rest(self) -> None:
        left = [repr(task) for loop in self.loops for task in asyncio.all_tasks(loop)]
        assert not left, f"tasks are left: {left}"
        assert all(made.closes == 1 for made in self.made), [made.closes for made in self.made]
        strange = [c for c in self.complaints if not isinstance(c.get("exception"), EXPECTED)]
        assert not strange, strange
        flush_writers()
        envs = [env for group in self.groups for env in group.envs]
        begun = sorted(env.episode.id for env in envs if env.ending.started)
        assert self._filed(begun) == begun
        assert self._filed([env.episode.id for env in envs if not env.ending.started]) == []
        assert all(env.episode.over for env in envs if env.ending.started)

    def _filed(self, keys: list[str]) -> list[str]:
        """The keys of those that are in the index, each with a reward or with a reason."""
        file = self.folder / "episodes.db"
        if not file.exists():
            return []
        connection = sqlite3.connect(file)
        query = "select key, status, reward, reason from rollouts where key = ?"
        found = [row for key in keys for row in connection.execute(query, [key])]
        connection.close()
        for _, status, reward, reason in found:
            assert (reward is None) == (status in ("failed", "abandoned")) == bool(reason), status
        return sorted(row[0] for row in found)


def _open(gate: Gate) -> None:
    if not gate.future.done():
        gate.future.set_result(None)


def _sized(settings: Any, size: int) -> Any:
    from dataclasses import replace

    return replace(settings, group_size=size)


# ---------------------------------------------------------------- what is played


class Group(EpisodeGroupBuilder):
    """A group that keeps its envs, and says when it files."""

    filing = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.envs: list[EpisodeEnv] = []
        self.graded = False

    async def make_envs(self) -> Sequence[Env]:
        made = await super().make_envs()
        self.envs += [env for env in made if isinstance(env, EpisodeEnv)]
        return made

    async def compute_group_rewards(self, *args: Any) -> Any:
        rewards = await super().compute_group_rewards(*args)
        self.graded = True
        return rewards

    async def _file(self, *args: Any) -> None:
        Group.filing += 1
        try:
            await super()._file(*args)
        finally:
            Group.filing -= 1

    def check(self, result: TrajectoryGroup) -> None:
        """Each total is its rollout's score, paid once, unless the host clamped it.

        With `skip_grading_on_timeout` the host asks for no score where all ran out of time.
        """
        if not self.graded:
            assert {t.stop_reason for t in result.trajectories_G} == {"rollout_timeout"}
            assert max(result.get_total_rewards()) <= 0
            return
        by_trajectory = {id(env.ending.trajectory): env for env in self.envs}
        totals = zip(result.trajectories_G, result.get_total_rewards(), strict=True)
        for trajectory, total in totals:
            env = by_trajectory[id(trajectory)]
            outcome = env.episode.outcome
            assert outcome is not None
            assert total in (outcome.reward, 0.0), (total, outcome)


def _termination(rng: random.Random) -> TerminationRewardPolicy | None:
    if rng.random() < 0.7:
        return None
    return TerminationRewardPolicy(
        zero_reward_on_limit=rng.random() < 0.7,
        skip_grading_on_timeout=rng.random() < 0.7,
        grader_timeout_seconds=rng.choice([None, MINUTE]),
    )


def _strategy(rng: random.Random) -> RolloutStrategy:
    timeout = rng.choice([0.0, 0.0, 5 * MINUTE])
    return rng.choice(
        [
            FailFast(),
            RetryOnFailure(max_retries=rng.randint(0, 6), per_rollout_timeout=timeout),
            MinViableGroup(
                min_successful=rng.choice([None, 1]),
                max_retries=rng.randint(0, 4),
                per_rollout_timeout=timeout or None,
            ),
            OneByOne(),
        ]
    )


class OneByOne(RolloutStrategy):
    """All envs one after another, in one task."""

    async def execute(self, env_group_builder: Any, policy: TokenCompleter) -> RolloutResult:
        envs = await env_group_builder.make_envs()
        trajectories = [await do_single_rollout(policy, env) for env in envs]
        return RolloutResult(trajectories, envs, [])


class Mood(TokenCompleter):
    """A policy that takes its time, and says anything."""

    def __init__(self, rendering: Rendering, *, hangs: bool) -> None:
        self._tokenizer: Any = rendering.renderer.tokenizer
        self._hangs = hangs
        self._dice: dict[asyncio.Task[Any] | None, random.Random] = {}

    async def __call__(
        self, model_input: Any, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        schedule, task = Schedule.current, asyncio.current_task()
        dice = self._dice.setdefault(task, schedule.plan())
        hung = self._hangs and dice.random() < 0.05
        if hung or dice.random() < 0.8:
            await schedule.gate(hung=hung)
        if dice.random() < 0.03:
            raise Unwell("the policy")
        text, reason = dice.choices(_SAID, _WEIGHTS)[0]
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return TokensWithLogprobs(tokens, [-0.5] * len(tokens), reason)


_ADD = call("add")
_SAID = [
    (_ADD, "stop"),
    (_ADD.removesuffix(JSON_END) + _ADD, "stop"),
    (DONE, "stop"),
    (call("stop"), "stop"),
    (call("block"), "stop"),
    ("<too", "length"),
    ("no end", "stop"),
    (f"<tool_call>\n{{no json\n</tool_call>{JSON_END}", "stop"),
]
_WEIGHTS = [10, 2, 6, 2, 0.3, 2, 1, 1]


class Chaotic(Environment):
    """Counts. Each hook takes its time, and may raise, hang, and hang where it is stopped."""

    tool_timeout_s = MINUTE
    scorer_timeout_s = MINUTE
    hook_timeout_s = MINUTE
    now = 0
    """How many are between `open` and `close`."""
    most = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.schedule = Schedule.current
        self.schedule.made.append(self)
        self.dice = self.schedule.plan()
        self.parallel_calls = self.dice.random() < 0.5  # type: ignore[misc] - one's own
        self.count = self.closes = 0
        self.scored: int | None = None
        Chaotic.now += 1
        Chaotic.most = max(Chaotic.most, Chaotic.now)

    async def open(self, task: Task) -> None:
        await self._live(0.03)

    async def next_prompt(self, reply: Message) -> Prompt | None:
        await self._live(0.03)
        return Prompt("And?") if self.dice.random() < 0.4 else None

    @tool
    async def add(self) -> str:
        """Add one."""
        await self._live(0.03)
        self._change()
        return "ok"

    @tool
    def stop(self) -> str:
        """End it."""
        self.end()
        return "bye"

    @tool(blocking=True)
    def block(self) -> str:
        """Block, at times for ever."""
        if self.dice.random() < 0.5:
            hang(self.schedule.hanging)
        return "ok"

    @scorer
    async def counted(self) -> float:
        await self._live(0.03)
        self.scored = self.count
        return 1.0 + self.count

    async def close(self) -> None:
        Chaotic.now -= 1
        self.closes += 1
        await self._live(0.03)

    def _change(self) -> None:
        assert self.scored is None, "a scored state was changed"
        assert self.closes == 0, "a closed state was changed"
        self.count += 1

    async def _live(self, danger: float) -> None:
        for _ in range(self.dice.choice([0, 0, 1, 2])):
            await self.schedule.gate()
        if self.dice.random() < danger:
            raise Unwell("a hook")
        if self.dice.random() < danger:
            try:
                await self.schedule.gate(hung=True)
            finally:
                if self.dice.random() < 0.3:
                    await self.schedule.gate(hung=True)


CHAOS = Bundle(name="chaos", environment=Chaotic, tasks=[Task.of("t0", "Count.")])
