"""Small landmark tables as they are published."""

import pytest

from hiertree.pipelines.labels import build

CATEGORY = "http://commons.wikimedia.org/wiki/Category:"
LABELS = [
    *("lake", "glacial lake", "lake|lake", "waterfall", "waterfall", "mountain", "mountain range", "road bridge"),
    *("road bridge", "Road bridge", "church building", "church building (1909)", "Catholic cathedral", "art museum"),
    *("history museum", "castle|palace", "Wikimedia category", ""),
]


@pytest.fixture
def landmarks(tmp_path):
    """Landmarks 0 … 18, the last of them not scraped."""
    path = tmp_path / "train_label_to_category.csv"
    rows = [f'{landmark},"{CATEGORY}Place,_{landmark}"' for landmark in range(len(LABELS) + 1)]
    path.write_text("landmark_id,category\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def instances(tmp_path):
    """What was scraped for 0 … 17, and for a landmark that is not listed."""
    path = tmp_path / "scraped.csv"
    rows = [f'{landmark},{CATEGORY}Place,"{label}"' for landmark, label in enumerate([*LABELS])]
    text = "landmark_id,category,instance_of\r\n" + "\r\n".join([*rows, f"99,{CATEGORY}Other,lake"]) + "\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    return path


@pytest.fixture(scope="session")
def washington(shared_data, tmp_path_factory):
    """All steps for Washington's landmarks, and their plan."""
    table = shared_data / "gldv2_washington" / "landmarks_washington_full.csv"
    plan = {"landmarks": table, "columns": {"instance_of": "supercategory"}}
    return build(plan, out=tmp_path_factory.mktemp("washington") / "out"), plan
