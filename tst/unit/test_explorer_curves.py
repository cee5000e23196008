"""The curves of a run are kept as they were written, until a step of the run changes."""

from __future__ import annotations

import json
from pathlib import Path

from support.index_runs import make_runs, make_step

from tinker_episodes.explorer.curves import Curves
from tinker_episodes.index import IndexWriter
from tinker_episodes.index.reading import IndexReader


def test_curves_are_written_anew_where_a_step_of_the_run_changed(tmp_path: Path) -> None:
    runs = make_runs(tmp_path, steps=7)
    reader, writer, curves = IndexReader(runs.url), IndexWriter(runs.url), Curves()
    before = curves.of(reader, "first")
    assert before is not None and curves.of(reader, "first") is before
    make_step(writer, tmp_path, 9)
    writer.close()
    after = curves.of(reader, "first")
    assert after is not None and after != before
    numbers = json.loads(after)["numbers"]
    assert numbers["step"] == [row.step for row in reader.steps("first")]
    assert numbers["step"][-1] == 9
    reader.close()


def test_a_run_without_a_step_has_no_curves(tmp_path: Path) -> None:
    reader = IndexReader(make_runs(tmp_path, steps=3).url)
    assert Curves().of(reader, "nobody") is None
    reader.close()
