"""The host's token-level env over an episode: slots, tokens, limits, and an end scored once.

env = EpisodeEnv(environment=NumberSearch, task=task, renderer=renderer)
outcome = await env.settle(await run_rollout(policy, env))
"""

from __future__ import annotations

import asyncio
import math

import tinker
from tinker_cookbook.completers import StopCondition
from tinker_cookbook.renderers import Message, Renderer
from tinker_cookbook.rl import types
from tinker_cookbook.rl.message_env import MessageStepResult
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits

from tinker_episodes.cookbook.ending import Ending
from tinker_episodes.cookbook.limits import (
    Turns,
    advertised,
    ends_on_length,
    reached,
)
from tinker_episodes.cookbook.message_env import EpisodeMessageEnv
from tinker_episodes.cookbook.prompts import Observations, Rewrite
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.slots import Slots
from tinker_episodes.cookbook.wire import Reply, check_names, read_reply
from tinker_episodes.environment import Environment, read_environment
from tinker_episodes.episode import Episode, State
from tinker_episodes.errors import EpisodeClosed
from tinker_episodes.outcome import Cut, Outcome
from tinker_episodes.task import Task
from tinker_episodes.universe import UniverseData


class EpisodeEnv(types.Env):
    """One rollout of a task. Used once: it refuses steps after its end."""

    def __init__(
        self,
        *,
        environment: type[Environment],
        task: Task,
        renderer: Renderer | Rendering,
        data: UniverseData | None = None,
        reward: str | None = None,
        limits: RolloutLimits | None = None,
        parse_errors: ParseErrorPolicy | None = None,
        slots: Slots | None = None,
        history_tokens: int | None = None,
    ) -> None:
        """
        Args:
            data: The universe that the episode starts from.
            reward: The scorer whose value is the reward; needed where the task has several.
            limits: The host's limits. A rollout that reaches one is scored as it was left.
            parse_errors: The host's policy for malformed replies.
            slots: The line that bounds how many episodes are open at once.
            history_tokens: How many tokens an observation may have before its oldest exchanges are
                dropped; None: no bound.

        Raises:
            DefinitionError: an environment class that can't work.
            ConfigError: a reward that the task is not scored by; a tool whose name the renderer
                can't carry.
        """
        self._rendering = renderer if isinstance(renderer, Rendering) else Rendering(renderer)
        check_names(self._rendering.renderer, read_environment(environment).tools.values())
        self._limits = limits or RolloutLimits()
        self.episode = Episode(environment, task, data=data, reward=reward)
        self.conversation = EpisodeMessageEnv(
            self.episode, self._rendering.renderer, parse_errors=parse_errors
        )
        if self._limits.max_tool_calls is not None:
            self.conversation.set_max_tool_calls(self._limits.max_tool_calls)
        self.example_id = task.id
        """What the host's stores name an example by."""
        self._parse_errors = parse_errors
        self.turns = Turns()
        self.ending = Ending(self)
        self._slots = slots or Slots(None)
        self._observations = Observations(self._rendering, history_tokens=history_tokens)

    @property
    def paid(self) -> bool:
        """Whether the reward stands on a transition."""
        return self.conversation.paid

    @property
    def rewritten(self) -> int:
        """How often history was rendered anew: each time starts a new training datum."""
        return len(self._observations.rewrites)

    @property
    def rewrites(self) -> list[Rewrite]:
        """Each time that history was rendered anew, and why."""
        return self._observations.rewrites

    def pieces(self, tokens: set[int]) -> dict[int, str]:
        """The text of each token by itself."""
        return self._rendering.pieces(tokens)

    # ------------------------------------------------------------ the host's interface

    @property
    def rollout_limits(self) -> RolloutLimits:
        """What the host's runner enforces where it is given no limits of its own. It asks when the
        rollout starts.
        """
        return advertised(self._limits, self._slots.longest_wait_s())

    async def initial_observation(
        self,
    ) -> tuple[tinker.ModelInput, StopCondition] | types.InitialObservationOverflow:
        await self.ending.begin(self._slots, hold_s=self._longest_hold_s())
        return await self.ending.stepping(self._open())

    async def step(
        self, action: types.Action, *, extra: types.ActionExtra | None = None
    ) -> types.StepResult:
        if self.episode.state is not State.OPEN and not self.ending.expired:
            raise EpisodeClosed(f"episode {self.episode.id} is {self.episode.state}: no more steps")
        length = (extra or {}).get("stop_reason", "stop") == "length"
        return await self.ending.stepping(self._take(list(action), length=length))

    async def inject_messages(
        self, messages: list[Message]
    ) -> tuple[tinker.ModelInput, StopCondition]:
        """Put messages of the runner's hooks before the next turn."""
        if self.ending.expired:
            return self.turns.observation, self._rendering.stop
        await self.conversation.add_messages(messages)
        history = self.conversation.history
        return await self._observations.inject(history, len(messages)), self._rendering.stop

    def set_max_tool_calls(self, max_tool_calls: int) -> None:
        """Take the runner's limit; the tighter one wins."""
        self.conversation.set_max_tool_calls(max_tool_calls)

    def set_parse_error_policy(self, policy: ParseErrorPolicy) -> None:
        """Take the runner's policy."""
        self._parse_errors = policy
        self.conversation.set_parse_error_policy(policy)

    # ------------------------------------------------------------ a step

    async def _open(
        self,
    ) -> tuple[tinker.ModelInput, StopCondition] | types.InitialObservationOverflow:
        self._start_clock()
        await self.conversation.initial_observation()
        observation = await self._observations.start(self.conversation.history)
        self.turns.observation = observation
        cut = self._reached()
        if cut is not None:
            return self._overflow(await self.conversation.cut(cut))
        return observation, self._rendering.stop

    async def _take(self, action: list[int], *, length: bool) -> types.StepResult:
        self.turns.count += 1
        self.turns.sampled_tokens += len(action)
        if self.ending.expired:
            return self._logged(await self._late())
        reply = await self._rendering.run(
            lambda renderer: read_reply(renderer, action), size=len(action)
        )
        return self._logged(await self._step(reply, action, length=length))

    async def _step(self, reply: Reply, action: list[int], *, length: bool) -> types.StepResult:
        if length:
            return await self._truncated(reply, action)
        if not reply.clean:
            return await self._broken(reply)
        if self._out_of_time():
            self.episode.record(reply.message)
            return self._ended(await self.conversation.cut(Cut.ROLLOUT_TIMEOUT))
        before = len(self.conversation.history.body)
        step = await self.conversation.play(reply.message, reply.host)
        if step.episode_done:
            return self._ended(step)
        history = self.conversation.history
        new = len(history.body) - before - 1
        changed = self.conversation.rewritten
        observation = await self._observations.extend(history, new, action, changed=changed)
        return await self._next(observation, step)

    async def _late(self) -> types.StepResult:
        """A reply that came after the rollout's time: nothing of it runs, and the end is paid."""
        await self.episode.settled()
        if self.episode.outcome is None or self.paid:
            raise EpisodeClosed(f"episode {self.episode.id} is {self.episode.state}: no more steps")
        return self._ended(
            self.conversation.pay(self.episode.outcome, types.StopReason.ROLLOUT_TIMEOUT)
        )

    async def _truncated(self, reply: Reply, action: list[int]) -> types.StepResult:
        """A reply that reached the token limit of its turn: nothing of it runs."""
        messages = await self.conversation.observe_truncated_response(reply.host)
        if ends_on_length(self._limits):
            step = await self.conversation.cut(Cut.LENGTH)
            return self._ended(step, {"max_tokens_reached": 1.0})
        going_on = MessageStepResult(reward=0.0, episode_done=False, next_messages=messages)
        shown = await self._observations.extend(self.conversation.history, 0, action)
        return await self._next(shown, going_on)

    async def _broken(self, reply: Reply) -> types.StepResult:
        """A reply without its stop signal: where it ends is unknown, so the conversation can't go
        on.
        """
        self.episode.record(reply.message)
        policy = self._parse_errors
        extra = policy.terminal_reward if policy is not None else 0.0
        metrics: types.Metrics = {"parse_error": 1.0}
        if policy is not None and policy.mask_error_turns:
            metrics[types.PARSE_ERROR_MASKED_METRIC_KEY] = 1.0
        return self._ended(await self.conversation.cut(Cut.PARSE_ERROR, extra=extra), metrics)

    async def _next(
        self, observation: tinker.ModelInput, step: MessageStepResult
    ) -> types.StepResult:
        """The next observation, unless a limit ends the rollout before it is used."""
        self.turns.observation = observation
        cut = self._reached()
        if cut is not None:
            return self._ended(await self.conversation.cut(cut, extra=step.reward), step.metrics)
        return types.StepResult(
            reward=step.reward,
            episode_done=False,
            next_observation=observation,
            next_stop_condition=self._rendering.stop,
            metrics=step.metrics,
        )

    def _ended(
        self, step: MessageStepResult, metrics: types.Metrics | None = None
    ) -> types.StepResult:
        return types.StepResult(
            reward=step.reward,
            episode_done=True,
            next_observation=tinker.ModelInput.empty(),
            next_stop_condition=self._rendering.stop,
            metrics={**(metrics or {}), **step.metrics},
        )

    def _overflow(self, step: MessageStepResult) -> types.InitialObservationOverflow:
        return types.InitialObservationOverflow(
            reward=step.reward, metrics=step.metrics, logs={"episode": self.episode.id}
        )

    def _logged(self, result: types.StepResult) -> types.StepResult:
        result.logs["episode"] = self.episode.id
        return result

    # ------------------------------------------------------------ limits

    def _start_clock(self) -> None:
        seconds = self._limits.rollout_timeout_seconds
        if seconds is not None:
            deadline = asyncio.get_running_loop().time() + seconds
            self.conversation.deadline = deadline
            self.ending.end_at(deadline)

    def _longest_hold_s(self) -> float:
        """Seconds that the rollout may keep its slot: its time, and what the end may take."""
        seconds = self._limits.rollout_timeout_seconds
        return math.inf if seconds is None else seconds + self.episode.longest_end_s

    def _out_of_time(self) -> bool:
        deadline = self.conversation.deadline
        return deadline is not None and asyncio.get_running_loop().time() >= deadline

    def _reached(self) -> Cut | None:
        return Cut.ROLLOUT_TIMEOUT if self._out_of_time() else reached(self._limits, self.turns)

    async def settle(self, trajectory: types.Trajectory) -> Outcome:
        """How the rollout ended, for a caller that runs envs without a group builder.

        Args:
            trajectory: What the host's runner gave. Where the runner's own limits ended it, the
                episode is scored now, and its reward stands on no transition: see `paid`.

        Raises:
            EpisodeFailed: it has no reward.
        """
        return await self.ending.settle(trajectory)
