"""How a database is opened, and what is refused."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from tinker_episodes import RunIndexError
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.schema import VERSION, check_url, default_url, open_index


def _url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An empty index."""
    file = tmp_path / "runs" / "episodes.db"
    open_index(_url(file), create=True).dispose()
    return file


def test_a_run_has_its_index_beside_its_log_path(tmp_path: Path) -> None:
    assert default_url(tmp_path / "runs" / "first") == f"sqlite:///{tmp_path}/runs/episodes.db"


def test_a_relative_log_path_has_an_absolute_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_url("runs/first") == f"sqlite:///{Path.cwd()}/runs/episodes.db"


def test_a_new_index_has_its_folder_and_its_version_made(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        assert connection.execute("select version from meta").fetchall() == [(VERSION,)]
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    connection.close()


def test_an_index_can_be_opened_again(file: Path) -> None:
    open_index(_url(file), create=True).dispose()
    with sqlite3.connect(file) as connection:
        assert connection.execute("select count(*) from meta").fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize("create", [True, False])
def test_an_index_of_another_version_is_refused(file: Path, create: bool) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("update meta set version = 99")
    connection.close()
    with pytest.raises(
        RunIndexError, match=f"is of schema version 99, this library's is {VERSION}"
    ):
        open_index(_url(file), create=create)


def test_an_index_that_is_not_there_is_not_made_to_read(tmp_path: Path) -> None:
    with pytest.raises(RunIndexError, match=r"there is no run index at .*nothing\.db"):
        IndexReader(_url(tmp_path / "nothing.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_something_else_is_no_index(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table things (id integer)")
    connection.close()
    with pytest.raises(RunIndexError, match="is no run index: it has no table `meta`"):
        IndexReader(_url(file))


@pytest.mark.parametrize("create", [True, False])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, create: bool) -> None:
    file = tmp_path / "notes.db"
    file.write_text("not a database at all " * 100)
    with pytest.raises(RunIndexError, match="can't be opened"):
        open_index(_url(file), create=create)
    assert file.read_text().startswith("not a database")


def test_an_index_without_its_version_is_refused(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("delete from meta")
    connection.close()
    with pytest.raises(RunIndexError, match="can't be opened"):
        open_index(_url(file), create=False)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunIndexError, match="can't be opened"):
        open_index(_url(tmp_path / "runs" / "episodes.db"), create=True)


@pytest.mark.parametrize(
    "url", ["not a url", "", "nothing://x/y", "sqlite:////", "postgresql+nothing://x/y"]
)
def test_a_url_that_is_none_is_a_run_index_error(url: str) -> None:
    with pytest.raises(RunIndexError):
        open_index(url, create=True)


def test_a_reader_can_not_write(file: Path) -> None:
    engine = open_index(_url(file), create=False)
    with pytest.raises(OperationalError, match="readonly"), engine.begin() as connection:
        connection.execute(text("delete from meta"))
    engine.dispose()


def test_an_index_in_a_folder_with_an_odd_name_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "a b%20?mode=rwc#é" / "episodes.db"
    file.parent.mkdir()
    with sqlite3.connect(file) as connection:
        connection.execute("create table meta (version integer)")
        connection.execute("insert into meta values (?)", (VERSION,))
    connection.close()
    address = default_url(file.parent / "first")
    open_index(address, create=True).dispose()
    IndexReader(address).close()
    assert [path.name for path in tmp_path.iterdir()] == [file.parent.name]


def test_making_an_index_waits_for_another_process_that_makes_it(tmp_path: Path) -> None:
    file = tmp_path / "episodes.db"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("begin immediate")
    outcomes: list[object] = []

    def make() -> None:
        try:
            open_index(_url(file), create=True).dispose()
            outcomes.append("made")
        except RunIndexError as error:
            outcomes.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join(0.2)  # where it does not wait, it has failed by now
    other.execute("commit")
    other.close()
    thread.join(30)
    assert outcomes == ["made"]


# ---------------------------------------------------------------- before a run begins


def test_a_url_is_checked_without_making_anything(tmp_path: Path) -> None:
    check_url(_url(tmp_path / "new" / "deep" / "episodes.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_check_finds_an_index_of_another_version(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("update meta set version = 99")
    connection.close()
    with pytest.raises(RunIndexError, match="schema version 99"):
        check_url(_url(file))


def test_a_check_finds_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunIndexError, match="can't be written to; give another `index`"):
        check_url(_url(tmp_path / "runs" / "episodes.db"))


def test_a_check_finds_a_url_that_is_none() -> None:
    with pytest.raises(RunIndexError, match="'nonsense' is no database URL"):
        check_url("nonsense")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_check_finds_a_folder_that_is_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    with pytest.raises(RunIndexError, match=r"locked can't be written to"):
        check_url(_url(folder / "runs" / "episodes.db"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_index_in_a_read_only_folder_can_be_read(file: Path) -> None:
    file.parent.chmod(0o555)
    try:
        IndexReader(_url(file)).close()
    finally:
        file.parent.chmod(0o755)
