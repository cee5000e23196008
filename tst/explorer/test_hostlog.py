"""What the trainer itself writes, read as it grows, and whatever is broken passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinker_episodes.explorer.hostlog.files import Lines, row_of
from tinker_episodes.explorer.hostlog.logtree import episode_of, groups_of
from tinker_episodes.explorer.hostlog.reader import HostReader, metrics_of
from tinker_episodes.index import Split


def line(**row: Any) -> str:
    return json.dumps(row) + "\n"


def summary(group: int, place: int, reward: Any, **more: Any) -> str:
    step = {"step_idx": 0, "ob_len": 7, "ac_len": 5, "reward": reward, "metrics": {"correct": 1.0}}
    row = {
        "group_idx": group, "traj_idx": place, "tags": ["sums"], "total_reward": reward,
        "sampling_client_step": 3, "trajectory_metrics": {}, "steps": [step], "final_ob_len": 12,
    }  # fmt: skip
    return json.dumps(row | more) + "\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A log path with metrics of three steps, and the summaries of the last and of an eval."""
    folder = tmp_path / "sums"
    iteration = folder / "iteration_000002"
    iteration.mkdir(parents=True)
    rows = [
        {"step": step, "env/all/reward/total": step / 4, "env/all/total_episodes": 8,
         "loss": 1.0 / (step + 1), "env/all/turns_per_episode": 2.0, "env/all/total_ac_tokens": 80,
         "env/all/by_group/frac_all_good": 0.25, "env/all/by_group/frac_all_bad": 0.25}
        for step in range(3)
    ]  # fmt: skip
    rows[0] |= {"test/env/all/reward/total": 0.5, "test/env/all/total_episodes": 2}
    (folder / "metrics.jsonl").write_text(
        "".join(map(json.dumps, rows)).replace("}{", "}\n{") + "\n"
    )
    lines = [summary(group, place, float(place % 2)) for group in (0, 1) for place in range(4)]
    (iteration / "train_rollout_summaries.jsonl").write_text("".join(lines))
    (iteration / "eval_test_rollout_summaries.jsonl").write_text(summary(0, 0, 1.0))
    return folder


def test_lines_are_read_on_and_a_half_written_one_later(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = Lines(file)
    assert lines.rows() == []
    file.write_text(line(step=0) + '{"step": 1')
    assert lines.rows() == [{"step": 0}]
    with file.open("a") as opened:
        opened.write("}\n" + line(step=2))
    assert [row["step"] for row in lines.rows()] == [0, 1, 2]
    file.write_text(line(step=0) + line(step=1, again=True) + line(step=2) + line(step=3))
    assert lines.rows()[1] == {"step": 1, "again": True}  # rewritten, and longer than before
    file.write_text(line(step=0))
    assert lines.rows() == [{"step": 0}]  # cut back by a resume
    file.unlink()
    assert lines.rows() == []


@pytest.mark.parametrize(
    "bad", [b"", b"\xff\xfe", b"[1]", b"3", b"nul", b"[" * 100_000, b"1" * 9999]
)
def test_what_is_no_object_is_passed_over(bad: bytes) -> None:
    assert row_of(bad) is None


def test_what_is_not_finite_becomes_nothing() -> None:
    assert row_of(b'{"a": NaN, "b": -Infinity, "c": 1}') == {"a": None, "b": None, "c": 1}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_in_a_summary_file_do_no_harm(tmp_path_factory: Any, chunks: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("any") / "run"
    iteration = folder / "iteration_000000"
    iteration.mkdir(parents=True)
    (folder / "metrics.jsonl").write_bytes(b"\n".join(chunks))
    (iteration / "train_logtree.json").write_bytes(b"".join(chunks))
    (iteration / "train_rollout_summaries.jsonl").write_bytes(
        b"\n".join(chunks) + b'\n{"steps": []}\n'
    )
    (host,) = HostReader(folder).runs()
    assert host.row().name == "run"
    assert HostReader(folder).group("log/run/train/0/0") is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = (
    "group_idx", "traj_idx", "tags", "total_reward", "sampling_client_step",
    "trajectory_metrics", "steps", "final_ob_len",
)  # fmt: skip


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON), max_size=5))
def test_summaries_of_any_shape_are_read(tmp_path_factory: Any, rows: list[dict[str, Any]]) -> None:
    folder = tmp_path_factory.mktemp("any") / "run"
    iteration = folder / "iteration_000000"
    iteration.mkdir(parents=True)
    (iteration / "train_rollout_summaries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    reader = HostReader(folder)
    (host,) = reader.runs()
    host.row()
    for group in reader.step_groups("run", Split.TRAIN, 0):
        page = reader.group(group.where.group)
        assert page is not None
        for rollout in page.rollouts:
            assert reader.rollout(rollout.key) is not None
            assert reader.detail(rollout.key) is not None


def test_steps_come_from_metrics_and_are_exact_where_summaries_are(run: Path) -> None:
    (host,) = HostReader(run).runs()
    rows = {(row.split, row.step): row for row in host.steps()}
    assert [step for split, step in rows if split is Split.TRAIN] == [0, 1, 2]
    assert [step for split, step in rows if split is Split.EVAL] == [0, 2]
    from_metrics, exact = rows[Split.TRAIN, 1], rows[Split.TRAIN, 2]
    assert (from_metrics.reward, from_metrics.rollouts, from_metrics.sampled_tokens) == (
        0.25,
        8,
        10,
    )
    assert (from_metrics.constant, from_metrics.turns) == (0.5, 2.0)
    assert (exact.reward, exact.groups, exact.rollouts, exact.sampled_tokens) == (0.5, 2, 8, 5)
    assert exact.scores == {"correct": 1.0}
    assert exact.spread_between == 0 and exact.spread_inside == 0.5


def test_summaries_that_change_are_read_again(run: Path) -> None:
    (host,) = HostReader(run).runs()
    assert host.row().rollouts == 8 + 8 + 8 + 2 + 1
    mark = host.mark()
    with (run / "iteration_000002" / "train_rollout_summaries.jsonl").open("a") as opened:
        opened.write(summary(2, 0, 1.0))
    assert host.mark() != mark
    assert host.row().rollouts == 8 + 8 + 9 + 2 + 1


def test_step_that_was_logged_again_counts_as_it_was_last(run: Path) -> None:
    with (run / "metrics.jsonl").open("a") as opened:
        opened.write(line(step=1, loss=9.0) + line(step="x") + line(loss=1))
    (host,) = HostReader(run).runs()
    found = {row["step"]: row["metrics"] for row in metrics_of(host.metrics())}
    assert found[1]["loss"] == 9.0 and found[1]["env/all/reward/total"] == 0.25
    assert set(found) == {0, 1, 2}


def test_groups_and_rollouts_have_keys_that_are_found_again(run: Path) -> None:
    reader = HostReader(run.parent)
    groups = reader.step_groups("sums", Split.TRAIN, 2)
    assert [group.rewards for group in groups] == [(0.0, 1.0, 0.0, 1.0)] * 2
    page = reader.group(groups[1].where.group)
    assert page is not None and page.group == groups[1]
    middle = reader.rollout(page.rollouts[1].key)
    assert middle is not None and middle.rollout.sampler_step == 3
    assert (middle.previous, middle.next) == (page.rollouts[0].key, page.rollouts[2].key)
    assert reader.group("log/sums/train/2/9") is reader.rollout("log/sums/train/2/1/9") is None


def node(tag: str, *children: Any, data: Any = None) -> dict[str, Any]:
    return {"tag": tag, "attrs": {"onclick": "alert(1)"}, "children": list(children)} | (
        {} if data is None else {"data": data}
    )


def section(title: str, *children: Any) -> dict[str, Any]:
    return node("section", node("h3", title), node("div", *children))


def test_log_tree_keeps_its_text_and_structure_and_none_of_its_markup(tmp_path: Path) -> None:
    said = {"type": "conversation", "messages": [{"role": "user", "content": "<b>hi</b>"}, 3]}
    table = node(
        "table", node("tbody", node("tr", node("td", "num_turns"), node("td", "1 &lt; 2")))
    )
    episode = section("Trajectory 0 Episode", table)
    group = section(
        "Group Rollout",
        node("div", "<div>raw</div>", data=said),
        node("p", "a &amp; <i>b</i>"),
        episode,
    )
    file = tmp_path / "train_logtree.json"
    file.write_text(json.dumps({"title": "t", "root": node("body", group)}))
    (found,) = groups_of(file)
    assert found["text"] == "Group Rollout"
    assert "onclick" not in json.dumps(found) and "raw" not in json.dumps(found)
    assert {"kind": "text", "text": "a & b"} in found["children"][0]["children"]
    conversation = found["children"][0]["children"][0]
    assert conversation == {
        "kind": "conversation",
        "messages": [{"role": "user", "content": "<b>hi</b>"}],
    }
    own = episode_of(found, 0)
    assert own is not None and own["children"][0]["rows"] == [["num_turns", "1 < 2"]]
    assert episode_of(found, 1) is None


@pytest.mark.parametrize(
    "content", ["", "[", "[]", "3", '{"root": 3}', '{"root": {"children": 3}}']
)
def test_broken_log_tree_has_no_groups(tmp_path: Path, content: str) -> None:
    file = tmp_path / "train_logtree.json"
    file.write_text(content)
    assert groups_of(file) == [] and groups_of(tmp_path / "nothing") == []
