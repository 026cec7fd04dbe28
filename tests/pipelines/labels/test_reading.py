"""Reading landmark tables: what is right is read as published, what is wrong is named."""

import pytest

from hiertree.errors import OptionError, TableError
from hiertree.pipelines.labels import ColumnNames, read_landmarks
from hiertree.pipelines.labels.landmarks import InstanceValue


def write(folder, text):
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_two_tables_are_joined_by_id_and_strangers_counted(landmarks, instances):
    landmarks_read, unknown_ids = read_landmarks(landmarks, instances)
    assert [landmark.landmark_id for landmark in landmarks_read] == list(map(str, range(19)))
    assert landmarks_read[0].category == "http://commons.wikimedia.org/wiki/Category:Place,_0"
    assert landmarks_read[15].values == (InstanceValue("castle"), InstanceValue("palace"))
    assert landmarks_read[17].values == ()
    assert landmarks_read[18].values is None
    assert unknown_ids == 1


@pytest.mark.parametrize(
    ("header", "row", "columns", "item_ids"),
    [
        (
            "id,url,kind,qid",
            "5,A,lake;pond,Q1;Q2",
            {"landmark_id": "id", "category": "url", "item_ids": "qid"},
            "Q1 Q2",
        ),
        ("landmark_id,kind,item_ids", "5,lake;pond,Q1;Q2", {}, "Q1 Q2"),  # as a scrape calls the column
        ("landmark_id,kind,qid", "5,lake;pond,", {"item_ids": "qid"}, ""),
    ],
)
def test_one_table_may_serve_as_both_with_ids_of_values_if_it_has_any(tmp_path, header, row, columns, item_ids):
    path = write(tmp_path, f"{header}\n{row}\n")
    (landmark,), _ = read_landmarks(path, columns=ColumnNames(instance_of="kind", **columns), separator=";")
    assert [value.text for value in landmark.values] == ["lake", "pond"]
    assert " ".join(value.item_id for value in landmark.values).strip() == item_ids


def test_a_table_of_ids_and_types_needs_no_categories(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,type\n4,lake\n9,castle\n")
    landmarks, _ = read_landmarks(path, columns=ColumnNames(landmark_id="id", instance_of="type"))
    assert [(landmark.landmark_id, landmark.category) for landmark in landmarks] == [("4", ""), ("9", "")]
    with pytest.raises(TableError, match="no column 'place'"):
        read_landmarks(path, columns=ColumnNames(landmark_id="id", category="place", instance_of="type"))
    with pytest.raises(TableError, match=r"no column 'landmark_id'.*name it: --id-column"):
        read_landmarks(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("landmark_id,category\n1,A\n", r"no column 'instance_of'.*--instance-column.*'hiertree labels scrape'"),
        ("landmark_id,category,instance\n1,A,lake\n", r"did you mean 'instance'"),
        ("landmark_id,category,instance_of\n1,A\n", r"line 2: 2 cells"),
        (
            "landmark_id,category,instance_of\n1,A,lake\n ,B,lake\n",
            r"line 3: landmark_id '': expected an id of 1 to 200",
        ),
        ("landmark_id,category,instance_of\n1,A,lake\n2,B,lake\n1,C,pond\n", r"line 4: landmark_id '1' again .*line 2"),
    ],
    ids=["no types", "closest", "short row", "empty id", "duplicate"],
)
def test_bad_tables_name_file_line_and_value(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(TableError, match=message) as caught:
        read_landmarks(path)
    assert "t.csv" in str(caught.value)


def test_as_many_item_ids_as_values_are_asked_for(tmp_path):
    path = write(tmp_path, "landmark_id,category,instance_of,qids\n1,A,lake|pond,Q1\n")
    with pytest.raises(TableError, match="line 2: 2 values but 1 ids"):
        read_landmarks(path, columns=ColumnNames(item_ids="qids"))


def test_an_empty_separator_is_refused(landmarks, instances):
    with pytest.raises(OptionError, match="separator"):
        read_landmarks(landmarks, instances, separator="")


def test_published_quoting_percent_signs_and_apostrophes_survive(shared_data):
    path = shared_data / "gldv2_qids" / "gldv2_first_ids.csv"
    landmarks, _ = read_landmarks(path, columns=ColumnNames(instance_of="wikidata_id", item_ids="wikidata_id"))
    assert len(landmarks) == 52
    assert "http://commons.wikimedia.org/wiki/Category:Tweed_Heads,_New_South_Wales" in {x.category for x in landmarks}
    assert all(value.item_id.startswith("Q") for landmark in landmarks for value in landmark.values)
