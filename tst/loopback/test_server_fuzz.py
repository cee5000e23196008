"""Whatever a request holds, the answer is a result or a refusal, and never the server's own fault.

The examples are the same in every run; LOOPBACK_FUZZ=5000 tries so many others.
"""

import contextlib
import copy
import json
import os
import threading
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinker.proto import tinker_public_pb2 as wire

from .conftest import LocalServer
from .test_server_hostile import pass_request

EXAMPLES = os.environ.get("LOOPBACK_FUZZ")
FUZZ = settings(
    max_examples=int(EXAMPLES or 150),
    derandomize=EXAMPLES is None,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

NUMBERS = st.sampled_from([-1, 0, 1, 2, 5, 40, 2**31, 2**63, 2**64, -(2**70), 0.5, -0.0, 1e308])
TEXTS = st.sampled_from(["", "..", "a/b", "\x00", "\ud800", "cross_entropy", "x" * 5_000, "1"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def bodies(session: str, model: str, sampler: str, name: str, path: str) -> dict[str, Any]:
    """A right request to every endpoint that takes JSON."""
    chunk = {"type": "encoded_text", "tokens": [1, 2, 3]}
    return {
        "asample": {
            "sampling_session_id": sampler,
            "prompt": {"chunks": [chunk]},
            "num_samples": 2,
            "sampling_params": {"max_tokens": 3, "temperature": 0.5, "top_k": 3, "top_p": 0.9},
            "prompt_logprobs": True,
            "topk_prompt_logprobs": 2,
            "topk_sample_logprobs": 2,
            "prompt_alt_tokens_k": 2,
            "target_prompt_logprobs": {"data": [1, 2], "dtype": "int64", "shape": [2, 1]},
        },
        "create_model": {"session_id": session, "model_seq_id": 7, "base_model": name},
        "create_sampling_session": {
            "session_id": session,
            "sampling_session_seq_id": 3,
            "base_model": name,
            "model_path": path,
        },
        "join_sampling_session": {"sampling_session_id": sampler},
        "get_info": {"model_id": model},
        "optim_step": {"model_id": model, "adam_params": {"learning_rate": 0.1, "beta1": 0.5}},
        "save_weights": {"model_id": model, "path": "x", "ttl_seconds": 4_000, "overwrite": True},
        "save_weights_for_sampler": {"model_id": model, "sampling_session_seq_id": 1},
        "load_weights": {"model_id": model, "path": path, "optimizer": True},
        "weights_info": {"tinker_path": path},
        "session_heartbeat": {"session_id": session},
        "create_session": {"tags": ["a"], "user_metadata": {"a": "b"}, "sdk_version": "0"},
        "retrieve_future": {"request_id": "x"},
        "cancel_future": {"request_id": "x"},
        "retrieve_futures": {
            "target": {"type": "sampling_session", "sampling_session_id": sampler},
            "prev_cursor": 0,
            "timeout": 0,
        },
        "telemetry": {"events": []},
        "client/config": {"sdk_version": "0"},
    }


@st.composite
def spoilt(draw: st.DrawFn, body: Any) -> Any:
    """A body with one or two of its parts replaced, dropped or added."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 2))):
        part, parents = body, []
        while isinstance(part, dict | list) and part and (not parents or draw(st.booleans())):
            keys = sorted(part) if isinstance(part, dict) else list(range(len(part)))
            parents.append((part, draw(st.sampled_from(keys))))
            part = parents[-1][0][parents[-1][1]]
        holder, key = parents[-1]
        change = draw(st.sampled_from(["replace", "drop", "add"]))
        if change == "add" and isinstance(holder, dict):
            holder[draw(TEXTS)] = draw(VALUES)
        elif change == "drop":
            del holder[key]
        else:
            holder[key] = draw(VALUES)
        if not body:
            break
    return body


def check(local: LocalServer, answer: Any) -> None:
    """The answer is a result, or says what is wrong; so does what it promises."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert isinstance(answer.json()["detail"], str)
    elif answer.content and "request_id" in (fields := answer.json()) and "type" not in fields:
        done = threading.Event()
        local.backend.worker.run(done.set)
        assert done.wait(60)
        future = local.backend.futures.find(fields["request_id"])
        if future is not None and (future.target is not None or future.reply is not None):
            reply = local.result(fields["request_id"])
            failed = reply.headers["content-type"] == "application/json" and reply.json()
            assert not failed or failed.get("category") != "server", reply.text


def test_spoilt_json_is_answered_or_refused(
    local: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = local.session()
    model, sampler = local.model(session), local.sampler(session)
    saved = local.result(local.operate("save_weights", model, 1, path="some")).json()["path"]
    monkeypatch.setattr("tinker_episodes.loopback.api.sampling._PATIENCE_S", 0.01)
    given_bodies = bodies(session, model, sampler, local.backend.model_name, saved)

    @FUZZ
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        endpoint = data.draw(st.sampled_from(sorted(given_bodies)))
        body = data.draw(spoilt(given_bodies[endpoint]))
        content = _encode(body)
        check(local, local.client.post(f"/api/v1/{endpoint}", content=content))

    ask()
    for endpoint, body in given_bodies.items():
        answer = local.client.post(f"/api/v1/{endpoint}", content=_encode(body))
        assert answer.status_code in (200, 204, 410), (endpoint, answer.text)
        check(local, answer)


def test_spoilt_passes_are_answered_or_refused(local: LocalServer) -> None:
    model = local.model(local.session())
    run = local.backend.sessions.run(model)
    whole = pass_request(model).SerializeToString()

    @FUZZ
    @given(
        st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=6),
        st.integers(0, len(whole)),
        st.binary(max_size=6),
    )
    def ask(changes: list[tuple[int, int]], cut: int, added: bytes) -> None:
        content = bytearray(whole)
        for place, value in changes:
            content[place] = value
        content = bytes(content[:cut] if cut % 3 == 0 else content) + added
        with contextlib.suppress(DecodeError):  # in its turn, so that it is carried out
            request = wire.ForwardBackwardRequest.FromString(content)
            request.model_id, request.seq_id = model, run.next_seq
            content = request.SerializeToString()
        check(local, local.client.post("/api/v1/forward_backward", content=content))

    ask()
    last = pass_request(model, run.next_seq).SerializeToString()
    answer = local.client.post("/api/v1/forward_backward", content=last)
    reply = local.result(answer.json()["request_id"])
    assert wire.ForwardBackwardOutput.FromString(reply.content).metrics["loss:sum"] > 0


def _encode(body: Any) -> bytes:
    return json.dumps(body).encode()
