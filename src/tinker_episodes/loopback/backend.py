"""The server without HTTP: its model, its worker, and the state that requests change."""

import contextlib
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from tinker_episodes.loopback.config import LoopbackConfig, model_name
from tinker_episodes.loopback.engine import Engine
from tinker_episodes.loopback.errors import ApiError, LoopbackError, not_found
from tinker_episodes.loopback.futures import Future, Futures, Reply
from tinker_episodes.loopback.model import Shape, Transformer
from tinker_episodes.loopback.prefixes import Prefixes
from tinker_episodes.loopback.replies import failure
from tinker_episodes.loopback.samplers import BASE, ModelCache, Sampler, Weights
from tinker_episodes.loopback.sessions import Session, Sessions
from tinker_episodes.loopback.vocabulary import Vocabulary, read_vocabulary
from tinker_episodes.loopback.weights import Snapshots, WeightStore
from tinker_episodes.loopback.worker import Worker

logger = logging.getLogger(__name__)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Backend:
    """All parts of a server."""

    seed: int
    model_name: str
    vocabulary: Vocabulary
    base: Transformer
    sessions: Sessions
    futures: Futures
    store: WeightStore
    snapshots: Snapshots
    models: ModelCache
    prefixes: Prefixes
    worker: Worker

    def check_base_model(self, name: str | None) -> None:
        """Refuse a model that is not the one that is served."""
        if name is not None and name != self.model_name:
            raise not_found(f"base model {name!r} (it serves {self.model_name!r})")

    def base_weights(self) -> Weights:
        """The untrained model's."""
        return Weights(BASE, dict)

    def saved_weights(self, path: str) -> Weights:
        """Those that a client's path names."""
        checkpoint = self.store.find(path)
        return Weights(checkpoint.file, lambda: self.store.load(checkpoint))

    def kept_weights(self, key: str) -> Weights:
        """Those of a snapshot."""
        return Weights(key, lambda: self.snapshots.read(key))

    def add_sampler(
        self, session: Session, number: int, weights: Weights, *, path: str | None = None
    ) -> Sampler:
        """A sampler of a session; asking again for the same number gives the same one."""
        sampler_id = f"{session.id}:sample:{number}"
        return session.add_sampler(Sampler(sampler_id, session.id, number, path, weights))

    def attempt(self, future: Future, work: Callable[[], Reply]) -> None:
        """Keep a promise with what `work` gives, or with its failure."""
        try:
            reply = work()
        except Exception as error:  # noqa: BLE001  # the client is told, and the server lives on
            reply = self.failed(error)
        self.futures.resolve(future, reply)

    def failed(self, error: Exception) -> Reply:
        """What a client is told of a failure."""
        if not isinstance(error, ApiError):
            logger.error("a request failed", exc_info=error)
        return failure(error)

    def end_session(self, session_id: str) -> None:
        """Free all that a session has here."""
        session = self.sessions.close(session_id)
        if session is None:
            return
        self.futures.end_session(session_id)
        for run in session.runs.values():
            run.trainer = None
            for key in run.snapshots:
                self.drop_snapshot(key)
        if not len(self.sessions):
            self.worker.run(self.models.clear)
            self.worker.run(self.prefixes.clear)

    def drop_snapshot(self, key: str) -> None:
        """Forget weights that no sampler is to use any more."""
        self.snapshots.drop(key)
        self.worker.run(lambda: self.models.drop(key))

    def sweep(self) -> None:
        """Free what has expired."""
        for session in self.sessions.silent():
            logger.info("session %s fell silent; it is freed", session.id)
            self.end_session(session.id)
        self.futures.sweep()
        self.store.sweep()


def make_backend(
    config: LoopbackConfig, cleanup: contextlib.ExitStack, *, now: Clock = time.time
) -> Backend:
    """Build a server's parts; `cleanup` removes its temporary folders."""
    name = str(Path(config.model).expanduser().resolve()) if config.model else model_name()
    vocabulary = read_vocabulary(Path(name))
    torch.set_num_threads(config.threads or torch.get_num_threads())
    base = Transformer(_shape(config, vocabulary), config.seed)
    scratch = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="loopback-")))
    root = Path(config.root).expanduser() if config.root else scratch / "weights"
    (scratch / "snapshots").mkdir()
    prefixes = Prefixes()
    return Backend(
        seed=config.seed,
        model_name=name,
        vocabulary=vocabulary,
        base=base,
        sessions=Sessions(now, config.session_timeout_s),
        futures=Futures(now),
        store=WeightStore(root, now),
        snapshots=Snapshots(scratch / "snapshots"),
        models=ModelCache(base),
        prefixes=prefixes,
        worker=Worker(Engine(vocabulary.token_bytes, prefixes)),
    )


def _shape(config: LoopbackConfig, vocabulary: Vocabulary) -> Shape:
    width, heads = config.width, config.heads
    if heads < 1 or width < 1 or width % (2 * heads):
        raise LoopbackError(f"width {width} is not a multiple of twice {heads} heads")
    if config.layers < 1:
        raise LoopbackError(f"a model has at least one layer, not {config.layers}")
    return Shape(vocabulary.size, width, config.layers, heads)
