"""Which bundle a name means."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tinker_episodes import BundleError, ConfigError, find_bundle
from tinker_episodes.bundle import installed_bundles

IN_CODE = """
from tinker_episodes import Bundle, Environment, Task, scorer

class Plain(Environment):
    @scorer
    def found(self) -> bool:
        return True

BUNDLE = Bundle(name="in_code", environment=Plain, tasks=[Task.of("a", "A")])
NUMBER = 5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes an importable module, and forgets it at the end."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


def test_an_installed_bundle_is_found_by_its_name() -> None:
    bundle = find_bundle("number_search")
    assert bundle.name == "number_search"
    assert "number_search" in installed_bundles()


def test_a_folder_is_found_by_its_path(write_bundle: Callable[..., Path]) -> None:
    assert find_bundle(str(write_bundle())).name == "counter"


def test_a_folder_is_found_from_the_working_folder(
    write_bundle: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_bundle()
    monkeypatch.chdir(folder.parent)
    assert find_bundle("./counter").source == str(folder.resolve())
    assert find_bundle("counter").source == str(folder.resolve())


def test_a_folder_that_is_not_there_is_a_bundle_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="there is no such folder"):
        find_bundle(str(tmp_path / "nothing"))


def test_a_bundle_is_read_once_a_process(write_bundle: Callable[..., Path]) -> None:
    folder = str(write_bundle())
    assert find_bundle(folder) is find_bundle(folder)


def test_a_bundle_in_code_is_found_by_module_and_name(module: Callable[[str, str], None]) -> None:
    module("made_in_code_1", IN_CODE)
    bundle = find_bundle("made_in_code_1:BUNDLE")
    assert (bundle.name, bundle.source) == ("in_code", "made_in_code_1:BUNDLE")


def test_an_unknown_name_is_refused_with_the_installed_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"there is no bundle 'nothing'; installed: .*number_search"
    ):
        find_bundle("nothing")


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="'no_such_module:BUNDLE': no_such_module can't be imported"
    ):
        find_bundle("no_such_module:BUNDLE")


@pytest.mark.parametrize("attribute", ["NOTHING", "NUMBER", "Plain", ""])
def test_a_name_that_is_no_bundle_is_refused(
    module: Callable[[str, str], None], attribute: str
) -> None:
    module("made_in_code_2", IN_CODE)
    with pytest.raises(ConfigError, match=f"there is no Bundle '{attribute}' in made_in_code_2"):
        find_bundle(f"made_in_code_2:{attribute}")


def test_a_module_that_raises_is_refused_with_what_it_raised(
    module: Callable[[str, str], None],
) -> None:
    module("made_in_code_3", "raise ValueError('no licence')")
    with pytest.raises(ConfigError, match=r"made_in_code_3 can't be imported: .*no licence"):
        find_bundle("made_in_code_3:BUNDLE")


@pytest.mark.parametrize("name", [":BUNDLE", ":", "a:b:c", "a..b:C"])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="bundle"):
        find_bundle(name)


def test_a_folders_bundle_is_pickled_as_its_path(write_bundle: Callable[..., Path]) -> None:
    folder = write_bundle()
    bundle = find_bundle(str(folder))
    pickled = pickle.dumps(bundle)
    assert b"Reach 1." not in pickled
    assert pickle.loads(pickled) is bundle


def test_a_folders_bundle_can_be_unpickled_in_another_process(
    write_bundle: Callable[..., Path], tmp_path: Path
) -> None:
    file = tmp_path / "pickled"
    file.write_bytes(pickle.dumps(find_bundle(str(write_bundle()))))
    code = (
        "import pickle, sys; bundle = pickle.load(open(sys.argv[1], 'rb')); "
        "print(bundle.name, len(bundle.tasks), bundle.content_hash)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert printed == ["counter", "3", find_bundle(str(tmp_path / "counter")).content_hash]


def test_a_bundle_in_code_that_was_found_is_pickled_as_its_name(
    module: Callable[[str, str], None],
) -> None:
    module("made_in_code_4", IN_CODE)
    bundle = find_bundle("made_in_code_4:BUNDLE")
    assert pickle.loads(pickle.dumps(bundle)) is bundle
