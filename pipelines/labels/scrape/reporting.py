"""How far a scrape has come, and in words."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from hiertree.io.outputs import check_outputs

from ..folders import AnyPath
from .facts import PLURALS, Stage
from .outcomes import Tally, tally, write_instances
from .store import Store


def status(store: AnyPath, *, table: AnyPath | None = None) -> dict[str, Any]:
    """What a store holds: landmarks by status and reason, rows, keys to ask by stage, failures, times.

    Args:
        store: an existing store; a scrape may be writing to it.
        table: a CSV for ``labels build --instances`` to write.

    Raises:
        OutputError: the table would replace the store.
        ScrapeError: no such store.
    """
    check_outputs([table], inputs=[store], force=True)
    with Store(store, create=False) as opened:
        if table is not None:
            write_instances(opened, table)
        oldest, newest = opened.connection.execute(
            "SELECT min(time), max(time) FROM answers WHERE stage = 'page'"
        ).fetchone()
        return {
            "outcomes": [
                {"status": status, "reason": reason, "landmarks": count}
                for (status, reason), count in sorted(tally(opened).items())
            ],
            "rows": opened.counts(),
            "to_ask": {stage: len(keys) for stage, keys in opened.missing().items()},
            "to_retry": opened.failures(),
            "oldest_page": _date(oldest),
            "newest_page": _date(newest),
        }


def count_failed(found: Tally) -> tuple[int, int]:
    """How many landmarks failed, and how many there are.

    >>> count_failed(Counter({("labeled", ""): 841, ("failed", "HTTP 503"): 3}))
    (3, 844)
    """
    return sum(count for (status, _), count in found.items() if status == "failed"), sum(found.values())


def describe_outcomes(found: Tally) -> str:
    """A line per status and reason.

    >>> print(describe_outcomes(Counter({("labeled", ""): 841, ("unlabeled", "no instance of"): 2})))
    843 landmarks
         841 labeled
           2 unlabeled: no instance of
    """
    lines = [f"{count:8d} {': '.join(filter(None, key))}" for key, count in sorted(found.items())]
    return "\n".join([f"{sum(found.values())} landmarks", *lines])


def describe_status(report: dict[str, Any]) -> str:
    """The same for what :func:`status` returns, with what is still to be asked."""
    found = Counter({(row["status"], row["reason"]): row["landmarks"] for row in report["outcomes"]})
    rows = ", ".join(f"{count} {name}" for name, count in report["rows"].items())
    times = f"; pages of {report['oldest_page']} … {report['newest_page']}" if report["oldest_page"] else ""
    lines = [describe_outcomes(found), f"stored: {rows}{times}", f"to ask: {_keys(report['to_ask'])}"]
    if any(report["to_retry"].values()):
        lines.append(f"failed, waiting for 'hiertree labels retry': {_keys(report['to_retry'])}")
    return "\n".join(lines)


def _keys(counts: dict[Stage, int]) -> str:
    return ", ".join(f"{count} {PLURALS[stage]}" for stage, count in counts.items() if count) or "nothing"


def _date(seconds: int | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
