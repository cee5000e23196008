"""A policy that says whole replies in a renderer's own format, and the host's rendering of what it
is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import RendererError
from tinker_cookbook.renderers import Message, Renderer, ToolCall
from tinker_cookbook.renderers.gpt_oss import GptOssRenderer
from tinker_cookbook.renderers.qwen3 import Qwen3InstructRenderer

from tinker_episodes import EpisodeEnv


@dataclass(frozen=True)
class Said:
    """A reply of the model: reasoning, text and calls of one tool."""

    text: str = "a reply"
    thought: str = ""
    calls: tuple[str, ...] = ()
    raw: bool = False
    """Whether the text is sampled as it is, character by character, in place of all else."""
    length: bool = False
    """Whether it is cut at its token limit."""
    tool: str = "say"


@dataclass
class Talk(TokenCompleter):
    """Says the given replies, one a turn, and keeps what it was shown and what the host shows."""

    env: EpisodeEnv
    renderer: Renderer
    said: Iterable[Said]
    shown: list[list[Any]] = field(default_factory=list)
    hosts: list[list[Any]] = field(default_factory=list)
    actions: list[list[int]] = field(default_factory=list)
    spoken: list[Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._said = iter(self.said)

    async def __call__(
        self, model_input: Any, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        messages = list(self.env.conversation.messages)
        whole = self.renderer.build_generation_prompt(messages)
        self.shown.append(flat(model_input))
        self.hosts.append(flat(whole))
        said = next(self._said)
        self.spoken.append(said)
        tokens = sampled(self.renderer, messages, said)
        self.actions.append(tokens)
        return TokensWithLogprobs(tokens, [-0.5] * len(tokens), "length" if said.length else "stop")

    def was_cut(self, turn: int) -> bool:
        return self.spoken[turn].length

    def ended_otherwise(self, turn: int) -> bool:
        """Whether a reply may have ended with another stop token than history has there."""
        return len(self.renderer.get_stop_sequences()) > 1


def flat(model_input: Any) -> list[Any]:
    """Tokens, and the chunks that are no text."""
    found: list[Any] = []
    for chunk in model_input.chunks:
        found += chunk.tokens if hasattr(chunk, "tokens") else [chunk]
    return found


def sampled(renderer: Renderer, messages: Sequence[Message], said: Said) -> list[int]:
    """The tokens of a reply as a model of the renderer would sample them."""
    stops = [stop for stop in renderer.get_stop_sequences() if isinstance(stop, int)]
    if said.raw:
        tokenizer: Any = renderer.tokenizer
        pieces = [tokenizer.encode(c, add_special_tokens=False) for c in said.text]
        tokens = [token for piece in pieces for token in piece if token not in stops]
        return tokens if said.length else [*tokens, stops[0]]
    try:
        tokens = written(renderer, messages, message_of(said))
    except RendererError:  # Qwen3's without thinking writes no example after a tool's result
        instruct = Qwen3InstructRenderer(renderer.tokenizer)
        before = [Message(role="user", content="Go.")]
        tokens = written(instruct, before, message_of(said))
    while said.length and tokens and tokens[-1] in stops:
        tokens.pop()
    return tokens


def message_of(said: Said) -> Message:
    content: Any = said.text
    if said.thought:
        content = [{"type": "thinking", "thinking": said.thought}]
        content += [{"type": "text", "text": said.text}] if said.text else []
    message = Message(role="assistant", content=content)
    if said.calls:
        message["tool_calls"] = [
            ToolCall(
                function=ToolCall.FunctionBody(name=said.tool, arguments=arguments),
                id=f"functions.{said.tool}:{at}",
            )
            for at, arguments in enumerate(said.calls)
        ]
    return message


def written(renderer: Renderer, messages: Sequence[Message], reply: Message) -> list[int]:
    """What the host's supervised example has after the prompt; where it doesn't begin with the
    prompt, what differs from it.
    """
    prompt = flat(renderer.build_generation_prompt(list(messages)))
    example, _ = renderer.build_supervised_example([*messages, reply])
    whole = flat(example)
    same = 0
    while same < min(len(prompt), len(whole)) and prompt[same] == whole[same]:
        same += 1
    stops = [stop for stop in renderer.get_stop_sequences() if isinstance(stop, int)]
    tokens = whole[same:]
    if not any(stop in tokens for stop in stops):
        tokens = [*tokens, stops[0]]
    while tokens[-1] not in stops:
        tokens.pop()
    return tokens


def reasons(renderer: Renderer) -> bool:
    """Whether the renderer's models reason: it writes the thought of the reply being produced."""
    if renderer.disables_thinking or not getattr(renderer, "frames_thinking", True):
        return False
    asked = [Message(role="user", content="Go.")]
    tokenizer: Any = renderer.tokenizer
    thought = message_of(Said(thought="a thought"))
    return "a thought" in str(tokenizer.decode(written(renderer, asked, thought)))


def calls_of(renderer: Renderer) -> int:
    """How many calls one reply can make: a call of Harmony is the reply's end."""
    return 1 if isinstance(renderer, GptOssRenderer) else 2
