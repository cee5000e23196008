"""How run groups and runs are named."""

from __future__ import annotations

from pathlib import PurePath

from tinker_episodes.index.records import Split


def run_group_name(run: str, split: Split | str, step: int) -> str:
    """`<run>/train/step-0007`: what people and pages call a run group."""
    return f"{run}/{split}/step-{step:04d}"


def run_names(log_path: str) -> list[str]:
    """The names that a run may get, best first: its folder's, then with its parents' where that is
    taken.
    """
    parts = [part for part in PurePath(log_path).parts if part not in ("/", "\\")]
    return ["-".join(parts[-n:]) for n in range(1, len(parts) + 1)] or ["run"]
