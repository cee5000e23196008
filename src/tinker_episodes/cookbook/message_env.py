"""An episode as the host's `MessageEnv`: replies in, the next messages and the reward out. It knows
no tokens.

It plays under the host's own `EnvFromMessageEnv` too; `EpisodeEnv` adds what only the sampled
tokens show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from tinker_cookbook.renderers import Message as HostMessage
from tinker_cookbook.renderers import Renderer, ToolSpec
from tinker_cookbook.rl.message_env import MessageEnv, MessageStepResult
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy
from tinker_cookbook.rl.types import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    STOP_METRIC_PREFIX,
    Metrics,
    StopReason,
)

from tinker_episodes.cookbook.history import History
from tinker_episodes.cookbook.limits import stop_of
from tinker_episodes.cookbook.messages import (
    encodable,
    from_host,
    has_images,
    result_to_host,
    specs_of,
)
from tinker_episodes.cookbook.vision import sees_images
from tinker_episodes.episode import Episode, OpenPrompt
from tinker_episodes.message import Message
from tinker_episodes.outcome import Cut, Outcome

_TOLD = 5
"""Faults of one reply that the model is told of."""


class EpisodeMessageEnv(MessageEnv):
    """One episode. Its reward is paid on the step that ends it."""

    def __init__(
        self,
        episode: Episode,
        renderer: Renderer,
        *,
        parse_errors: ParseErrorPolicy | None = None,
    ) -> None:
        """
        Args:
            parse_errors: How many malformed replies in a row are answered with a correction before
            one ends the
                episode; default: the first one ends it, as in the host.
        """
        self.episode = episode
        self.example_id = episode.task.id  # the host's stores name examples by it
        self.deadline: float | None = None
        """When the rollout's time is up, on the event loop's clock."""
        self.paid = False
        """Whether the reward was paid on a step."""
        self.rewritten = False
        """Whether the last step changed what stands before its new messages."""
        self._renderer = renderer
        self._policy = parse_errors or ParseErrorPolicy()
        self._max_tool_calls: int | None = None
        self._calls_run = 0
        self._errors_in_a_row = 0
        self.history = History()
        """Everything that was said, as the host's renderers take it."""

    @property
    def messages(self) -> list[HostMessage]:
        """The conversation as the model is to see it."""
        return self.history.messages

    # ------------------------------------------------------------ the host's interface

    async def initial_observation(self) -> list[HostMessage]:
        self._take(await self.episode.open(limit_s=self._time_left()))
        return self.messages

    async def step(self, message: HostMessage) -> MessageStepResult:
        return await self.play(from_host(message), message)

    async def observe_truncated_response(self, message: HostMessage) -> list[HostMessage]:
        self.episode.record(Message("assistant", from_host(message).content))
        self.history.body.append(HostMessage(role="assistant", content=message["content"]))
        return self.messages

    async def add_messages(self, messages: list[HostMessage]) -> list[HostMessage]:
        for message in messages:
            self.episode.tell(from_host(message).text)
        self.history.body.extend(messages)
        return self.messages

    def set_max_tool_calls(self, max_tool_calls: int) -> None:
        """The host's runner gives its limit here; the tighter one wins."""
        known = self._max_tool_calls
        self._max_tool_calls = max_tool_calls if known is None else min(known, max_tool_calls)

    def set_parse_error_policy(self, policy: ParseErrorPolicy) -> None:
        """The host's runner gives its policy here."""
        self._policy = policy

    # ------------------------------------------------------------ a step

    async def play(self, reply: Message, host: HostMessage) -> MessageStepResult:
        """Take a reply.

        Args:
            reply: What the model said, with its calls as it wrote them.
            host: The same, as the renderer writes it into history.
        """
        self.rewritten = False
        self.episode.record(reply)
        self.history.body.append(host)
        if reply.malformed and not reply.calls:
            return await self._format_error(reply)
        self._errors_in_a_row = 0
        if reply.calls:
            return await self._run_calls(reply)
        try:
            async with self._in_time():
                prompt = await self.episode.next_prompt()
        except TimeoutError:
            return await self.cut(Cut.ROLLOUT_TIMEOUT)
        if prompt is None:
            return await self.end(None, StopReason.COMPLETED)
        self._take(prompt)
        return self._continued()

    async def end(
        self, cut: Cut | None, stop: str, *, extra: float = 0.0, metrics: Metrics | None = None
    ) -> MessageStepResult:
        """Score the episode and pay its reward on this step.

        Args:
            stop: The host's stop reason.
            extra: What the step's reward holds beside the score.
        """
        return self.pay(await self.episode.close(cut), stop, extra=extra, metrics=metrics)

    def pay(
        self, outcome: Outcome, stop: str, *, extra: float = 0.0, metrics: Metrics | None = None
    ) -> MessageStepResult:
        """The step that ends the episode. It holds the reward."""
        self.paid = True
        return MessageStepResult(
            reward=outcome.reward + extra,
            episode_done=True,
            next_messages=self.messages,
            metrics={**(metrics or {}), f"{STOP_METRIC_PREFIX}{stop}": 1.0},
        )

    async def cut(self, cut: Cut, *, extra: float = 0.0) -> MessageStepResult:
        """End the episode at a limit, with the reward of the state as it is."""
        return await self.end(cut, stop_of(cut), extra=extra)

    def _in_time(self) -> AbstractAsyncContextManager[object]:
        return nullcontext() if self.deadline is None else asyncio.timeout_at(self.deadline)

    def _time_left(self) -> float | None:
        if self.deadline is None:
            return None
        return self.deadline - asyncio.get_running_loop().time()

    def _continued(self, reward: float = 0.0, metrics: Metrics | None = None) -> MessageStepResult:
        return MessageStepResult(
            reward=reward, episode_done=False, next_messages=self.messages, metrics=metrics or {}
        )

    async def _run_calls(self, reply: Message) -> MessageStepResult:
        left = None if self._max_tool_calls is None else self._max_tool_calls - self._calls_run
        try:
            async with self._in_time():
                results = await self.episode.run_calls(limit=left)
        except TimeoutError:
            return await self.cut(Cut.ROLLOUT_TIMEOUT)
        self._calls_run += len(results)
        given = any(has_images(result.content) for result in results)
        images = given and await sees_images(self._renderer)
        for call, result in zip(reply.calls, results, strict=True):
            self.history.body.append(result_to_host(result, call.id, images=images))
        if self.episode.ended:
            return await self.end(None, StopReason.TOOL_STOPPED)
        if left is not None and len(results) > left:
            return await self.cut(Cut.MAX_TOOL_CALLS)
        if reply.malformed:
            self._tell(_details(reply))
        return self._continued(metrics=_parse_metrics(reply))

    async def _format_error(self, reply: Message) -> MessageStepResult:
        """A reply that meant a call and is none: correct the model, or end where the policy says
        so.
        """
        self._errors_in_a_row += 1
        policy = self._policy
        metrics = _parse_metrics(reply)
        if policy.mask_error_turns:
            metrics[PARSE_ERROR_MASKED_METRIC_KEY] = 1.0
        if self._errors_in_a_row > policy.max_consecutive:
            stop = StopReason.PARSE_ERROR
            extra = policy.terminal_reward
            return await self.end(Cut.PARSE_ERROR, stop, extra=extra, metrics=metrics)
        self._tell(policy.retry_message_template.replace("{details}", _details(reply)))
        return self._continued(-policy.penalty_per_error, metrics)

    def _tell(self, text: str) -> None:
        self.episode.tell(text)
        self.history.body.append(HostMessage(role="user", content=encodable(text)))

    def _take(self, prompt: OpenPrompt) -> None:
        """Put a prompt at the end, and its own instructions in place of the last prompt's."""
        tools = specs_of(list(prompt.tools.values()))
        prefix = self._prefix_of(tools, encodable(prompt.system_prompt))
        history = self.history
        self.rewritten = bool(history.prompts) and prefix != history.prefix
        history.prefix, history.tools = prefix, bool(tools)
        history.prompts.append(len(history.body))
        history.body.append(HostMessage(role="user", content=encodable(prompt.text)))

    def _prefix_of(self, tools: Sequence[ToolSpec], system_prompt: str) -> list[HostMessage]:
        made = self._renderer.create_conversation_prefix_with_tools(list(tools), system_prompt)
        return [message for message in made if message["content"]]


def _details(reply: Message) -> str:
    told = [item.error for item in reply.malformed[:_TOLD]]
    more = len(reply.malformed) - len(told)
    return "\n".join([*told, f"and {more} more"] if more else told)


def _parse_metrics(reply: Message) -> Metrics:
    return {"parse_error": 1.0} if reply.malformed else {}
