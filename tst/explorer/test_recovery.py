"""What goes away under an open page comes back: the server, the index, the right to see it."""

from __future__ import annotations

import socket
from pathlib import Path

from playwright.sync_api import Page, expect
from support.explorer import Serve, TestClient, served
from support.explorer_runs import file_groups
from support.odd_runs import groups

from tinker_episodes.explorer.app import create_app
from tinker_episodes.explorer.config import Explore
from tinker_episodes.explorer.sources import sources_of


def file_run(folder: Path, name: str, reward: float) -> Path:
    """An index of one run of one rollout; its file."""
    folder.mkdir(exist_ok=True)
    file = folder / "episodes.db"
    file_groups(f"sqlite:///{file}", groups(folder, name, iter([(0, "once", [reward])])))
    return file


def test_page_recovers_when_its_server_is_started_again(page: Page, tmp_path: Path) -> None:
    file_run(tmp_path, "first", 0.25)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with served(tmp_path, port=port) as url:
        page.goto(url)
        expect(page.get_by_role("row", name="first")).to_contain_text("0.250")
    expect(page.locator("#live")).to_have_text("connection lost")
    file_run(tmp_path, "second", 0.75)
    with served(tmp_path, port=port):
        expect(page.get_by_role("row", name="second")).to_contain_text("0.750")
        expect(page.locator("#live")).to_have_text("live")
    page.seen.faults = [fault for fault in page.seen.faults if "ERR_" not in fault]


def test_index_that_is_put_in_place_of_another_is_shown(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    file = file_run(tmp_path / "runs", "run", 0.25)
    page.goto(f"{serve(tmp_path / 'runs')}/runs/run")
    expect(page.locator("dl.facts")).to_contain_text("0.250")
    file_run(tmp_path / "others", "run", 0.75).replace(file)
    expect(page.locator("dl.facts")).to_contain_text("0.750")
    expect(page.get_by_role("group", name="Reward: train 0.75")).to_be_visible()


def test_removed_index_is_said_and_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    file = file_run(tmp_path, "run", 0.25)
    with TestClient(
        create_app(sources_of(Explore(path=str(tmp_path)))), base_url="http://127.0.0.1:8765"
    ) as client:
        assert client.get("/api/runs").status_code == 200
        file.rename(tmp_path / "elsewhere.db")
        assert "moved or removed" in client.get("/api/runs").json()["detail"]
        file.write_bytes(b"this is no database at all, but a text of some length" * 20)
        assert "can't be opened" in client.get("/api/runs").json()["detail"]
        (tmp_path / "elsewhere.db").replace(file)
        assert [run["name"] for run in client.get("/api/runs").json()["runs"]] == ["run"]


def test_address_with_the_token_opens_the_page_that_was_refused(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    file_run(tmp_path, "first", 0.25)
    url = serve(tmp_path, token="a-token-of-24-characters")
    page.goto(url)
    expect(page.locator("#live")).to_have_text("refused: it wants a token")
    page.goto(f"{url}#token=a-token-of-24-characters")  # the same page: its fragment alone changes
    expect(page.get_by_role("row", name="first")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    assert page.url == f"{url}/"
    page.seen.faults = [fault for fault in page.seen.faults if "401" not in fault]
