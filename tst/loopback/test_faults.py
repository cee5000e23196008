"""The host's unmodified trainer whose index fails: it stops with one error, whatever its strategy.

No reward of a rollout that is not filed reaches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.filed import filed_so_far, said, url_of
from support.training import config
from tinker_cookbook.rl import train
from tinker_cookbook.rl.rollout_strategy import FailFast, MinViableGroup, RetryOnFailure

from tinker_episodes import RunIndexError
from tinker_episodes.index.writing import forget_fault, index_writer

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STRATEGIES = [FailFast(), RetryOnFailure(max_retries=1), MinViableGroup(1)]


@pytest.fixture
def log_path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    forget_fault(url_of(tmp_path / "run"))
    index_writer(url_of(tmp_path / "run")).close()


@pytest.fixture
def from_the_fifth() -> Iterator[list[Any]]:
    """What is called when a transaction begins, from the fifth on."""
    called: list[Any] = []
    begun = [0]

    def begin(connection: Any) -> None:
        begun[0] += 1
        for act in called if begun[0] >= 5 else ():
            act(connection)

    event.listen(Engine, "begin", begin)
    yield called
    event.remove(Engine, "begin", begin)


def _full(connection: Any) -> None:
    pages = connection.exec_driver_sql("pragma page_count").scalar()
    connection.exec_driver_sql(f"pragma max_page_count = {pages}").close()


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: type(strategy).__name__)
async def test_full_disk_stops_the_trainer_and_no_unfiled_reward_leaves(
    server: str, log_path: Path, from_the_fifth: list[Any], strategy: Any
) -> None:
    from_the_fifth.append(_full)
    trained = config(
        server, str(log_path), data={"num_epochs": 4}, rollout_error_tolerance=strategy
    )
    with pytest.raises(RunIndexError, match="can't be written: database or disk is full"):
        await train.main(trained)
    kept = {one.key: one for one in filed_so_far(log_path)}
    assert kept
    for told in said(log_path):
        assert kept[told.key].reward == told.reward
    assert len(kept) < 11 * 6


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: type(strategy).__name__)
async def test_removed_index_stops_the_trainer(
    server: str, log_path: Path, from_the_fifth: list[Any], strategy: Any
) -> None:
    from_the_fifth.append(lambda _: Path(log_path.parent / "episodes.db").unlink(missing_ok=True))
    trained = config(
        server, str(log_path), data={"num_epochs": 4}, rollout_error_tolerance=strategy
    )
    with pytest.raises(RunIndexError, match=r"episodes\.db was removed or replaced"):
        await train.main(trained)
    assert len(said(log_path)) < 11 * 6
