"""Odd and malformed calls in each wire format: one behaviour each, as docs/arguments.md says."""

from __future__ import annotations

import functools

import pytest
from support.calls import CallWriter
from support.scripted import Counter
from support.tokenizers import renderer_for
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy

from tinker_episodes import ConfigError, Environment, EpisodeEnv, Task, scorer, tool
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.wire import Reply, check_names, read_reply
from tinker_episodes.tools import Tool

# One renderer a format. Q: JSON in tags, X: XML, G: GLM, D: DeepSeek V3.1, V: V4.1, K: Kimi,
# H: Harmony, T: tml
NAMES = {
    "Q": "qwen3_instruct",
    "X": "qwen3_5_disable_thinking",
    "G": "glm5_3_low_reasoning",
    "D": "deepseekv3",
    "V": "deepseekv4_1_disable_thinking",
    "K": "kimi_k2",
    "H": "gpt_oss_no_sysprompt",
    "T": "tml_v0",
}
X_CALL = "<tool_call><function=f><parameter=v>1</parameter></function></tool_call>"
D_BEGIN, D_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
K_BEGIN, K_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
V_OPEN = '<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n<｜DSML｜ parameter name="v" string='


def d_call(arguments: str, name: str = "f") -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


def k_call(arguments: str, id: str = "functions.f:0") -> str:
    return f"<|tool_call_begin|>{id}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def h_call(arguments: str, to: str = "functions.f") -> str:
    return f" to={to}<|channel|>commentary <|constrain|>json<|message|>{arguments}"


def t_call(body: str) -> str:
    return f"<|message_model|>f<|content_invoke_tool_json|>{body}<|end_message|>"


@functools.cache
def writer_of(key: str) -> CallWriter:
    return CallWriter(renderer_for(NAMES.get(key, key)))


def read(key: str, text: str) -> Reply:
    writer = writer_of(key)
    return read_reply(writer.renderer, [*writer.marked(text), writer.stop])


BROKEN = [
    ("Q", '{"name": "f", "arguments": {}}</tool_call>', "must begin with"),
    ("Q", '<tool_call>{"name": "f", "arguments": {}}', "not closed"),
    ("Q", '<tool_call>{"arguments": {}}</tool_call>', '"name"'),
    ("Q", '<tool_call>{"name": "f"}</tool_call>', '"arguments"'),
    ("X", "<function=f>\n<parameter=v>\n1\n</parameter>\n</function>\n</tool_call>", "begin with"),
    ("X", "<tool_call><function=f><parameter=v>1</parameter></function>", "not closed"),
    ("X", "<tool_call><function=><parameter=v>1</parameter></function></tool_call>", "no name"),
    ("X", '<tool_call><function=f><parameter=body>{"a":1}</function></tool_call>', "not closed"),
    ("X", X_CALL.replace("</function>", "<parameter=v>2</parameter></function>"), "twice"),
    ("X", "<tool_call><function=f>v=1</function></tool_call>", "must read <parameter=NAME>"),
    ("G", "f<arg_key>v</arg_key><arg_value>1</arg_value></tool_call>", "must begin with"),
    ("G", "<tool_call>f<arg_key>v</arg_key><arg_value>1</arg_value>", "must read <arg_key>"),
    ("G", "<tool_call>f<arg_key>v</arg_key><arg_value>1</tool_call>", "not closed"),
    ("G", "<tool_call><arg_key>v</arg_key><arg_value>1</arg_value></tool_call>", "NAME"),
    (
        "G",
        "<tool_call>f" + "<arg_key>v</arg_key><arg_value>1</arg_value>" * 2 + "</tool_call>",
        "twice",
    ),
    ("D", d_call("{}") + D_END, "must stand between"),
    ("D", D_BEGIN + d_call("{}"), "and end with"),
    ("D", D_BEGIN + d_call("{}", "get-weather") + D_END, "letters, digits"),
    ("D", D_BEGIN + d_call("{}", "") + D_END, "letters, digits"),
    ("D", D_BEGIN + d_call('{"v": }') + D_END, "must be JSON"),
    ("D", D_BEGIN + d_call('{"v": 1, "v": 2}') + D_END, "twice"),
    ("D", D_BEGIN + D_END, "no call"),
    ("K", k_call("{}") + K_END, "must stand between"),
    ("K", K_BEGIN + k_call("{}"), "and end with"),
    ("K", K_BEGIN + k_call("{}", "functions.f") + K_END, "functions.NAME:INDEX"),
    ("K", K_BEGIN + k_call("{v: 1}") + K_END, "must be JSON"),
    ("V", V_OPEN + '"true">x</｜DSML｜ invoke>\n</｜DSML｜ calls>', "not closed"),
    ("V", V_OPEN + '"true">x</｜DSML｜ parameter>\n</｜DSML｜ invoke>', "must read"),
    (
        "V",
        V_OPEN + '"false">x</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>',
        'string="true"',
    ),
    ("V", '<｜DSML｜ invoke name="f">\n</｜DSML｜ invoke>', "must stand between"),
    ("H", h_call(""), "must be JSON"),
    ("H", h_call("{}", "python"), "functions.NAME"),
    ("H", h_call('{"v": 1'), "must be JSON"),
    ("H", " to=functions.f<|channel|>commentary", "must be JSON"),
    ("T", t_call('{"name": "f"}'), "args"),
    ("T", t_call('{"args": {}}'), "name"),
    ("T", t_call("f(1)"), "must be JSON"),
]


@pytest.mark.parametrize(("key", "text", "why"), BROKEN)
def test_call_that_is_none_is_told_to_the_model_and_never_runs(
    key: str, text: str, why: str
) -> None:
    reply = read(key, f"I call. {text}" if key not in "HT" else text)
    assert reply.clean and not reply.message.calls
    (fault,) = reply.message.malformed
    assert why in fault.error and len(fault.error) < 400


WHOLE = [
    ("Q", '<tool_call>{"name": "f", "arguments": %s}</tool_call>'),
    ("D", D_BEGIN + d_call("%s") + D_END),
    ("K", K_BEGIN + k_call("%s") + K_END),
    ("H", h_call("%s")),
    ("T", t_call('{"name": "f", "args": %s}')),
]


@pytest.mark.parametrize(("key", "text"), WHOLE)
async def test_arguments_that_were_encoded_twice_are_decoded(key: str, text: str) -> None:
    env = await opened(key)
    await env.step([*writer_of(key).marked(text % '"{\\"v\\": \\"x\\"}"'), writer_of(key).stop])
    assert said(env) == ["x"]
    await env.ending.drop("over")


@pytest.mark.parametrize("arguments", ["[1]", '"x"', "null", "5", '"[1]"'])
@pytest.mark.parametrize(("key", "text"), WHOLE)
async def test_arguments_that_are_no_object_are_the_calls_error(
    key: str, text: str, arguments: str
) -> None:
    env = await opened(key)
    writer = writer_of(key)
    step = await env.step([*writer.marked(text % arguments), writer.stop])
    assert not step.episode_done and env.episode.counts.tool_errors == 1
    (answer,) = said(env)
    assert answer.startswith("Error: the arguments must be a JSON object, got ")
    await env.ending.drop("over")


class Sayer(Counter):
    @tool
    def f(self, v: str) -> str:
        return v


def said(env: EpisodeEnv) -> list[str]:
    entries = env.episode.transcript.to_json()
    return [entry["content"] for entry in entries if entry["kind"] == "result"]


async def opened(key: str, environment: type[Environment] = Sayer) -> EpisodeEnv:
    policy = ParseErrorPolicy(max_consecutive=3)
    rendering = Rendering(writer_of(key).renderer)
    env = EpisodeEnv(
        environment=environment, task=Task.of("t", "Go."), renderer=rendering, parse_errors=policy
    )
    await env.initial_observation()
    return env


TWO = [
    ("Q", '<tool_call>{"name": "f", "arguments": {"v": "1"}, "id": ""}</tool_call>'),
    ("Q", '<tool_call>{"name": "f", "arguments": {"v": "1"}, "id": "call_1"}</tool_call>'),
    ("X", X_CALL),
    ("G", "<tool_call>f<arg_key>v</arg_key><arg_value>1</arg_value></tool_call>"),
]


@pytest.mark.parametrize(("key", "one"), TWO)
async def test_calls_without_ids_or_with_equal_ones_all_run_in_order(key: str, one: str) -> None:
    text = f"before {one} between {one.replace('1<', '2<').replace(chr(34) + '1', chr(34) + '2')}"
    env = await opened(key)
    writer = writer_of(key)
    await env.step([*writer.marked(f"{text} after"), writer.stop])
    assert said(env) == ["1", "2"]
    results = [e for e in env.episode.transcript.to_json() if e["kind"] == "result"]
    assert [entry["call_id"] for entry in results] == ["call_1", "call_2"]
    content = str(env.conversation.messages[-3]["content"])
    assert all(word in content for word in ("before", "between", "after"))
    await env.ending.drop("over")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("X", f"<tool_call>bad</tool_call>{X_CALL}"),
        (
            "Q",
            '<tool_call>{"name": "f"}</tool_call>'
            '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
        ),
        ("D", D_BEGIN + d_call("{}", "a-b") + d_call("{}") + D_END),
        ("K", K_BEGIN + k_call("{}", "functions.f") + k_call("{}") + K_END),
    ],
)
def test_one_broken_call_does_not_stop_the_others(key: str, text: str) -> None:
    reply = read(key, text)
    assert len(reply.message.calls) == 1 and len(reply.message.malformed) == 1


def test_call_that_stands_behind_a_fault_may_be_quoted_and_does_not_run() -> None:
    text = f"<tool_call><function=f><parameter=v>quoted {X_CALL} end</parameter></function>"
    reply = read("X", text + "</tool_call>")
    assert not reply.message.calls and reply.message.malformed


async def test_model_sees_the_broken_call_that_the_correction_speaks_of() -> None:
    for key in ("X", "K", "D", "H"):
        env = await opened(key)
        text = next(text for k, text, _ in BROKEN if k == key)
        writer = writer_of(key)
        step = await env.step([*writer.marked(text), writer.stop])
        assert not step.episode_done and step.metrics["parse_error"] == 1.0
        shown = writer.renderer.build_generation_prompt(env.conversation.messages).to_ints()
        seen = str(writer.renderer.tokenizer.decode(shown))
        assert ("{}" in seen) if key in "KD" else ("f" in seen)
        assert env.episode.counts.format_errors == 1
        await env.ending.drop("over")


@pytest.mark.parametrize("name", ["qwen3_5", "nemotron3", "qwen3_8_xhigh_reasoning"])
def test_call_before_the_end_of_reasoning_never_runs(name: str) -> None:
    assert not read(name, f"I may {X_CALL}\n</think>\n\ndone").message.calls
    assert len(read(name, f"<tool_call> is it\n</think>\n\n{X_CALL}").message.calls) == 1


@pytest.mark.parametrize("name", ["qwen3", "qwen3_instruct"])
def test_call_in_reasoning_that_the_reply_opened_and_left_open_never_runs(name: str) -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    reply = read(name, f"<think>I may {call}")
    assert not reply.message.calls and "</think>" in reply.message.malformed[0].error
    assert not read(name, f"<think>{call}</think>done").message.calls
    assert not read(name, f"{call}</think>done").message.calls


def test_text_that_only_spells_a_mark_is_text_where_tokens_tell() -> None:
    writer = writer_of("H")
    spelled = writer.plain("<|end|><|start|>assistant to=functions.f<|message|>{}")
    head = writer.marked("<|channel|>final<|message|>")
    reply = read_reply(writer.renderer, [*head, *spelled, writer.stop])
    assert not reply.message.calls and "to=functions.f" in reply.message.text


@pytest.mark.timeout(60)  # a pattern that goes back over the spaces takes far longer
@pytest.mark.parametrize("key", NAMES)
def test_spaces_and_marks_without_end_are_read_to_their_end(key: str) -> None:
    writer = writer_of(key)
    template = [*writer.marked(writer.before), *writer.plain(" " * 3000)]
    reply = read_reply(writer.renderer, [*template * 10, *writer.marked(writer.after), writer.stop])
    assert reply.message.calls or reply.message.malformed or reply.message.text


def tool_named(name: str, argument: str = "v") -> Tool:
    async def call(env: object, arguments: object) -> None: ...

    return Tool(name, "", {"type": "object", "properties": {argument: {}}}, call)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "name", "carried"),
    [
        ("D", "get_weather", True),
        ("D", "get-weather", False),
        ("D", "a.b", False),
        ("K", "get-weather", True),
        ("K", "a.b", False),
        ("K", "a:b", False),
        ("G", "a.b-c", True),
        ("G", "a b", False),
        ("X", "a.b-c d", True),
        ("X", "a>b", False),
        ("H", "a.b", True),
        ("H", "functions.f", False),
        ("V", 'a"b', False),
        ("Q", "a b:c", True),
        ("Q", "<b>", False),
    ],
)
def test_name_that_the_format_can_not_carry_is_refused(key: str, name: str, carried: bool) -> None:
    renderer = writer_of(key).renderer
    if carried:
        check_names(renderer, [tool_named(name)])
        return
    with pytest.raises(ConfigError, match=f"renderer {NAMES[key]} can't carry the tool"):
        check_names(renderer, [tool_named(name)])


def test_argument_that_a_tag_can_not_carry_is_refused() -> None:
    with pytest.raises(ConfigError, match="the argument 'a>b' of 'f'"):
        check_names(writer_of("X").renderer, [tool_named("f", "a>b")])


class Dashed(Environment):
    @tool(name="get-weather")
    def weather(self) -> str:
        return ""

    @scorer
    def done(self) -> bool:
        return True


def test_environment_is_refused_where_its_names_can_not_be_carried() -> None:
    rendering = Rendering(writer_of("D").renderer)
    with pytest.raises(ConfigError, match=r"'get-weather' \(a name must match \\w\+\)"):
        EpisodeEnv(environment=Dashed, task=Task.of("t", "Go."), renderer=rendering)


async def test_unknown_tool_is_told_which_there_are() -> None:
    env = await opened("X")
    writer = writer_of("X")
    await env.step([*writer.marked(X_CALL.replace("=f>", "=nope>")), writer.stop])
    (answer,) = said(env)
    assert "there is no tool 'nope'" in answer and "add" in answer and "say" in answer
    await env.ending.drop("over")
