"""One loopback server for all tests of this folder, and clients of it."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tinker
from tinker import types
from transformers import PreTrainedTokenizerBase

from tinker_episodes import loopback
from tinker_episodes.loopback.config import LoopbackConfig

with warnings.catch_warnings():
    # It asks for httpx2, which the SDK does not use either.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

PORT = 8123
"""The port that in-process servers believe they listen on."""


def pytest_configure(config: pytest.Config) -> None:
    """The SDK leaves sockets to the garbage collector; the host calls what it has deprecated."""
    for ignored in (
        "ignore:Using the future as the SamplingClient is deprecated:FutureWarning",
        "ignore:DEPRECATED. .*Client:FutureWarning",
        "ignore:unclosed <socket:ResourceWarning",
        "ignore:unclosed transport:ResourceWarning",
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
        "ignore:Exception ignored in. <.*_SelectorSocket:pytest.PytestUnraisableExceptionWarning",
    ):
        config.addinivalue_line("filterwarnings", ignored)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of one server that the tests share."""
    with loopback.serve(threads=1) as url:
        yield url


@pytest.fixture
def service(server: str) -> Iterator[tinker.ServiceClient]:
    """A client of the shared server, with a session of its own."""
    client = tinker.ServiceClient(base_url=server)
    yield client
    client.close("success").result()


@pytest.fixture
def training(service: tinker.ServiceClient) -> tinker.TrainingClient:
    """A new run on the shared server."""
    return service.create_lora_training_client(base_model=loopback.model_name(), rank=8).result()


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    """The shipped tokenizer, as the cookbook loads it."""
    from tinker_cookbook.tokenizer_utils import get_tokenizer

    return get_tokenizer(loopback.model_name())


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tokenizer of 300 tokens, for servers that start fast and train fast."""
    from tinker_episodes.loopback.tokenizer_training import train_tokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(["a few words and a few more words"] * 4, folder, vocab_size=300)
    return str(folder)


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.time_s = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time_s


class LocalServer:
    """A server in this process: its HTTP client, its state, and its clock."""

    def __init__(self, client: TestClient, clock: Clock) -> None:
        self.client = client
        self.backend = client.app.state.backend
        self.clock = clock

    def post(self, endpoint: str, /, **body: object):
        return self.client.post(f"/api/v1/{endpoint}", json=body)

    def result(self, request_id: str):
        return self.post("retrieve_future", request_id=request_id)

    def session(self) -> str:
        body = {"tags": [], "user_metadata": None, "sdk_version": "0"}
        return self.post("create_session", **body).json()["session_id"]

    def model(self, session_id: str, number: int = 0) -> str:
        name = self.backend.model_name
        answer = self.post(
            "create_model", session_id=session_id, model_seq_id=number, base_model=name
        )
        request_id = answer.json()["request_id"]
        assert self.result(request_id).status_code == 200
        return answer.json()["model_id"]

    def operate(self, endpoint: str, model_id: str, seq_id: int, /, **body: object) -> str:
        answer = self.post(endpoint, model_id=model_id, seq_id=seq_id, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()["request_id"]

    def sampler(self, session_id: str, number: int = 0) -> str:
        answer = self.post(
            "create_sampling_session",
            session_id=session_id,
            sampling_session_seq_id=number,
            base_model=self.backend.model_name,
        )
        return answer.json()["sampling_session_id"]

    def sample(self, sampler_id: str, seq_id: int, prompt: list[int], **params: object):
        request = types.SampleRequest(
            sampling_session_id=sampler_id,
            seq_id=seq_id,
            prompt=types.ModelInput.from_ints(prompt),
            sampling_params=types.SamplingParams(**params),
        )
        return self.client.post("/api/v1/asample", json=request.model_dump(exclude_none=True))


@pytest.fixture
def local_server(small_model: str, tmp_path: Path) -> Iterator[Callable[..., LocalServer]]:
    """Makes servers in this process, with a clock that the test moves."""
    with contextlib.ExitStack() as stack:

        def make(**fields: object) -> LocalServer:
            clock = Clock()
            options = {"port": PORT, "model": small_model, "width": 8, "layers": 1, "threads": 1}
            options |= {"root": str(tmp_path / "weights")} | fields
            app = loopback.create_app(LoopbackConfig(**options), now=clock)
            client = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
            return LocalServer(stack.enter_context(client), clock)

        yield make


@pytest.fixture
def local(local_server: Callable[..., LocalServer]) -> LocalServer:
    """A server in this process."""
    return local_server()
