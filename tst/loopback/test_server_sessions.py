"""What stays and what goes: sessions, results, snapshots, saved weights."""

import contextlib
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tinker_episodes.loopback.futures import FETCHED_TTL_S, UNFETCHED_TTL_S
from tinker_episodes.loopback.prefixes import SHORTEST

from .conftest import LocalServer
from .test_server_hostile import pass_request


def scratch_files(local: LocalServer) -> list[Path]:
    return list(local.backend.snapshots._folder.iterdir())


def save_unnamed(local: LocalServer, model_id: str, seq_id: int) -> str:
    request_id = local.operate(
        "save_weights_for_sampler", model_id, seq_id, sampling_session_seq_id=seq_id
    )
    return local.result(request_id).json()["sampling_session_id"]


def test_a_client_that_dies_leaves_nothing(local: LocalServer) -> None:
    session = local.session()
    model_id = local.model(session)
    sampler_id = save_unnamed(local, model_id, 1)
    running = local.sample(sampler_id, 0, [1, 2, 3], max_tokens=30_000, stop=[]).json()
    local.operate("optim_step", model_id, 4, adam_params={})
    assert len(local.backend.futures) > 2 and scratch_files(local)
    local.clock.time_s += 301
    local.backend.sweep()
    assert len(local.backend.sessions) == 0
    assert len(local.backend.futures) == 0
    assert scratch_files(local) == []
    assert local.result(running["request_id"]).status_code == 410
    answer = local.sample(sampler_id, 1, [1, 2, 3])
    assert answer.status_code == 410
    assert "sends nothing for 300 s" in answer.json()["detail"]


def drain(local: LocalServer) -> None:
    """Return when the worker has done what it has been given, and sampled a little."""
    for _ in range(3):
        done = threading.Event()
        local.backend.worker.run(done.set)
        assert done.wait(60)


def test_no_model_cache_or_sample_outlives_the_last_session(local: LocalServer) -> None:
    session = local.session()
    samplers = [local.sampler(session), save_unnamed(local, local.model(session), 1)]
    for sampler_id in samplers:
        long = local.sample(sampler_id, 0, [5] * SHORTEST, max_tokens=2, stop=[]).json()
        local.result(long["request_id"])
        local.sample(sampler_id, 1, [5], max_tokens=30_000, stop=[])
    drain(local)
    backend = local.backend
    assert (len(backend.prefixes), len(backend.models._models)) == (2, 1)
    assert backend.worker._engine.busy
    backend.end_session(session)
    drain(local)
    assert (len(backend.prefixes), len(backend.models._models)) == (0, 0)
    assert not backend.worker._engine.busy


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """No file of this process can grow beyond some bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_weights_that_find_no_room_are_an_error_and_leave_nothing(local: LocalServer) -> None:
    model_id = local.model(local.session())
    with no_room():
        named = local.operate("save_weights", model_id, 1, path="x")
        unnamed = local.operate("save_weights_for_sampler", model_id, 2, sampling_session_seq_id=1)
        failed = [local.result(request_id).json() for request_id in (named, unnamed)]
    assert all("the weights can't be saved" in one["error"] for one in failed)
    assert scratch_files(local) == list(local.backend.store._folder.iterdir()) == []
    saved = local.result(local.operate("save_weights", model_id, 3, path="x")).json()
    assert saved["path"].endswith("/weights/x")


def test_weights_that_are_spoilt_sample_an_error(local: LocalServer) -> None:
    model_id = local.model(local.session())
    weights = local.backend.sessions.run(model_id).trainer.model.embedding.weight
    weights.data.fill_(float("nan"))
    sampler_id = save_unnamed(local, model_id, 1)
    request_id = local.sample(sampler_id, 0, [1], max_tokens=3).json()["request_id"]
    failed = local.result(request_id).json()
    assert "not finite any more" in failed["error"] and failed["category"] == "user"


def test_a_heartbeat_keeps_a_session(local: LocalServer) -> None:
    session = local.session()
    for _ in range(5):
        local.clock.time_s += 200
        local.backend.sweep()
        assert local.post("session_heartbeat", session_id=session).status_code == 200
    assert len(local.backend.sessions) == 1


def test_a_finished_session_is_over_at_once(local: LocalServer) -> None:
    session = local.session()
    model_id = local.model(session)
    finish = local.post(f"sessions/{session}/finish", reason={"type": "success"}, detail=None)
    assert finish.status_code == 204
    assert local.post("session_heartbeat", session_id=session).status_code == 410
    assert local.post("get_info", model_id=model_id).status_code == 410


def test_other_sessions_stay_when_one_ends(local: LocalServer) -> None:
    first, second = local.session(), local.session()
    model_id = local.model(second)
    local.backend.end_session(first)
    request_id = local.operate("optim_step", model_id, 1, adam_params={})
    assert "metrics" in local.result(request_id).json()


def test_results_go_some_time_after_they_were_fetched(local: LocalServer) -> None:
    sampler_id = local.sampler(local.session())
    request_id = local.sample(sampler_id, 0, [1], max_tokens=1).json()["request_id"]
    first = local.result(request_id)
    assert first.status_code == 200
    assert local.result(request_id).content == first.content
    local.clock.time_s += FETCHED_TTL_S + 1
    local.backend.futures.sweep()
    assert local.result(request_id).status_code == 410


def test_results_that_nobody_fetches_go_too(local: LocalServer) -> None:
    sampler_id = local.sampler(local.session())
    request_id = local.sample(sampler_id, 0, [1], max_tokens=1).json()["request_id"]
    local.result(local.sample(sampler_id, 1, [1], max_tokens=1).json()["request_id"])
    local.clock.time_s += UNFETCHED_TTL_S + 1
    local.backend.futures.sweep()
    assert local.result(request_id).status_code == 410


def test_a_repeated_request_is_carried_out_once(local: LocalServer) -> None:
    session = local.session()
    model_id, sampler_id = local.model(session), local.sampler(session)
    first = local.sample(sampler_id, 7, [1], max_tokens=3).json()
    assert local.sample(sampler_id, 7, [1], max_tokens=3).json() == first
    once = local.operate("optim_step", model_id, 1, adam_params={})
    assert local.operate("optim_step", model_id, 1, adam_params={}) == once
    assert (
        "metrics" in local.result(local.operate("optim_step", model_id, 2, adam_params={})).json()
    )


def test_operations_that_arrive_out_of_order_run_in_order(local: LocalServer) -> None:
    model_id = local.model(local.session())
    later = local.operate("save_weights", model_id, 3, path="three")
    middle = local.operate("optim_step", model_id, 2, adam_params={})
    assert local.backend.futures.find(later).reply is None
    first = local.operate("save_weights", model_id, 1, path="one")
    for request_id in (first, middle, later):
        assert local.result(request_id).status_code == 200
    saved = sorted(local.backend.store.all(), key=lambda checkpoint: checkpoint.file)
    assert {checkpoint.name for checkpoint in saved} == {"one", "three"}
    again = local.post("optim_step", model_id=model_id, seq_id=2, adam_params={})
    assert again.json()["request_id"] == middle


def test_only_so_many_unnamed_weights_of_a_run_are_kept(local: LocalServer) -> None:
    model_id = local.model(local.session())
    samplers = [save_unnamed(local, model_id, seq) for seq in range(1, 71)]
    assert len(scratch_files(local)) == 64
    gone = local.sample(samplers[0], 0, [1], max_tokens=1).json()["request_id"]
    assert "weights are gone" in local.result(gone).json()["error"]
    kept = local.sample(samplers[-1], 0, [1], max_tokens=1).json()["request_id"]
    assert local.result(kept).headers["content-type"] == "application/x-protobuf"


def test_weights_expire_with_their_ttl(local: LocalServer) -> None:
    model_id = local.model(local.session())
    request_id = local.operate("save_weights", model_id, 1, path="short", ttl_seconds=3600)
    path = local.result(request_id).json()["path"]
    assert local.post("weights_info", tinker_path=path).status_code == 200
    local.clock.time_s += 3601
    assert local.post("weights_info", tinker_path=path).status_code == 404
    local.backend.sweep()
    assert list(local.backend.store._folder.iterdir()) == []


def test_a_ttl_that_is_too_short_is_refused(local: LocalServer) -> None:
    model_id = local.model(local.session())
    request_id = local.operate("save_weights", model_id, 1, path="short", ttl_seconds=60)
    assert "is not from 3600 s to 10 years" in local.result(request_id).json()["error"]
    assert list(local.backend.store._folder.iterdir()) == []


def test_saved_weights_outlive_the_server(local_server: Callable[..., LocalServer]) -> None:
    before = local_server()
    model_id = before.model(before.session())
    body = pass_request(model_id, 1).SerializeToString()
    before.client.post("/api/v1/forward_backward", content=body)
    before.operate("optim_step", model_id, 2, adam_params={"learning_rate": 0.1})
    request_id = before.operate("save_weights", model_id, 3, path="kept")
    path = before.result(request_id).json()["path"]
    after = local_server()
    session = after.session()
    body = {"session_id": session, "model_seq_id": 0, "path": path, "optimizer": True}
    loaded = after.post("load_weights", **body).json()
    assert after.result(loaded["request_id"]).json()["model_id"] == f"{session}:train:0"
    ours, theirs = (
        one.backend.sessions.run(run_id).trainer.state(optimizer=True)
        for one, run_id in ((before, model_id), (after, f"{session}:train:0"))
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert after.client.get(f"/api/v1/training_runs/{model_id}").status_code == 200


def test_weights_of_another_shape_are_refused(local_server: Callable[..., LocalServer]) -> None:
    before = local_server()
    model_id = before.model(before.session())
    request_id = before.operate("save_weights", model_id, 1, path="narrow")
    path = before.result(request_id).json()["path"]
    wider = local_server(width=16)
    body = {"session_id": wider.session(), "model_seq_id": 0, "path": path, "optimizer": False}
    loaded = wider.post("load_weights", **body).json()
    assert "another shape" in wider.result(loaded["request_id"]).json()["error"]


def test_a_cancelled_sample_frees_its_slot(local: LocalServer) -> None:
    sampler_id = local.sampler(local.session())
    long = local.sample(sampler_id, 0, [1], max_tokens=30_000, stop=[]).json()["request_id"]
    assert local.post("cancel_future", request_id=long).status_code == 204
    assert local.result(long).status_code == 410
    short = local.sample(sampler_id, 1, [1], max_tokens=1).json()["request_id"]
    assert local.result(short).status_code == 200


def test_a_sampling_client_learns_what_ended(local: LocalServer) -> None:
    sampler_id = local.sampler(local.session())
    ids = [local.sample(sampler_id, seq, [1], max_tokens=2).json()["request_id"] for seq in (0, 1)]
    target = {"type": "sampling_session", "sampling_session_id": sampler_id}
    seen: set[str] = set()
    cursor = 0
    while len(seen) < 2:
        answer = local.post("retrieve_futures", target=target, prev_cursor=cursor).json()
        assert answer["cursor"] > cursor
        cursor = answer["cursor"]
        seen |= {completion["request_id"] for completion in answer["completions"]}
        assert {completion["state"] for completion in answer["completions"]} == {"finished"}
    assert seen == set(ids)
    body = {"target": target, "prev_cursor": cursor, "timeout": 0, "retrieved_request_ids": ids}
    assert local.post("retrieve_futures", **body).json() == {"completions": [], "cursor": cursor}
    assert local.result(ids[0]).status_code == 410


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", ".x", "x" * 300, "a\x00b"])
def test_names_that_could_be_paths_are_refused(local: LocalServer, name: str) -> None:
    model_id = local.model(local.session())
    request_id = local.operate("save_weights", model_id, 1, path=name)
    assert "can't name weights" in local.result(request_id).json()["error"]
