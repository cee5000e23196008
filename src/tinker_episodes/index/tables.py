"""The tables of the run index.

What people see is read from `totals` and the columns of `groups`, which are kept as rollouts are
filed (`totals.py`); `transcripts` and `tokens` are read singly. Where text is searched depends on
the database (`dialect.py`).
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default="0")


def _sum(name: str) -> Column[float]:
    return Column(name, Float, nullable=False, server_default="0")


meta = Table(
    "meta",
    metadata,
    Column("version", Integer, nullable=False),
    Column("revision", Integer, nullable=False),  # one more with each change of a total
)

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("path", Text, nullable=False, unique=True),
    Column("name", String(200), nullable=False, unique=True),
    _count("rollouts"),
    Column("active_at", Float),  # when a rollout was last filed, in seconds since the epoch
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Integer, ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("token", String(64), nullable=False, unique=True),
    Column("start_step", Integer, nullable=False),
    Column("began_at", Float, nullable=False),
    UniqueConstraint("run_id", "number"),
)

run_groups = Table(
    "run_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Integer, ForeignKey("runs.id"), nullable=False),
    Column("split", String(8), nullable=False),
    Column("step", Integer, nullable=False),
    UniqueConstraint("run_id", "split", "step"),
)

bundles = Table(
    "bundles",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("version", String(200), nullable=False),
    Column("content_hash", String(64), nullable=False),
    UniqueConstraint("name", "version", "content_hash"),
)

run_bundles = Table(
    "run_bundles",
    metadata,
    Column("run_id", Integer, ForeignKey("runs.id"), primary_key=True),
    Column("bundle_id", Integer, ForeignKey("bundles.id"), primary_key=True),
    sqlite_with_rowid=False,
)

groups = Table(
    "groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("attempt_id", Integer, ForeignKey("attempts.id"), nullable=False),
    Column("run_group_id", Integer, ForeignKey("run_groups.id"), nullable=False),
    Column("bundle_id", Integer, ForeignKey("bundles.id"), nullable=False),
    Column("task", Text, nullable=False),
    Column("tags", Text, nullable=False),
    # What its rollouts come to; the means are of those that have a reward.
    _count("size"),
    _count("scored"),
    Column("mean", Float),
    Column("low", Float),
    Column("high", Float),
    Column("spread", Float),  # the standard deviation of its rewards
    Column("constant", Boolean),  # whether all of its rewards are the same; null below two
    _count("cut"),
    _count("failed"),
    _count("abandoned"),
    _count("turns"),
    _count("tool_errors"),
    _count("format_errors"),
    _count("sampled_tokens"),
    Index("groups_by_run_group", "run_group_id", "attempt_id"),
    Index("groups_by_task", "task", "run_group_id"),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("group_id", Integer, ForeignKey("groups.id"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reward", Float),
    Column("trained_reward", Float),
    Column("trained", Boolean, nullable=False),
    Column("sampler_step", Integer),
    Column("cut", String(32)),
    Column("reason", Text, nullable=False),
    Column("turns", Integer, nullable=False),
    Column("messages", Integer, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("tool_errors", Integer, nullable=False),
    Column("format_errors", Integer, nullable=False),
    Column("sampled_tokens", Integer, nullable=False),
    Column("observation_tokens", Integer, nullable=False),
    Column("opened_at", Float),
    Column("duration_s", Float),
    Index("rollouts_by_group", "group_id", "place"),
)

scores = Table(
    "scores",
    metadata,
    Column("rollout_id", Integer, ForeignKey("rollouts.id"), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("value", Float, nullable=False),
    Column("explanation", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    sqlite_with_rowid=False,
)

totals = Table(
    "totals",
    metadata,
    Column("run_group_id", Integer, ForeignKey("run_groups.id"), primary_key=True),
    Column("attempt_id", Integer, ForeignKey("attempts.id"), primary_key=True),
    Column("revision", Integer, nullable=False, index=True),  # of the last change
    Column("first_rollout", Integer),  # ids: what is searched for a range of steps
    Column("last_rollout", Integer),
    _count("groups"),
    _count("rollouts"),
    _count("scored"),
    _sum("reward"),
    _count("success"),  # rewards of at least 1
    _count("trained"),
    _count("trained_scored"),
    _sum("trained_reward"),
    _count("scored_groups"),
    _sum("group_mean"),
    _sum("group_mean_squared"),
    _sum("group_variance"),
    _count("comparable_groups"),  # of two rewards or more
    _count("constant_groups"),
    _count("cut"),
    _count("failed"),
    _count("abandoned"),
    _count("turns"),
    _count("messages"),
    _count("tool_calls"),
    _count("tool_errors"),
    _count("format_errors"),
    _count("sampled_tokens"),
    _count("observation_tokens"),
)

score_totals = Table(
    "score_totals",
    metadata,
    Column("run_group_id", Integer, ForeignKey("run_groups.id"), primary_key=True),
    Column("attempt_id", Integer, ForeignKey("attempts.id"), primary_key=True),
    Column("name", String(200), primary_key=True),
    _count("scored"),
    _sum("value"),
    sqlite_with_rowid=False,
)

cut_totals = Table(
    "cut_totals",
    metadata,
    Column("run_group_id", Integer, ForeignKey("run_groups.id"), primary_key=True),
    Column("attempt_id", Integer, ForeignKey("attempts.id"), primary_key=True),
    Column("cut", String(32), primary_key=True),
    _count("rollouts"),
    sqlite_with_rowid=False,
)

transcripts = Table(
    "transcripts",
    metadata,
    Column("rollout_id", Integer, ForeignKey("rollouts.id"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("rollout_id", Integer, ForeignKey("rollouts.id"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

token_texts = Table(  # a run has one vocabulary
    "token_texts",
    metadata,
    Column("run_id", Integer, ForeignKey("runs.id"), primary_key=True),
    Column("token", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    sqlite_with_rowid=False,
)

images = Table(
    "images",
    metadata,
    Column("hash", String(64), primary_key=True),  # SHA-256 of the bytes, in hexadecimal
    Column("media_type", String(100), nullable=False),
    Column("width", Integer),
    Column("height", Integer),
    Column("body", LargeBinary, nullable=False),
)

tool_sets = Table(
    "tool_sets",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),  # the specs of the tools that a prompt offered
)

labels = Table(
    "labels",
    metadata,
    Column("kind", String(16), primary_key=True),  # tag, tool or cut
    Column("name", String(200), primary_key=True),
    sqlite_with_rowid=False,
)

summaries = Table(
    "summaries",
    metadata,
    Column("run_id", Integer, ForeignKey("runs.id"), primary_key=True),
    Column("file", String(300), primary_key=True),
    Column("stamp", Integer, nullable=False),
)
