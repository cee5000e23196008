"""Who may ask, what every answer forbids the browser, and what paths can't reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.explorer import TestClient

from tinker_episodes.explorer.app import create_app
from tinker_episodes.explorer.config import Explore, names_of
from tinker_episodes.explorer.security import POLICY
from tinker_episodes.explorer.sources import sources_of
from tinker_episodes.guard import Names

TOKEN = "a-token-of-24-characters"


@pytest.fixture
def guarded(desk: Path) -> Iterator[TestClient]:
    """An explorer that other machines can reach."""
    names = names_of(Explore(host="0.0.0.0"))
    app = create_app(sources_of(Explore(path=str(desk))), names=names, token=TOKEN)
    with TestClient(app, base_url="http://192.0.2.7:8765") as client:
        yield client


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example:8765", "", "[::2]:8765",
             "192.0.2.7:8765", "localhost:", "localhost:x", "127.0.0.1:8765@evil.example"]
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/app.js"])
def test_another_host_name_is_refused(client: TestClient, path: str, host: str) -> None:
    assert client.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "localhost:1"])
def test_this_machines_names_are_served_through_tunnels_too(client: TestClient, host: str) -> None:
    answer = client.get("/api/runs", headers={"Host": host, "Origin": f"http://{host}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:8765"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_a_page_of_another_site_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.get("/api/runs", headers=headers)
    assert answer.status_code == 403 and "no page of another site" in answer.json()["detail"]


def test_a_link_of_another_site_may_open_the_page(client: TestClient) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers={**link, "Sec-Fetch-Dest": "document"}).status_code == 200
    assert client.get("/api/runs", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/nothing", "/static/app.js", "/x/y"])
def test_every_answer_forbids_scripts_styles_frames_and_requests_of_others(
    client: TestClient, path: str
) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    refused = client.get(path, headers={"Host": "evil.example"})
    assert refused.headers["content-security-policy"] == POLICY


def test_the_policy_has_neither_inline_nor_remote_parts() -> None:
    assert "unsafe" not in POLICY and "http" not in POLICY and "*" not in POLICY
    for part in ("default-src 'none'", "base-uri 'none'", "form-action 'none'",
                 "frame-ancestors 'none'", "require-trusted-types-for 'script'",
                 "trusted-types 'none'"):  # fmt: skip
        assert part in POLICY


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(client: TestClient, method: str) -> None:
    for path in ("/api/runs", "/api/live", "/", "/static/app.js"):
        assert client.request(method, path).status_code == 405


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd",
     "/static/..\\app.py", "/static/%00", "/%2e%2e/%2e%2e/etc/passwd", "/runs/..%2f..%2fetc"]
)  # fmt: skip
def test_no_path_leaves_the_pages_own_files(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 405) or "<title>tinker-episodes</title>" in answer.text


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "log/../../etc/0/0/0", "log/careful/../train/0/0", "/etc/passwd",
            "%", "log/careful/train/0/0/0", "\x00", "a" * 1999, "' or 1=1 --", "log/", "log////"]
)  # fmt: skip
@pytest.mark.parametrize("page", ["group", "rollout", "tokens"])
def test_keys_are_looked_up_and_never_made_into_paths(
    client: TestClient, page: str, key: str
) -> None:
    answer = client.get(f"/api/{page}", params={"key": key})
    assert answer.status_code == 404 and "There is no" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("groups?run=careful&split=train&step=-1", "step: '-1' is no whole number from 0"),
        ("groups?run=careful&split=train&step=" + "9" * 30, "is no whole number"),
        ("groups?run=careful&split=other&step=1", "split: one of train, eval would be right"),
        ("groups?run=careful&split=train&step=1&sort=nothing", "sort: one of task, size"),
        ("groups?run=careful&split=train&step=1&only=nothing", "only: one of varied"),
        ("groups?run=careful&split=train&step=1&after=nothing", ""),
        ("groups?run=careful&split=train", "There is no such step"),
        ("search?low=abc", "low: 'abc' is no number"),
        ("search?low=nan", "low: 'nan' is no number"),
        ("search?q=" + "a" * 3000, "q: 2000 characters at most"),
        ("search?error=nothing", "error: tool or format would be right"),
        ("steps", "run: it is missing"),
        ("task?task=x", "bundle: it is missing"),
    ],
)
def test_what_can_not_be_asked_is_said_in_a_sentence(
    client: TestClient, path: str, said: str
) -> None:
    answer = client.get(f"/api/{path}")
    assert 400 <= answer.status_code < 500
    assert said in answer.json()["detail"]


# ---------------------------------------------------------------- elsewhere than on this machine


def test_data_needs_the_token_and_the_page_holds_none(guarded: TestClient) -> None:
    for path in ("/api/runs", "/api/live", "/api/image?hash=0", "/api/nothing"):
        assert guarded.get(path).status_code == 401
        wrong = {"Authorization": "Bearer wrong"}
        assert guarded.get(path, headers=wrong).status_code == 401
    given = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.get("/api/runs", headers=given).status_code == 200
    assert guarded.get("/").status_code == guarded.get("/static/app.js").status_code == 200


def test_a_name_that_another_site_controls_is_refused_even_with_the_token(
    guarded: TestClient,
) -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example:8765"}
    assert guarded.get("/api/runs", headers=given).status_code == 403


def test_addresses_are_no_names_of_other_sites() -> None:
    names = Names(("here",), any_address=True, any_port=True)
    assert all(
        names.allow(host, 1) for host in ("here:2", "192.0.2.7:3", "[2001:db8::1]:4", "[::1]")
    )
    assert not any(
        names.allow(host, 1) for host in ("there:2", "192.0.2.7.x:3", "2001:db8::1:y", "")
    )


# ---------------------------------------------------------------- the page's source

STATIC = Path(create_app.__code__.co_filename).parent / "static"
MODULES = sorted(STATIC.rglob("*.js"))
BANNED = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b\(|new Function|DOMParser|"
    r"createContextualFragment|setHTML|srcdoc|javascript:|\bon[a-z]+\s*=\s*[\"']|import\(|"
    r"setAttribute\(\s*[\"'](style|on)"
)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_no_module_makes_markup_or_code_of_text(module: Path) -> None:
    source = module.read_text(encoding="utf-8")
    assert BANNED.findall(source) == []
    assert len(source.splitlines()) < 250
    asked = [url for url in re.findall(r"https?://[^\s\"'`]+", source)]
    assert set(asked) <= {"http://www.w3.org/2000/svg"}


def test_the_shell_has_no_inline_script_or_style() -> None:
    shell = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", shell) == []
    assert set(re.findall(r'(?:src|href)="([^"#]+)"', shell)) == {
        "/static/icon.svg", "/static/app.css", "/static/app.js", "/search",
    }  # fmt: skip
    styles = (STATIC / "app.css").read_text(encoding="utf-8")
    assert "url(" not in styles and "@import" not in styles
