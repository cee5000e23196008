"""The server's own process, as `serve` starts it: a configuration in, an address out.

It ends when its stdin does, which is when the process that started it stops it or dies.
"""

import json
import os
import signal
import sys
import threading

from tinker_episodes.loopback.config import LoopbackConfig
from tinker_episodes.loopback.errors import LoopbackError
from tinker_episodes.loopback.server import run_server

_PARENT_CHECK_S = 1.0
_GRACE_S = 5.0


def main() -> int:
    """Serve until the parent is gone."""
    config = LoopbackConfig(**json.loads(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    try:
        run_server(config, lambda url: _say(url=url))
    except LoopbackError as error:
        _say(error=str(error))
        return 1
    return 0


def _say(**message: str) -> None:
    print(json.dumps(message), flush=True)


def _watch_parent(parent: int) -> None:
    """Stop the server once the parent closed our stdin, or is no longer our parent."""
    ended = threading.Event()
    threading.Thread(target=_read_to_end, args=(ended,), daemon=True).start()
    while not ended.wait(_PARENT_CHECK_S) and os.getppid() == parent:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    # A computation that holds the server up does not keep the process alive.
    threading.Event().wait(_GRACE_S)
    os._exit(0)


def _read_to_end(ended: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
