"""Images that tools give: shown where renderer and processor take them, put in words elsewhere, and
stored once.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tinker
from PIL import Image as pillow
from support.images import Painter, picture, seeing_model
from support.index_records import rows_of
from support.talk import Said, Talk
from support.tokenizers import renderer_for
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_runner import run_rollout

from tinker_episodes import EpisodeDatasetBuilder, EpisodeEnv, Image, Task, tool
from tinker_episodes.cookbook.extension import TOOL, USER, extends
from tinker_episodes.cookbook.rendering import Rendering, rendering_of

TASK = Task.of("t", "Paint.")
SEEING = (
    "qwen3_vl_instruct",
    "qwen3_vl",
    "qwen3_5",
    "qwen3_5_disable_thinking",
    "qwen3_5_preserve_thinking",
    "qwen3_8_xhigh_reasoning",
)
BLIND = ("qwen3_instruct", "deepseekv3", "deepseekv4_1", "glm5_3_max_reasoning", "kimi_k2")
BLIND = (*BLIND, "kimi_k25", "gpt_oss_low_reasoning", "nemotron3")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeing_model(tmp_path_factory.mktemp("seeing"))


def paint(color: str, thought: str = "") -> Said:
    return Said("", thought, (f'{{"color": "{color}"}}',), tool="paint")


async def played(rendering: Rendering, *said: Said) -> tuple[Talk, Any]:
    env = EpisodeEnv(environment=Painter, task=TASK, renderer=rendering)
    policy = Talk(env, rendering.renderer, said)
    return policy, await run_rollout(policy, env)


def chunks(observation: list[Any]) -> list[tinker.types.ImageChunk]:
    return [item for item in observation if isinstance(item, tinker.types.ImageChunk)]


@pytest.mark.parametrize("name", SEEING)
async def test_image_stands_at_its_place_with_the_hosts_own_tokens(model: str, name: str) -> None:
    rendering = rendering_of(model, name)
    thought = "a thought" if "disable" not in name and "instruct" not in name else ""
    policy, trajectory = await played(
        rendering, paint("red", thought), paint("blue", thought), Said("done", thought)
    )
    first, second = policy.shown[1], policy.shown[2]
    assert len(chunks(first)) == 1 and len(chunks(second)) == 2
    assert [chunk.expected_tokens for chunk in chunks(second)] == [80, 80]
    at = first.index(chunks(first)[0])
    tokenizer: Any = rendering.renderer.tokenizer
    assert tokenizer.decode(first[at - 3 : at]).endswith("before <|vision_start|>")
    assert tokenizer.decode(first[at + 1 : at + 4]).startswith("<|vision_end|> after")
    if name != "qwen3_vl_instruct":  # the host writes its calls back with one more newline
        assert policy.shown == policy.hosts
    assert trajectory.transitions[2].ob.length == len(second) - 2 + 160
    if extends(rendering.renderer, TOOL) and extends(rendering.renderer, USER):
        assert len(trajectory_to_data(trajectory, 1.0)) == 1
        assert second[: len(first)] == first


async def test_change_of_the_picture_changes_the_chunk(model: str) -> None:
    rendering = rendering_of(model, "qwen3_5_preserve_thinking")
    red, _ = await played(rendering, paint("red", "a"), Said("done", "a"))
    blue, _ = await played(rendering, paint("blue", "a"), Said("done", "a"))
    again, _ = await played(rendering, paint("red", "a"), Said("done", "a"))
    assert chunks(red.shown[1]) != chunks(blue.shown[1])
    assert chunks(red.shown[1]) == chunks(again.shown[1])


@pytest.mark.parametrize("name", BLIND)
async def test_model_that_sees_no_images_is_told_of_one(name: str) -> None:
    rendering = Rendering(renderer_for(name))
    policy, trajectory = await played(rendering, paint("red"), Said("done"))
    size = len(picture(color="red").data)
    words = f"[an image that is not shown here: image/png, 320 x 256 pixels, {size} bytes]"
    tokenizer: Any = rendering.renderer.tokenizer
    assert f"before {words} after" in tokenizer.decode(policy.shown[1])
    assert trajectory.stop_reason == "completed"


async def test_image_is_stored_once_and_referred_to_by_its_hash(
    model: str, tmp_path: Path, read: Callable[[], Any]
) -> None:
    rendering = rendering_of(model, "qwen3_5_preserve_thinking")
    builder = EpisodeDatasetBuilder(
        bundle="support.images:PAINTED",
        model_name=model,
        renderer_name="qwen3_5_preserve_thinking",
        log_path=str(tmp_path / "run"),
        groups_per_batch=1,
        group_size=2,
    )
    train, _ = await builder()
    (group,) = train.get_batch(0)
    envs = await group.make_envs()
    said = [paint("red", "a"), paint("blue", "a"), paint("red", "a"), Said("done", "a")]
    trajectories = [await run_rollout(Talk(e, rendering.renderer, said), e) for e in envs]
    await group.compute_group_rewards(trajectories, envs)
    reader = read()
    url = f"sqlite:///{tmp_path / 'episodes.db'}"
    red, blue = picture(color="red"), picture(color="blue")
    assert sorted(rows_of(url, "select hash from images")) == sorted([(red.hash,), (blue.hash,)])
    stored = reader.image(red.hash)
    assert stored.data == red.data and (stored.width, stored.height) == (320, 256)
    (transcript,) = {json.dumps(env.episode.transcript.to_json()[2]["content"]) for env in envs}
    text, image, _ = json.loads(transcript)
    size = {"width": 320, "height": 256, "bytes": len(red.data)}
    assert text == {"type": "text", "text": "before "}
    assert image == {"type": "image", "media_type": "image/png", "hash": red.hash, **size}


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "F"])
async def test_every_kind_of_picture_is_shown(model: str, mode: str) -> None:
    class Gray(Painter):
        @tool
        def paint(self, color: str) -> pillow.Image:
            return pillow.new("RGB", (320, 256), color).convert(mode)

    if mode in ("CMYK", "F"):  # no PNG: such a tool gives another file
        Gray.paint = tool(lambda self, color: tiff(mode), name="paint", schema={"type": "object"})
    rendering = rendering_of(model, "qwen3_5_preserve_thinking")
    env = EpisodeEnv(environment=Gray, task=TASK, renderer=rendering)
    policy = Talk(env, rendering.renderer, [paint("red", "a"), Said("done", "a")])
    await run_rollout(policy, env)
    assert [chunk.expected_tokens for chunk in chunks(policy.shown[1])] == [80]


def tiff(mode: str) -> Image:
    buffer = io.BytesIO()
    pillow.new("L", (320, 256), 3).convert(mode).save(buffer, format="TIFF")
    return Image(buffer.getvalue(), "image/tiff")
