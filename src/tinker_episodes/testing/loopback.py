"""A pytest plugin: `loopback`, a real Tinker-API server on this machine for all tests.

With it, a test trains with the real trainer:

    def test_my_bundle_trains(loopback, tmp_path):
        config = train.Config(model_name=loopback.model_name, base_url=loopback.url, ...)
        asyncio.run(train.main(config))
"""

from collections.abc import Generator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Loopback:
    """A running server."""

    url: str
    """What the SDK and the trainer take as `base_url`."""
    model_name: str
    """What they take as the model: the folder of its tokenizer."""


@pytest.fixture(scope="session")
def loopback() -> Generator[Loopback]:
    """One server for all tests; its model starts from the same weights in every session."""
    # pytest loads this plugin in every run, so what it needs loads with its first use.
    from tinker_episodes.loopback import model_name, serve

    with serve() as url:
        yield Loopback(url, model_name())
