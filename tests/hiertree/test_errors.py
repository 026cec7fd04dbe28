"""Errors read as sentences and cross process boundaries."""

from __future__ import annotations

import pickle

import pytest

from hiertree.errors import HiertreeError, MissingPackageError, OptionError, UnknownLeafError, require_package


def test_errors_read_as_sentences_and_cross_processes():
    error = UnknownLeafError("leaf 3", expected="a leaf", remedy="look again")
    assert str(pickle.loads(pickle.dumps(error))) == "leaf 3: expected a leaf; look again"
    assert isinstance(error, HiertreeError)


def test_a_missing_package_names_the_extra_that_installs_it_and_is_an_import_error():
    with pytest.raises(ImportError, match=r'no_such is not installed; pip install "hiertree\[search\]"') as caught:
        require_package("pickle", "no_such", extra="search")
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), MissingPackageError)


def test_several_missing_packages_are_named_together():
    with pytest.raises(MissingPackageError, match="no_such, none_such are not installed"):
        require_package("no_such", "none_such", extra="train")


def test_no_error_shows_the_password_of_a_url():
    url = "ftp://user:s3cr3t@example.org/a@b.zip?mail=x@y.org"
    error = OptionError(f"address {url!r}", expected=f"another than {url}", remedy=f"do not use {url}")
    assert "s3cr3t" not in f"{error}{error.given}{error.expected}{error.remedy}"
    assert "ftp://***@example.org/a@b.zip?mail=x@y.org" in str(error)
    assert str(OptionError("https://example.org/a@b")) == "https://example.org/a@b"
