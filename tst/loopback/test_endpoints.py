"""Every endpoint that the installed SDK calls is served, or refused with a reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tinker

from tinker_episodes.loopback.api.refused import REFUSED

from .conftest import LocalServer

_PREFIX = "/api/v1"
Endpoint = tuple[str, str]

SERVED: set[Endpoint] = {
    ("GET", "/checkpoints"),
    ("GET", "/get_server_capabilities"),
    ("GET", "/healthz"),
    ("GET", "/samplers/{}"),
    ("GET", "/sessions"),
    ("GET", "/sessions/{}"),
    ("GET", "/training_runs"),
    ("GET", "/training_runs/{}"),
    ("GET", "/training_runs/{}/checkpoints"),
    ("DELETE", "/training_runs/{}/checkpoints/{}"),
    ("DELETE", "/training_runs/{}/checkpoints/{}/publish"),
    ("POST", "/asample"),
    ("POST", "/cancel_future"),
    ("POST", "/client/config"),
    ("POST", "/client/dynamic_config"),
    ("POST", "/create_model"),
    ("POST", "/create_sampling_session"),
    ("POST", "/create_session"),
    ("POST", "/forward_backward"),
    ("POST", "/get_info"),
    ("POST", "/join_sampling_session"),
    ("POST", "/load_weights"),
    ("POST", "/optim_step"),
    ("POST", "/retrieve_future"),
    ("POST", "/retrieve_futures"),
    ("POST", "/save_weights"),
    ("POST", "/save_weights_external"),  # its operation is refused, in its turn
    ("POST", "/save_weights_for_sampler"),
    ("POST", "/session_heartbeat"),
    ("POST", "/sessions/{}/finish"),
    ("POST", "/telemetry"),
    ("POST", "/training_runs/{}/checkpoints/{}/publish"),
    ("POST", "/weights_info"),
    ("PUT", "/training_runs/{}/checkpoints/{}/ttl"),
}


def called(tree: ast.AST) -> Iterator[Endpoint]:
    """The endpoints that a module calls: `client.verb(path, …)` or `request(verb, path, …)`."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        texts = [text_of(argument) for argument in node.args]
        for place, text in enumerate(texts):
            if text is not None and text.startswith(_PREFIX):
                verb = texts[place - 1] if place else node.func.attr.strip("_")
                yield str(verb).upper(), text.removeprefix(_PREFIX)


def text_of(node: ast.AST) -> str | None:
    """A literal's text, with `{}` where it is formatted."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "{}" for part in node.values)
    return None


def sdk_modules() -> list[Path]:
    folder = Path(tinker.__file__).parent
    return [path for path in folder.rglob("*.py") if not path.name.endswith("_test.py")]


def test_every_endpoint_of_the_sdk_is_served_or_refused() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in sdk_modules()]
    endpoints = {endpoint for tree in trees for endpoint in called(tree)}
    refused = {(method, re.sub(r"\{[^}]*\}", "{}", path)) for method, path in REFUSED}
    assert endpoints == SERVED | refused


def test_every_path_of_the_sdk_is_in_a_call_that_is_understood() -> None:
    """A call in a form that `called` does not know would go unnoticed above."""
    for path in sdk_modules():
        tree = ast.parse(path.read_text("utf-8"))
        literals = [text_of(node) for node in ast.walk(tree)]
        paths = {
            text.removeprefix(_PREFIX) for text in literals if text and text.startswith(_PREFIX)
        }
        whole = {endpoint for _, endpoint in called(tree)}
        assert all(any(one.startswith(part) for one in whole) for part in paths), path


@pytest.mark.parametrize(("method", "path"), sorted(SERVED))
def test_a_served_endpoint_is_there(local: LocalServer, method: str, path: str) -> None:
    answer = local.client.request(method, _PREFIX + path.replace("{}", "nobody"), json={})
    assert "loopback server has no" not in answer.text and "not serve" not in answer.text
    assert answer.status_code < 500


@pytest.mark.parametrize(("method", "path"), sorted(REFUSED))
def test_a_refused_endpoint_says_why(local: LocalServer, method: str, path: str) -> None:
    url = _PREFIX + path.replace("{checkpoint_id:path}", "weights/some")
    answer = local.client.request(method, re.sub(r"\{[^}]*\}", "some", url))
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        f"the loopback server does not serve {method} {answer.url.path}: {REFUSED[method, path]}"
    )
