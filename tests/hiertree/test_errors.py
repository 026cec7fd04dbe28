"""Errors read as sentences and cross process boundaries."""

from __future__ import annotations

import pickle

from hiertree.errors import HiertreeError, UnknownLeafError


def test_errors_read_as_sentences_and_cross_processes():
    error = UnknownLeafError("leaf 3", expected="a leaf", remedy="look again")
    assert str(pickle.loads(pickle.dumps(error))) == "leaf 3: expected a leaf; look again"
    assert isinstance(error, HiertreeError)
