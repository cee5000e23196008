"""Where the pages' data comes from: the run index, and what the trainer alone logged beside it."""

from __future__ import annotations

import threading
from pathlib import Path

from tinker_episodes.errors import ConfigError, RunIndexError
from tinker_episodes.explorer.config import Explore
from tinker_episodes.explorer.hostlog.reader import PREFIX, HostReader
from tinker_episodes.index.opened import identity_of
from tinker_episodes.index.reading import IndexReader

_FILE = "episodes.db"


class Sources:
    """An index, log paths, or both. Either may appear while the explorer runs."""

    def __init__(
        self, url: str | None, file: Path | None, hosts: HostReader | None, place: str
    ) -> None:
        self.place = place
        """What is read, for people."""
        self.hosts = hosts
        self._url = url
        self._file = file
        self._index: IndexReader | None = None
        self._opened: tuple[int, int] | None = None
        self._lock = threading.Lock()

    @property
    def index(self) -> IndexReader | None:
        """The index, opened once it is there, and anew where another file is put in its place.

        Raises:
            RunIndexError: it can't be read.
        """
        with self._lock:
            standing = None if self._file is None else identity_of(self._file)
            missing = self._file is not None and standing is None
            if self._url is None or missing:
                return self._index
            if self._index is not None and standing != self._opened:
                self._index.close()
                self._index = None
            if self._index is None:
                self._index, self._opened = IndexReader(self._url), standing
            return self._index

    def host_of(self, key: str) -> HostReader | None:
        """The reader of log paths, where a key is one of theirs."""
        return self.hosts if key.startswith(PREFIX) else None

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()


def sources_of(config: Explore) -> Sources:
    """What `path` and `index` mean.

    Raises:
        ConfigError: there is nothing at `path`.
        RunIndexError: there is an index, and it can't be read.
    """
    sources = _sources(config)
    _ = sources.index  # what can't be read is said before anything is served
    return sources


def _sources(config: Explore) -> Sources:
    if "://" in config.path:
        return Sources(config.path, None, None, config.path)
    place = Path(config.path).expanduser().absolute()
    if not place.exists():
        raise ConfigError(
            f"path: there is nothing at {config.path!r}; a folder with an {_FILE}, a run's log "
            "path, a database file or a URL would be right"
        )
    if place.is_file():
        return Sources(f"sqlite:///{place}", place, None, str(place))
    hosts = HostReader(place)
    if config.index is not None:
        url, file = _index_at(config.index)
    else:
        file = _index_file(place)
        url = f"sqlite:///{file}"
    return Sources(url, file, hosts, str(place))


def _index_at(given: str) -> tuple[str, Path | None]:
    if "://" in given:
        return given, None
    file = Path(given).expanduser().absolute()
    file = file / _FILE if file.is_dir() else file
    if not file.is_file():
        raise RunIndexError(f"there is no run index at {given!r}")
    return f"sqlite:///{file}", file


def _index_file(folder: Path) -> Path:
    """The index in a folder, or beside it where the folder is a run's log path."""
    beside = folder.parent / _FILE
    inside = folder / _FILE
    return beside if not inside.exists() and beside.exists() else inside
