"""What a builder says of a renderer and a bundle that don't go together: once, as warnings."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tinker_episodes.cookbook.extension import TOOL, USER, extends
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.vision import sees_images
from tinker_episodes.environment import Environment, EnvironmentClass
from tinker_episodes.task import Task

logger = logging.getLogger(__name__)


async def advise(
    rendering: Rendering, renderer_name: str, environment: EnvironmentClass, tasks: Sequence[Task]
) -> None:
    """Warn where rollouts of many turns become many training data, and where images can't be seen.

    Loads the model's image processor if tools say that they give images.
    """
    after = await _rewritten(rendering, environment, tasks)
    if after:
        logger.warning(
            "the renderer %r rewrites history after %s: a new training datum begins each time; "
            "docs/renderers.md lists the renderers whose history extends",
            renderer_name,
            " and ".join(after),
        )
    images = [tool.name for tool in environment.tools.values() if tool.images]
    if images and not await sees_images(rendering.renderer):
        logger.warning(
            "the tools %s give images, and the renderer %r shows none to this model: it is told "
            "their types and sizes",
            ", ".join(images),
            renderer_name,
        )


async def _rewritten(
    rendering: Rendering, environment: EnvironmentClass, tasks: Sequence[Task]
) -> list[str]:
    """What history is rewritten after, of what these tasks have."""
    many = environment.environment.next_prompt is not Environment.next_prompt
    asked = {
        "a tool's result": (TOOL, bool(environment.tools)),
        "a further prompt": (USER, many or any(len(task.prompts) > 1 for task in tasks)),
    }
    extend = await rendering.run(
        lambda renderer: {after: extends(renderer, after) for after, _ in asked.values()}, size=0
    )
    return [words for words, (after, has) in asked.items() if has and not extend[after]]
