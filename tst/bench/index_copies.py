"""Copies of the one run of an SQLite index as further runs, inside the database: as fast as it
writes. The texts are the run's own; ids, keys and the words of the inverted index are each copy's.
"""

from __future__ import annotations

import sqlite3

from tinker_episodes.index.words import fact


def add_copies(file: str, words_file: str, count: int) -> None:
    """Add `count` copies of the run with the id 1.

    Args:
        words_file: A database with the table `words`: each rollout's key, and what is searched.
    """
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("ATTACH ? AS apart", (words_file,))
    connection.execute("PRAGMA cache_size = -200000")
    sizes = {
        name: connection.execute(f"SELECT max(id) FROM {name}").fetchone()[0]
        for name in ("run_groups", "groups", "rollouts")
    }
    for copy in range(1, count + 1):
        connection.execute("BEGIN IMMEDIATE")
        shift = {name: size * copy for name, size in sizes.items()}
        _copy(connection, copy, shift)
        _copy_words(connection, copy, shift["rollouts"])
        connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _copy(connection: sqlite3.Connection, copy: int, shift: dict[str, int]) -> None:
    run_group, group, rollout = (shift[name] for name in ("run_groups", "groups", "rollouts"))
    key = f"printf('%02x', {copy}) || substr(key, 3)"
    changed: dict[str, tuple[dict[str, str], str]] = {
        "runs": (
            {"id": f"{copy} + 1", "path": f"'/runs/run-{copy}'", "name": f"'run-{copy}'"},
            "id = 1",
        ),
        "attempts": (
            {"id": f"{copy} + 1", "run_id": f"{copy} + 1", "token": f"'run-{copy}-1'"},
            "id = 1",
        ),
        "run_bundles": ({"run_id": f"{copy} + 1"}, "run_id = 1"),
        "run_groups": (
            {"id": f"id + {run_group}", "run_id": f"{copy} + 1"},
            "run_id = 1",
        ),
        "groups": (
            {
                "id": f"id + {group}",
                "key": key,
                "attempt_id": f"{copy} + 1",
                "run_group_id": f"run_group_id + {run_group}",
            },
            "attempt_id = 1",
        ),
        "rollouts": (
            {"id": f"id + {rollout}", "key": key, "group_id": f"group_id + {group}"},
            f"id <= {rollout // copy}",
        ),
        **{
            name: (
                {"rollout_id": f"rollout_id + {rollout}"},
                f"rollout_id <= {rollout // copy}",
            )
            for name in ("scores", "transcripts", "tokens")
        },
        **{
            name: (
                {
                    "run_group_id": f"run_group_id + {run_group}",
                    "attempt_id": f"{copy} + 1",
                    "first_rollout": f"first_rollout + {rollout}",
                    "last_rollout": f"last_rollout + {rollout}",
                },
                "attempt_id = 1",
            )
            for name in ("totals", "score_totals", "cut_totals")
        },
    }
    for table, (values, of) in changed.items():
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        taken = ", ".join(values.get(name, name) for name in columns)
        connection.execute(f"INSERT INTO {table} SELECT {taken} FROM {table} WHERE {of}")


def _copy_words(connection: sqlite3.Connection, copy: int, shift: int) -> None:
    connection.execute(
        "INSERT INTO search (rowid, words) "
        "SELECT rollouts.id + ?, replace(apart.words.words, ?, ?) "
        "FROM rollouts JOIN apart.words ON apart.words.key = rollouts.key "
        "WHERE rollouts.id <= ? ORDER BY rollouts.id",
        (shift, fact("run", "/runs/run-0"), fact("run", f"/runs/run-{copy}"), shift // copy),
    )
