"""Calls as each renderer's models write them: the host's own template around a value that is put in
as plain tokens, so that what it spells is never a special token.

writer = CallWriter(renderer)
tokens = writer.call("f", "v", '"19122"')     # the JSON text, or the bare text, of one argument
"""

from __future__ import annotations

import json
import re
from typing import Any

from tinker_cookbook.renderers import Message, RenderContext, Renderer, ToolCall, ToolSpec

_HOLE = "HOLE"
_SPECIAL = re.compile(r"(<\|[a-z_]+\|>)")
_SPEC = ToolSpec(name="f", description="", parameters={"type": "object", "properties": {}})


class CallWriter:
    """Writes calls for one renderer."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        stops = renderer.get_stop_sequences()
        self.stop = int(stops[-1])
        text = self._template()
        self.typed = f'"{_HOLE}"' in text
        """Whether an argument is written as JSON."""
        self.before, self.after = text.split(f'"{_HOLE}"' if self.typed else _HOLE)

    def call(self, value: str | list[int], *, name: str = "f", argument: str = "v") -> list[int]:
        """The tokens of a reply with one call of one argument.

        Args:
            value: Its JSON where `typed`, its text elsewhere; lone surrogates can't be written. Or
                its tokens.
        """
        value = self.plain(value) if isinstance(value, str) else value
        before = self.before.replace("NAME", name).replace("ARGUMENT", argument)
        after = self.after.replace("NAME", name)
        return [*self.marked(before), *value, *self.marked(after), self.stop]

    def json_value(self, value: Any) -> str:
        """A value as `call` takes it."""
        if self.typed or not isinstance(value, str):
            return json.dumps(value, ensure_ascii=_has_surrogates(value))
        return value

    def plain(self, text: str) -> list[int]:
        """Tokens that spell a text, special tokens never."""
        tokenizer: Any = self.renderer.tokenizer
        return list(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def marked(self, text: str) -> list[int]:
        """Tokens of a text with its special tokens."""
        tokenizer: Any = self.renderer.tokenizer
        if not hasattr(tokenizer, "tml_tokenizer"):
            return list(tokenizer.encode(text, add_special_tokens=False))
        tokens: list[int] = []
        for piece in _SPECIAL.split(text):
            if _SPECIAL.fullmatch(piece):
                tokens.append(tokenizer.tml_tokenizer.encode_special(piece[2:-2]))
            elif piece:
                tokens += tokenizer.encode(piece)
        return tokens

    def _template(self) -> str:
        """A reply with reasoning, if the renderer writes any, and one call, up to its stop."""
        body = ToolCall.FunctionBody(name="NAME", arguments=json.dumps({"ARGUMENT": _HOLE}))
        content: Any = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I call."}]
        reply = Message(role="assistant", content=content, tool_calls=[ToolCall(function=body)])
        prefix = self.renderer.create_conversation_prefix_with_tools([_SPEC], "")
        asked = [*prefix, Message(role="user", content="go")]
        try:
            tokens = self._rendered([*asked, reply])
        except NotImplementedError:  # tml renders whole conversations alone
            before = self.renderer.build_generation_prompt(asked).to_ints()
            tokens = self.renderer.build_generation_prompt([*asked, reply]).to_ints()[len(before) :]
        stops = self.renderer.get_stop_sequences()
        ends = [at for at, token in enumerate(tokens) if token in stops]
        tokenizer: Any = self.renderer.tokenizer
        return str(tokenizer.decode(tokens[: ends[0]] if ends else tokens))

    def _rendered(self, messages: list[Message]) -> list[int]:
        at = len(messages) - 1
        context = RenderContext(
            idx=at,
            is_last=True,
            prev_message=messages[-2],
            last_user_index=at - 1,
            in_last_assistant_turn=True,
        )
        rendered = self.renderer.render_message(messages[-1], context)
        return [token for chunk in rendered.output for token in chunk.tokens]


def _has_surrogates(value: Any) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return any("\ud800" <= character <= "\udfff" for character in text)
