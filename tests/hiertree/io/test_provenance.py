"""A manifest records what made a file."""

from __future__ import annotations

import json

import numpy as np

from hiertree.io.provenance import manifest, sha256


def test_manifest_records_inputs_by_hash(tmp_path):
    (tmp_path / "in.csv").write_text("a")
    content = manifest(command="x", parameters={}, inputs=[tmp_path / "in.csv"], seed=3)
    assert content["inputs"] == [{"name": "in.csv", "bytes": 1, "sha256": sha256(tmp_path / "in.csv")}]
    assert content["packages"]["numpy"] == np.__version__
    json.dumps(content)


def test_a_manifest_keeps_no_password_of_a_url():
    url = "http://user:s3cr3t@127.0.0.1/api"
    record = manifest(command=f"hiertree x {url}", parameters={"scrape": {"apis": [url, (url,)], "n": 3}})
    assert "s3cr3t" not in str(record)
    assert record["parameters"]["scrape"] == {
        "apis": ["http://***@127.0.0.1/api", ["http://***@127.0.0.1/api"]],
        "n": 3,
    }
