"""The run index: the database of runs, run groups, groups, rollouts, scores and transcripts."""

from __future__ import annotations

from tinker_episodes.index.records import (
    Attempt,
    BundleRecord,
    Group,
    ImageRecord,
    Rollout,
    ScoreRecord,
    Split,
    Status,
    Summary,
    SummaryFile,
    ToolSetRecord,
)
from tinker_episodes.index.writing import IndexWriter, forget_fault, index_writer

__all__ = [
    "Attempt",
    "BundleRecord",
    "Group",
    "ImageRecord",
    "IndexWriter",
    "Rollout",
    "ScoreRecord",
    "Split",
    "Status",
    "Summary",
    "SummaryFile",
    "ToolSetRecord",
    "forget_fault",
    "index_writer",
]
