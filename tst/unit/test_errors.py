from __future__ import annotations

import pickle

import pytest

from tinker_episodes import errors
from tinker_episodes.errors import BundleError, EpisodesError, Problem


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("BundleError", ValueError),
        ("ConfigError", ValueError),
        ("DefinitionError", TypeError),
        ("ArgumentsError", errors.ToolError),
        ("UniverseError", TypeError),
        ("EpisodeClosed", RuntimeError),
        ("EpisodeFailed", RuntimeError),
        ("RunIndexError", RuntimeError),
    ],
)
def test_every_error_is_ours_and_a_standard_one(name: str, base: type[Exception]) -> None:
    error = getattr(errors, name)
    assert issubclass(error, EpisodesError)
    assert issubclass(error, base)


def test_a_problem_reads_as_file_place_and_message() -> None:
    assert (
        str(Problem("tasks/a.jsonl", "line 3", "it is odd")) == "tasks/a.jsonl: line 3: it is odd"
    )


def test_a_problem_of_a_whole_file_has_no_place() -> None:
    assert str(Problem("bundle.toml", "", "it is not there")) == "bundle.toml: it is not there"


def test_a_bundle_error_lists_its_problems_by_file() -> None:
    error = BundleError("b", [Problem("z", "", "last"), Problem("a", "", "first")])
    assert str(error) == "bundle b: 2 problems\n  a: first\n  z: last"


def test_a_bundle_error_survives_pickling() -> None:
    error = BundleError("b", [Problem("a", "line 1", "wrong")])
    again = pickle.loads(pickle.dumps(error))
    assert (again.bundle, again.problems, str(again)) == (error.bundle, error.problems, str(error))
