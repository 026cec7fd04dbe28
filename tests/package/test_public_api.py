"""A change of the public API is seen: names, parameters and defaults are those of a committed snapshot."""

from __future__ import annotations

from pathlib import Path

from public_api import public_api


def test_the_public_api_is_that_of_the_snapshot():
    snapshot = Path(__file__).with_name("public_api.txt").read_text(encoding="utf-8").splitlines()
    lines = public_api().splitlines()
    gone, new = sorted(set(snapshot) - set(lines)), sorted(set(lines) - set(snapshot))
    assert (gone, new) == ([], []), "if intended: python scripts/public_api.py > tests/package/public_api.txt"
