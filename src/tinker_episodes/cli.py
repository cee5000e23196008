"""The command line: `tinker-episodes COMMAND [ARGUMENT] [key=value …]`, in the cookbook's own
style.

A user's mistake ends with one message on standard error and exit code 2, never with a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import chz
from chz.blueprint import (
    ConstructionException,
    EntrypointHelpException,
    ExtraneousBlueprintArg,
    InvalidBlueprintArg,
    MissingBlueprintArg,
)

from tinker_episodes.errors import BundleError, EpisodesError

CommandClass = type[Any]

_WRONG_SETTINGS = (
    ConstructionException,
    ExtraneousBlueprintArg,
    InvalidBlueprintArg,
    MissingBlueprintArg,
)


@chz.chz
class Check:
    """Read a bundle, report every fault with its file and place, and open and score one episode of
    every task.

    It runs the bundle's code.
    """

    bundle: str
    """An installed bundle's name, `./folder`, or `package.module:NAME`."""
    reward: str | None = None
    """The scorer whose value is the reward; default: the bundle's, or the only one."""


@chz.chz
class Runs:
    """The runs of a run index as a table."""

    path: str = "."
    """A folder that holds `episodes.db`, a run's log path, a database file, or a database URL."""


@chz.chz
class Steps:
    """One run step by step: rewards, success, cuts and failures."""

    path: str
    """The run's log path, or its name; then give `index`."""
    index: str | None = None
    """Where the index is, as in `runs`; default: beside the log path."""


@chz.chz
class Show:
    """One rollout: what was said and done, and how it was scored."""

    rollout: str
    """The rollout's key, or its first characters."""
    index: str = "."
    """Where the index is, as in `runs`."""


@chz.chz
class Export:
    """One run's rollouts as JSON lines: what was said, called and scored, with tokens and logprobs.

    docs/index.md tells what stands in a line.
    """

    path: str
    """The run's log path, or its name; then give `index`."""
    to: str
    """The file to write. It is replaced once the new one is whole."""
    index: str | None = None
    """Where the index is, as in `runs`; default: beside the log path."""
    superseded: bool = False
    """Whether rollouts are written too that a later attempt's stand in for."""


def check(config: Check) -> int:
    """Print what is wrong with a bundle; 0 where nothing is."""
    from tinker_episodes.bundle import find_bundle
    from tinker_episodes.bundle.checking import check_bundle

    bundle = find_bundle(config.bundle)
    problems = check_bundle(bundle, reward=config.reward)
    if problems:
        raise BundleError(config.bundle, problems)
    tasks, evals = len(bundle.tasks), ", ".join(bundle.evals) or "none"
    print(f"bundle {bundle.name} {bundle.version} is well")
    print(f"  {tasks} tasks opened and scored; evals: {evals}; content {bundle.content_hash[:12]}")
    return 0


def runs(config: Runs) -> int:
    """Print the runs of an index."""
    from tinker_episodes.terminal import print_runs

    return print_runs(config.path)


def steps(config: Steps) -> int:
    """Print the steps of a run."""
    from tinker_episodes.terminal import print_steps

    return print_steps(config.path, config.index)


def show(config: Show) -> int:
    """Print a rollout."""
    from tinker_episodes.terminal import print_rollout

    return print_rollout(config.rollout, config.index)


def export(config: Export) -> int:
    """Write a run's rollouts into a file."""
    from tinker_episodes.terminal import export

    return export(config.path, config.to, config.index, superseded=config.superseded)


def _explore_class() -> CommandClass:
    from tinker_episodes.explorer.config import Explore

    return Explore


def _explore(config: Any) -> int:
    from tinker_episodes.explorer.serve import run

    return run(config)


def _loopback_class() -> CommandClass:
    from tinker_episodes.loopback import LoopbackConfig

    return LoopbackConfig


def _loopback(config: Any) -> int:
    from tinker_episodes.loopback import run

    return run(config)


_COMMANDS: dict[str, tuple[Callable[[], CommandClass], Callable[[Any], int], str | None, str]] = {
    "check": (lambda: Check, check, "bundle", "report what is wrong with a bundle"),
    "runs": (lambda: Runs, runs, "path", "list the runs of a run index"),
    "steps": (lambda: Steps, steps, "path", "show a run step by step"),
    "show": (lambda: Show, show, "rollout", "show one rollout"),
    "export": (lambda: Export, export, "path", "write a run's rollouts as JSON lines"),
    "explore": (_explore_class, _explore, "path", "show runs as a web page, while they train"),
    "loopback": (_loopback_class, _loopback, None, "serve the Tinker API with a tiny model here"),
}
"""By name: the settings, what runs, the setting that may stand without its key, and one line of
help.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        from tinker_episodes import __version__

        print(__version__)
        return 0
    return _run(arguments[0], arguments[1:])


def _run(name: str, arguments: list[str]) -> int:
    if name not in _COMMANDS:
        return _refuse(f"there is no command {name!r}; there are: {', '.join(_COMMANDS)}")
    settings, command, positional, _ = _COMMANDS[name]
    try:
        config = chz.Blueprint(settings()).make_from_argv(_keyed(arguments, positional))
        return command(config)
    except EntrypointHelpException as help:
        print(str(help).rstrip())
        return 0
    except _WRONG_SETTINGS as error:
        return _refuse(f"{name}: {error}")
    except EpisodesError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return 130


def _keyed(arguments: list[str], positional: str | None) -> list[str]:
    """The arguments with the key of a leading one that has none."""
    if positional is None or not arguments:
        return arguments
    first = arguments[0]
    bare = first not in ("--help", "-h") and not first.split("=", 1)[0].isidentifier()
    if "=" not in first or bare:
        return arguments if first == "--help" else [f"{positional}={first}", *arguments[1:]]
    return arguments


def _refuse(message: str) -> int:
    print(f"tinker-episodes: {message}", file=sys.stderr)
    return 2


def _help() -> str:
    lines = [f"  {name:10} {entry[3]}" for name, entry in _COMMANDS.items()]
    return "\n".join(
        [
            "tinker-episodes COMMAND [ARGUMENT] [key=value ...]",
            "",
            *lines,
            "",
            "tinker-episodes COMMAND --help tells a command's settings.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
