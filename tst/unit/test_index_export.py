"""A run as JSON lines."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.index_runs import SHOP_TOOLS, Runs, make_runs

from tinker_episodes import ConfigError
from tinker_episodes.cli import main
from tinker_episodes.index.export import export_run
from tinker_episodes.index.reading import IndexReader

DOCS = Path(__file__).parents[2] / "docs" / "index.md"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return make_runs(tmp_path_factory.mktemp("index"), size=3, steps=7)


@pytest.fixture
def reader(runs: Runs) -> Iterator[IndexReader]:
    reader = IndexReader(runs.url)
    yield reader
    reader.close()


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("ascii").splitlines()]


def test_every_standing_rollout_is_one_line_in_the_order_of_steps(
    runs: Runs, reader: IndexReader, tmp_path: Path
) -> None:
    count = export_run(reader, "first", tmp_path / "first.jsonl")
    lines = lines_of(tmp_path / "first.jsonl")
    assert count == len(lines) == sum(step.rollouts for step in reader.steps("first"))
    places = [(line["step"], line["split"]) for line in lines]
    assert places == sorted(places)
    assert not any(line["superseded"] for line in lines)
    assert {line["attempt"] for line in lines} == {1, 2}


def test_superseded_rollouts_are_written_where_they_are_asked_for(
    reader: IndexReader, tmp_path: Path
) -> None:
    count = export_run(reader, "first", tmp_path / "all.jsonl", superseded=True)
    assert count == next(run.rollouts for run in reader.runs() if run.name == "first")
    assert any(line["superseded"] for line in lines_of(tmp_path / "all.jsonl"))


def test_a_line_holds_what_the_pages_show(reader: IndexReader, tmp_path: Path) -> None:
    export_run(reader, "second", tmp_path / "second.jsonl")
    for line in lines_of(tmp_path / "second.jsonl"):
        page = reader.rollout(line["rollout"])
        tokens = reader.tokens(line["rollout"])
        assert page is not None and tokens is not None
        assert (line["task"], line["reward"]) == (page.where.task, page.rollout.reward)
        assert line["trained_reward"] == page.rollout.trained_reward is not None
        assert (line["entries"], line["changes"]) == (page.entries, page.changes)
        assert line["tokens"] == tokens.turns
        assert [score["name"] for score in line["scores"]] == ["goal"]
        assert line["tool_sets"] == page.tool_sets == {SHOP_TOOLS.hash: list(SHOP_TOOLS.specs)}
        ((hash, image),) = line["images"].items()
        assert hashlib.sha256(base64.b64decode(image["data"])).hexdigest() == hash


def test_the_documented_fields_are_those_of_a_line(reader: IndexReader, tmp_path: Path) -> None:
    export_run(reader, "second", tmp_path / "second.jsonl")
    section = DOCS.read_text("utf-8").split("## Export", 1)[1]
    documented = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)\|", section, re.M)))
    assert set(documented) == set(lines_of(tmp_path / "second.jsonl")[0])


def test_a_file_that_can_not_be_written_is_one_error(reader: IndexReader, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"to: .*nowhere.* can't be written: No such file"):
        export_run(reader, "first", tmp_path / "nowhere" / "x.jsonl")


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    reader: IndexReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "first.jsonl"
    file.write_text("old")
    exported = reader.exported

    def failing(*args: Any, **more: Any) -> Iterator[Any]:
        yield next(exported(*args, **more))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reader, "exported", failing)
    with pytest.raises(ConfigError, match="No space left on device"):
        export_run(reader, "first", file)
    assert [path.name for path in tmp_path.iterdir()] == ["first.jsonl"]
    assert file.read_text() == "old"


def test_the_command_writes_a_run_by_its_name_or_log_path(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.jsonl"
    for path in ("second", f"{runs.folder / 'second'}"):
        assert main(["export", path, f"to={file}", f"index={runs.folder}"]) == 0
        assert "27 rollouts of the run second are in" in capsys.readouterr().out
    assert len(lines_of(file)) == 27


def test_the_command_refuses_a_run_that_is_not_there(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "third", f"to={tmp_path}/x", f"index={runs.folder}"]) == 2
    assert "there is no run 'third'; the index holds: first, second" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
