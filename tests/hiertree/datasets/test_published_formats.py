"""Every loader reads its benchmark as it is published, compares it with the published sizes, and says what is wrong."""

from __future__ import annotations

import pickle
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from benchmark_files import (
    NAMES,
    NUS_LABELS,
    SHAPES,
    jpeg,
    write_benchmark,
    write_cars_devkit,
    write_distractors,
    write_gldv2,
)

import hiertree as ht
from hiertree import datasets
from hiertree.datasets import (
    load_cifar,
    load_dyml,
    load_gldv2,
    load_inaturalist,
    load_inshop,
    load_nus_wide,
    load_revisited,
    load_vehicleid,
)
from hiertree.datasets.benchmarks import pickled as _cifar
from hiertree.errors import HierarchyError, HiertreeError, ImageError, MissingResourceError, OptionError, TableError
from hiertree.metrics import evaluate_scores, revisitop_levels


@pytest.fixture(scope="module")
def benchmark_folders(tmp_path_factory):
    """The folder of every benchmark."""
    folders = {name: tmp_path_factory.mktemp(name) for name in NAMES}
    for name, folder in folders.items():
        write_benchmark(name, folder)
    return folders


@pytest.mark.parametrize(("name", "split"), SHAPES, ids=lambda value: value)
def test_a_split_has_its_images_labels_and_parts(benchmark_folders, name, split):
    shape = SHAPES[name, split]
    dataset = datasets.load(name, benchmark_folders[name], split, verify="structure")
    card = datasets.describe(name)
    assert (len(dataset), dataset.drop_absent_classes().tree.level_sizes) == (shape.images, shape.level_sizes)
    assert dataset.images.name(0) == shape.first
    assert dataset.protocol == card.protocol
    assert dataset.paths.dtype == np.int32
    if "test_" not in dataset.split:
        assert dataset.tree.level_names == card.levels
    if shape.query_and_gallery is None:
        assert dataset.queries is None
    else:
        assert (len(dataset.queries), len(dataset.gallery)) == shape.query_and_gallery
    for index in range(len(dataset)):
        assert dataset.images[index].size[0] in (4, 6, 8, 32)
    copy = pickle.loads(pickle.dumps(dataset.images))
    assert copy[len(copy) - 1].tobytes() == dataset.images[len(dataset) - 1].tobytes()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("roxford5k", "ijb-c", "ilias")])
def test_a_part_of_a_benchmark_is_refused_unless_it_is_asked_for(benchmark_folders, name):
    with pytest.raises(TableError, match=r"instead of.*verify='structure'"):
        datasets.load(name, benchmark_folders[name], "train")


def test_published_sizes_are_accepted():
    card = datasets.describe("sop")
    card.verify("train", 59_551, 11_318)
    with pytest.raises(TableError, match="59,550 images instead of 59,551"):
        card.verify("train", 59_550, 11_318)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_there_says_what_is_missing_and_where_to_get_it(name, tmp_path):
    card = datasets.describe(name)
    with pytest.raises(MissingResourceError, match=re.escape(card.steps[0][:30])):
        datasets.load(name, tmp_path / "nowhere", next(iter(card.splits)))


@pytest.mark.parametrize(("name", "images"), [("sop", "chair_final"), ("cub", "images"), ("cars", "car_ims")])
def test_lists_without_their_images_are_noticed_at_once(name, images, tmp_path):
    write_benchmark(name, tmp_path)
    (tmp_path / images).rename(tmp_path / "elsewhere")
    with pytest.raises(MissingResourceError, match="images looked for are not in"):
        datasets.load(name, tmp_path, verify="structure")


def test_a_check_reports_a_list_that_is_missing_and_drawings_in_memory(tmp_path, shared_data):
    write_benchmark("sop", tmp_path)
    (tmp_path / "Ebay_test.txt").unlink()
    train, test = datasets.check("sop", tmp_path, splits=["train", "test"], verify="structure")
    assert (train.sound, test.sound) == (True, False)
    assert "Ebay_test.txt not in" in str(test.problem)
    (drawings,) = datasets.check("omniglot", shared_data / "omniglot" / "omniglot_28x28.npz", splits=["test"])
    assert (drawings.images, drawings.sound) == (13_180, True)


def test_the_folder_above_an_unpacked_archive_will_do(tmp_path):
    write_benchmark("cub", tmp_path / "CUB_200_2011")
    assert len(datasets.load("cub", tmp_path, verify="structure")) == 4


SPOILT = [
    ("sop", "Ebay_train.txt", "4 2 2", "4 two 2", r"Ebay_train\.txt, line 5: class_id 'two'"),
    ("sop", "Ebay_train.txt", r"(?s)\n.*", "\n", "has no rows"),
    ("cars", "cars_annos.mat", r"(?s)\A.*", "no matrix", r"cars_annos\.mat cannot be read"),
    ("sop", "Ebay_train.txt", r"image_id class_id", "image_id klass", "line 1: header"),
    ("sop", "Ebay_train.txt", r"chair_final/111085122872_1", "chair_final/../1", r"line 3: image 'chair_final/\.\./"),
    ("sop", "Ebay_train.txt", r"(?<=2 1 1 )\S+", "a b", "line 3: 5 words"),
    ("sop", "Ebay_train.txt", r"chair_final/111085122872_1", "chair\xe9", "line 3: bytes that are not UTF-8"),
    (
        "sop",
        "Ebay_train.txt",
        r"chair_final/111085122872_1",
        "lamp_final/111085122872_1",
        "line 3: super_class_id 1 stands with 'lamp_final', in Ebay_train.txt, line 2 with",
    ),
    ("sop", "Ebay_train.txt", r"(?m)^(\d+ \d+) 1 ", r"\1 2 ", "super_class_id 2 stands with"),
    ("sop", "Ebay_train.txt", r"\n1 1 1 ", "\n1 1 9 ", "line 3: folder 'chair_final' stands with 1"),
    ("inaturalist-full", "Inat_dataset_splits/Inaturalist_train_set1.txt", "/0/00ab", "/99/00ab", "category 99"),
    ("inaturalist-full", "Inat_dataset_splits/Inaturalist_train_set1.txt", "/0/00ab", "/x/00ab", "line 1"),
    (
        "inaturalist-full",
        "train2018.json",
        '"kingdom"',
        '"realm"',
        "categories with one id each, and texts for kingdom",
    ),
    ("inaturalist-full", "train2018.json", '"genus": "[^"]*"', '"genus": null', "category 0 with .*'genus': None"),
    ("inaturalist-full", "train2018.json", '"genus": "[^"]*"', '"genus": " "', "category 0 with .*'genus': ' '"),
    ("inaturalist-full", "train2018.json", '"id": 1, "name"', '"id": 0, "name"', "category 0 twice, with other ranks"),
    ("dyml-vehicle", "train/label.csv", "coarse_id, ", "rough_id, ", "line 1.*header of fname"),
    ("dyml-vehicle", "train/label.csv", r"\n1\.jpg, 0", "\n1.jpg", r"line 2: 3 words"),
    ("h-gldv2", "train_clean.csv", "landmark_id", "id", "columns landmark_id"),
    ("h-gldv2", "train_clean.csv", r"\n17,", "\nx17,", "train_clean.csv.*x17"),
    ("h-gldv2", "train_clean.csv", r"\n17,", "\n", "train_clean.csv.*Expected 2 columns"),
    ("h-gldv2", "train_clean.csv", r"\n17,\w", "\n17,/", "train_clean.csv: ids such as.*letters and digits"),
    ("h-gldv2", "retrieval_solution_v2.1.csv", r"(?<=abc0000000000002,)\w", "z", "of a query.*an image of the index"),
    ("h-gldv2", "retrieval_solution_v2.1.csv", r"(?s)\n.*", "\nabc0,None,Public", "every query is marked as ignored"),
    (
        "h-gldv2",
        "train_label_to_hierarchical.csv",
        r"\Z",
        "17,x,x,other,natural\n",
        "landmark_id '17' stands with 'natural, other'",
    ),
    ("h-gldv2", "index_image_to_landmark.csv", r"\n(\w+),(\d+)\n", r"\n\1,\2\n\1,99\n", r"id '\w+' stands with 99"),
    ("cub", "classes.txt", r"\n100 \S+", "\n99 100.Bird_100", "class_id '99' stands with '100.Bird_100'"),
    ("cub", "image_class_labels.txt", r"\n2 99", "\n2 100", "the folder '099.Bird_99' stands with"),
    ("inshop", "Eval/list_eval_partition.txt", r"id_00000001 train", "id_00000002 train", "the folder of its item_id"),
    ("cub", "image_class_labels.txt", r"\n2 ", "\n7 ", "image ids differ from images.txt"),
    ("inshop", "Eval/list_eval_partition.txt", r"^10\n", "11\n", "line 1: '11' before 10 rows"),
    ("inshop", "Eval/list_eval_partition.txt", r"train\n", "trian\n", r"line 3: 'trian'"),
    ("vehicleid-800", "train_test_split/train_list.txt", " 1\n", " \n", "line 1: 1 words"),
    ("imagenet100", "train.txt", " 1 ", " 1 1 ", r"train\.txt, line 2: .*101 zeros and ones"),
    ("imagenet100", "train.txt", " 1 ", " 2 ", r"train\.txt, line 1: .*zeros and ones"),
    ("imagenet100", "train.txt", " 1 0", " 1 1", r"train\.txt, line 1: 2 classes"),
    ("imagenet100", "train.txt", "image/n00000000_3", "../n00000000_3", r"image '\.\./"),
    ("nus-wide", "Groundtruth/AllLabels/Labels_sky.txt", "0\n", "", "4 files|3 files of labels"),
    ("nus-wide", "Imagelist.txt", "C:.*\n", "", "labels of 2500 images.*the 2499 of Imagelist"),
    ("vggface2", "data/train_list.txt", "n000002/0001", "0001", "line 2: '0001_01.jpg'.*<person>/<image>"),
]


@pytest.mark.parametrize(("name", "file", "pattern", "replacement", "message"), SPOILT)
def test_a_spoilt_list_is_refused_by_its_line(name, file, pattern, replacement, message, tmp_path):
    write_benchmark(name, tmp_path)
    spoilt = re.sub(pattern, replacement, (tmp_path / file).read_text(errors="replace"), count=1)
    (tmp_path / file).write_bytes(spoilt.encode("latin1"))
    with pytest.raises((TableError, HierarchyError), match=message):
        datasets.load(
            name, tmp_path, "query" if file.startswith(("retrieval", "index")) else "train", verify="structure"
        )


@pytest.mark.parametrize("separator", ["", "\n"], ids=["glued", "mended"])
def test_the_image_glued_to_dymls_header_is_not_lost(benchmark_folders, tmp_path, separator):
    write_benchmark("dyml-vehicle", tmp_path)
    for file in [*tmp_path.glob("*/label.csv"), *tmp_path.glob("bmk_*/*.csv")]:
        text = file.read_text()
        assert re.match(r"fname,.*(fine_id|labels)0\.jpg, ", text)
        file.write_text(text.replace("0.jpg", f"{separator}0.jpg", 1))
    train = load_dyml(tmp_path, verify="structure")
    assert train.images.name(0) == "train/imgs/0.jpg"
    assert train.tree.leaves[0] == (0, 0, 0)
    test = load_dyml(tmp_path, "test_fine", verify="structure")
    assert test.ids[test.queries].tolist() == ["0.jpg", "1.jpg", "2.jpg"]
    assert set(test.ids[test.queries]) <= set(test.ids[test.gallery])
    assert np.array_equal(test.paths[test.queries], test.paths[test.gallery[:3]])  # one id space


@pytest.mark.parametrize("archives", [True, False], ids=["archives", "folders"])
def test_landmark_images_come_from_archives_as_from_folders(tmp_path, archives):
    write_gldv2(tmp_path, archives=archives)
    train = load_gldv2(tmp_path, hierarchy=False, verify="structure")
    for index in range(len(train)):
        assert train.images[index].tobytes() == decoded(index)
    assert train.tree.leaves == (17, 4, 230, 9)


def decoded(index):
    import io

    from PIL import Image

    return Image.open(io.BytesIO(jpeg(index))).tobytes()


def test_objects_of_ilias_stand_in_its_taxonomy(benchmark_folders, tmp_path):
    test = datasets.load("ilias", benchmark_folders["ilias"], "test", verify="structure")
    assert test.tree.labels_of(test.paths[1]) == ("toy", "other", "card", "perky_puff_655")
    levels = ht.levels(test.paths[test.queries], test.paths[test.gallery])
    assert levels.tolist() == [[4, 2, 2, 0], [2, 4, 4, 0], [0, 0, 0, 4]]
    write_benchmark("ilias", tmp_path)
    (tmp_path / "taxonomy.json").write_text('{"toy": {"other": {"other": ["bold_bimp_000"]}}}')
    with pytest.raises(TableError, match=r"image_query_ids\.txt, line 2: 'perky_puff_655/query.*taxonomy\.json"):
        datasets.load("ilias", tmp_path, "test", verify="structure")
    (tmp_path / "taxonomy.json").write_text('{"toy": ["bold_bimp_000"]}')
    with pytest.raises(TableError, match="below three levels"):
        datasets.load("ilias", tmp_path, "test", verify="structure")


def test_aircraft_lose_their_banner_and_every_split_numbers_variants_alike(benchmark_folders, tmp_path):
    train, test = (datasets.load("aircraft", benchmark_folders["aircraft"], split, verify="structure")
                   for split in ("train", "test"))  # fmt: skip
    assert train.tree == test.tree
    assert [test.tree.labels_of(path) for path in test.paths][:2] == [
        ("Airbus", "A300", "A300B4"),
        ("Boeing", "Boeing 707", "707-320"),
    ]
    assert test.images[0].size == (8, 6)
    assert np.asarray(test.images[0]).min() > 230  # no black pixel of the banner is left
    write_benchmark("aircraft", tmp_path)
    file = tmp_path / "data" / "images_family_test.txt"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[::-1]))
    with pytest.raises(TableError, match=r"images_family_test\.txt: images differ from images_variant"):
        datasets.load("aircraft", tmp_path, "test", verify="structure")


def test_classes_of_wordnet_lie_at_the_depths_of_the_authors_tree(benchmark_folders, tmp_path):
    train, test = (datasets.load("tieredimagenet-h", benchmark_folders["tieredimagenet-h"], split, verify="structure")
                   for split in ("train", "test"))  # fmt: skip
    assert train.tree == test.tree
    assert [train.tree.labels_of(path) for path in train.paths] == [
        ("n2", "n3", "n01530575"),
        ("n2", "n01531178", "n01531178"),
        ("n9", "n04482393", "n04482393"),
    ]
    write_benchmark("tieredimagenet-h", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "tiered_imagenet_isa.txt").rename(tmp_path / "data" / "tiered_imagenet_isa.txt")
    assert len(datasets.load("tieredimagenet-h", tmp_path, "val", verify="structure")) == 3
    (tmp_path / "val" / "n01530575").rename(tmp_path / "val" / "n00000001")
    with pytest.raises(TableError, match=r"val: the folder 'n00000001': expected a class of tiered_imagenet_isa\.txt"):
        datasets.load("tieredimagenet-h", tmp_path, "val", verify="structure")


def test_the_index_of_archives_is_kept_and_made_anew_when_they_change(tmp_path, monkeypatch):
    from hiertree.datasets import archives as _tar_images

    calls = []
    members = _tar_images._members
    monkeypatch.setattr(_tar_images, "_members", lambda path: (calls.append(path), members(path))[1])
    write_gldv2(tmp_path)
    first = load_gldv2(tmp_path, hierarchy=True, verify="structure")
    assert [path.name for path in calls] == ["images_000.tar", "images_001.tar"]
    assert load_gldv2(tmp_path, hierarchy=True, verify="structure").images[6].tobytes() == first.images[6].tobytes()
    assert len(calls) == 2
    (tmp_path / "train" / ".hiertree-index.npz").write_bytes(b"damaged")
    load_gldv2(tmp_path, hierarchy=True, verify="structure")
    assert len(calls) == 4
    archive = tmp_path / "train" / "images_001.tar"
    archive.write_bytes(archive.read_bytes()[:700])
    with pytest.raises(ImageError, match=r"images_001\.tar|in no archive"):
        load_gldv2(tmp_path, hierarchy=True, verify="structure")
    archive.unlink()
    with pytest.raises(ImageError, match="3 of 7 images are in no archive"):
        load_gldv2(tmp_path, hierarchy=True, verify="structure")


def test_landmarks_without_a_hierarchical_label_are_left_out_everywhere(benchmark_folders, caplog):
    with caplog.at_level("INFO"):
        test = load_gldv2(benchmark_folders["h-gldv2"], "test", hierarchy=True, verify="structure")
    assert "1 of 6 images have no hierarchical label" in caplog.text
    assert {test.tree.labels_of(path)[2] for path in test.paths.tolist()} == {5, 8}
    assert test.tree.labels_of(test.paths[test.queries[0]].tolist()) == ("human-made", "church", 8)


def test_a_vehicle_has_one_gallery_image_drawn_by_the_seed(benchmark_folders):
    draws = []
    for seed in range(8):
        test = load_vehicleid(
            benchmark_folders["vehicleid-800"], "test", gallery="one-image", seed=seed, verify="structure"
        )
        assert test.protocol == "vehicleid-one-image"
        assert sorted(test.paths[test.gallery, 0].tolist()) == [2, 3, 4]  # after the two of training
        assert not set(test.gallery) & set(test.queries)
        draws.append(tuple(test.gallery))
    assert len(set(draws)) > 2
    repeat = load_vehicleid(benchmark_folders["vehicleid-800"], "gallery", seed=0, verify="structure")
    assert [repeat.images.name(row) for row in range(3)] == [f"image/{row + 5:07d}.jpg" for row in draws[0]]


def test_all_lists_of_vehicles_stand_beside_each_other(benchmark_folders):
    test = load_vehicleid(benchmark_folders["vehicleid-800"], "test", test_classes="all", verify="structure")
    assert (test.protocol, test.queries, test.gallery) == ("vehicleid", None, None)
    splits = [(broken.split, len(broken)) for broken in (test, *test.beside)]
    assert splits == [("test_800", 9), ("test_1600", 9), ("test_2400", 6)]
    assert len(load_vehicleid(benchmark_folders["vehicleid-800"], test_classes="all", verify="structure")) == 4


def test_revisited_queries_are_cropped_and_judged_by_their_lists(benchmark_folders):
    test = load_revisited(benchmark_folders["roxford5k"], verify="structure")
    assert [test.images[row].size for row in range(6)] == [(4, 3), *[(8, 6)] * 5]
    levels, valid = revisitop_levels(test.ground_truth, len(test.gallery), setup="hard")
    assert levels.tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    assert valid.tolist() == [[False, True, True, True], [True, True, True, False]]
    scores = [[0.1, 0.2, 0.9, 0.3], [0.1, 0.9, 0.2, 0.3]]
    assert evaluate_scores(scores, levels, valid=valid, protocol=test.protocol).summary()["AP"] == 1.0


def test_distractors_follow_the_gallery_and_leave_the_ground_truth_as_it_is(benchmark_folders, tmp_path):
    write_distractors(tmp_path / "revisitop1m")
    benchmark = load_revisited(benchmark_folders["roxford5k"], verify="structure")
    test = load_revisited(benchmark_folders["roxford5k"], distractors=tmp_path, verify="structure")
    assert test.gallery.tolist() == [*benchmark.gallery.tolist(), 6, 7, 8]
    assert [test.images.name(row) for row in (5, 6, 8)] == [
        benchmark.images.name(5),
        "jpg/0a/0a1.jpg",
        "jpg/ff/ff3.jpg",
    ]
    assert test.images[8].size == (8, 6)
    assert test.tree.leaves[test.paths[8, -1]] == "distractor"
    levels, valid = revisitop_levels(test.ground_truth, len(test.gallery), setup="hard")
    assert levels[:, 4:].any() == 0
    assert valid[:, 4:].all()
    query = load_revisited(benchmark_folders["roxford5k"], "query", distractors=tmp_path, verify="structure")
    assert len(query) == 2
    assert len(load_revisited(benchmark_folders["roxford5k"], "gallery", distractors=tmp_path, verify="structure")) == 7
    (tmp_path / "revisitop1m" / "jpg" / "0a" / "0a2.jpg").unlink()
    with pytest.raises(MissingResourceError, match=r"1 of 3 images looked for.*0a2.*revisitop1m\.1\.tar\.gz"):
        load_revisited(benchmark_folders["roxford5k"], distractors=tmp_path, verify="structure")
    with pytest.raises(MissingResourceError, match=r"R1M.*revisitop1m\.txt"):
        load_revisited(benchmark_folders["roxford5k"], distractors=tmp_path / "nowhere", verify="structure")


def test_names_of_categories_may_stand_in_a_file_of_their_own(benchmark_folders, tmp_path):
    import json

    write_benchmark("inaturalist-full", tmp_path)
    pickled = json.loads((tmp_path / "train2018.json").read_text())
    (tmp_path / "categories.json").write_text(json.dumps(pickled["categories"]))
    (tmp_path / "train2018.json").unlink()
    assert (
        load_inaturalist(tmp_path, verify="structure").tree
        == load_inaturalist(benchmark_folders["inaturalist-full"], verify="structure").tree
    )
    (tmp_path / "categories.json").unlink()
    with pytest.raises(MissingResourceError, match="no taxonomy"):
        load_inaturalist(tmp_path, verify="structure")
    assert load_inaturalist(tmp_path, hierarchy="base", verify="structure").tree.num_levels == 2


def test_hashing_settings_part_cifar_into_queries_and_gallery(benchmark_folders, monkeypatch):
    monkeypatch.setattr(_cifar, "S1_QUERIES", 2)
    monkeypatch.setattr(_cifar, "S1_TRAINING", 3)
    options = {"classes": 10, "verify": "structure"}
    train = load_cifar(benchmark_folders["cifar10"], "train", setting="s1", **options)
    test = load_cifar(benchmark_folders["cifar10"], "test", setting="s1", **options)
    assert np.bincount(train.paths[:, 0]).tolist() == [3] * 4
    assert np.bincount(test.paths[test.queries, 0]).tolist() == [2] * 4
    assert sorted([*test.queries, *test.gallery]) == list(range(48))
    queries = {test.images.name(row) for row in test.queries.tolist()}
    assert not queries & {train.images.name(row) for row in range(len(train))}
    reseeded = load_cifar(benchmark_folders["cifar10"], "test", setting="s1", seed=1, **options)
    assert reseeded.queries.tolist() != test.queries.tolist()
    second = load_cifar(benchmark_folders["cifar10"], "test", setting="s2", **options)
    assert (len(second.queries), len(second.gallery)) == (8, 40)
    assert second.images.name(int(second.queries[0])) == "test_batch_0.png"
    assert len(load_cifar(benchmark_folders["cifar10"], "train", setting="s2", **options)) == 40
    with pytest.raises(OptionError, match="setting='s3'"):
        load_cifar(benchmark_folders["cifar10"], setting="s3", **options)


def test_a_damaged_pickle_is_refused_wherever_it_breaks(benchmark_folders, tmp_path):
    pickled = (benchmark_folders["roxford5k"] / "gnd_roxford5k.pkl").read_bytes()
    file = tmp_path / "gnd_roxford5k.pkl"
    for end in range(0, len(pickled), 7):
        file.write_bytes(pickled[:end])
        with pytest.raises(TableError):
            load_revisited(tmp_path, verify="structure")
    for position in range(0, len(pickled), 3):
        changed = bytearray(pickled)
        changed[position] ^= 0x55
        file.write_bytes(changed)
        with suppress(HiertreeError):
            load_revisited(tmp_path, verify="structure")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda root: datasets.load("sop", root, "val"), "split='val' of sop.*'train', 'test', 'info'"),
        (lambda root: datasets.load("cub", root, verify="nothing"), "'published' or 'structure'"),
        (lambda root: load_dyml(root, collection="plant"), "collection='plant'"),
        (lambda root: load_inaturalist(root, hierarchy="half"), "hierarchy='half'"),
        (lambda root: load_vehicleid(root, test_classes=1000), "test_classes=1000"),
        (lambda root: load_vehicleid(root, gallery="whole"), "gallery='whole'"),
        (lambda root: load_revisited(root, "train"), "one of 'test', 'query', 'gallery'"),
    ],
)
def test_impossible_options_say_what_is_possible(call, message, tmp_path):
    with pytest.raises(OptionError, match=message):
        call(tmp_path)


def test_every_protocol_named_is_one_of_the_metrics():
    from hiertree.metrics.conventions import PROTOCOLS

    protocols = {datasets.describe(name).protocol for name in datasets.available()} - {None}
    assert protocols | {"vehicleid-one-image"} == set(PROTOCOLS)  # of load_vehicleid(gallery="one-image")


@pytest.mark.parametrize(
    ("images", "list_name"), [("Img/img", "Eval"), ("Img/img_highres", "Eval"), ("img_highres", "Anno")]
)
def test_inshop_is_read_as_its_archives_unpack(tmp_path, images, list_name):
    benchmark = tmp_path / "In-shop Clothes Retrieval Benchmark"
    write_benchmark("inshop", benchmark)
    (benchmark / images).parent.mkdir(exist_ok=True)
    (benchmark / "img").rename(benchmark / images)
    if list_name != "Eval":
        (benchmark / "Eval").rename(benchmark / list_name)
    for root in (tmp_path, benchmark):
        test = load_inshop(root, "test", verify="structure")
        assert (len(test), len(test.queries), len(test.gallery)) == (6, 2, 4)
        assert test.images[0].size == (8, 6)
        assert test.images.name(0).startswith(f"{images}/")
        assert load_inshop(root, hierarchy=False, verify="structure").tree.level_names == ("item",)


@pytest.mark.parametrize("position", ["devkit", "."])
def test_cars_are_read_from_the_devkit_of_their_second_release(benchmark_folders, tmp_path, position):
    root = tmp_path / "stanford_cars"
    write_cars_devkit(root, test_annotations=position)
    for split in ("train", "test"):
        first = datasets.load("cars", benchmark_folders["cars"], split, verify="structure")
        second = datasets.load("cars", tmp_path, split, verify="structure")
        assert (len(second), second.tree.level_sizes) == (len(first), first.tree.level_sizes)
        assert set(second.tree.leaves) == set(first.tree.leaves)
        assert {image.tobytes() for image in second.images} == {image.tobytes() for image in first.images}
    (root / position / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(MissingResourceError, match="cars_test_annos_withlabels"):
        datasets.load("cars", root)


def test_a_damaged_training_list_leaves_the_test_people_of_vggface2_readable(tmp_path):
    write_benchmark("vggface2", tmp_path)
    with (tmp_path / "data" / "train_list.txt").open("a") as file:
        file.write("n000009/0001_01.jpg and more\n")
    assert len(datasets.load("vggface2", tmp_path, "test", verify="structure")) == 6
    with pytest.raises(TableError, match="3 words"):
        datasets.load("vggface2", tmp_path, "train", verify="structure")


def load_both(name, first, second, split="test"):
    """A split of a benchmark from two folders."""
    return [datasets.load(name, root, split, verify="structure") for root in (first, second)]


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("vggface2", {"data/train": "train", "data/train_list.txt": "train_list.txt"}),
        ("vggface2", {"data/train": "vggface2_train", "data/train_list.txt": "train_list.txt"}),
        ("imagenet100", {"test/test0.txt": "test0.txt", "test/test1.txt": "test1.txt"}),
        ("nus-wide", {"Groundtruth/AllLabels": "AllLabels", "Imagelist.txt": "ImageList/Imagelist.txt"}),
        ("ijb-c", {"protocols/ijbc_metadata.csv": "protocols/ijbc_metadata_with_age.csv"}),
    ],
)
def test_other_layouts_of_a_benchmark_are_read(benchmark_folders, name, moves, tmp_path):
    write_benchmark(name, folder := tmp_path / datasets.describe(name).folder)
    for old, new in moves.items():
        (folder / new).parent.mkdir(exist_ok=True)
        (folder / old).rename(folder / new)
    split = "train" if name == "vggface2" else "test"
    first, second = load_both(name, benchmark_folders[name], tmp_path, split)
    assert np.array_equal(first.paths, second.paths)
    assert first.images[5].tobytes() == second.images[5].tobytes()


def test_all_labels_of_nus_wide_may_stand_in_one_table(benchmark_folders, tmp_path):
    write_benchmark("nus-wide", tmp_path)
    folder = tmp_path / "Groundtruth" / "AllLabels"
    columns = [file.read_text().split() for file in sorted(folder.iterdir())]
    (tmp_path / "AllLabels81.txt").write_text("".join(" ".join(row) + " \n" for row in zip(*columns, strict=True)))
    first, second = load_both("nus-wide", benchmark_folders["nus-wide"], tmp_path)
    assert np.array_equal(first.vectors, second.vectors)
    pruned = second.drop_absent_classes()
    assert pruned.tree.leaves[pruned.paths[0, 0]] == "2"  # of clouds, sky, water


def test_images_of_nus_wide_are_graded_by_the_labels_they_share(benchmark_folders):
    options = {"queries_per_label": 2, "training_per_label": 3, "verify": "structure"}
    test = load_nus_wide(benchmark_folders["nus-wide"], "test", **options)
    assert (len(test.queries), len(test.gallery)) == (6, 2181)
    sets = [set(str(test.tree.leaves[node]).split(" + ")) for node in test.paths[:, 0].tolist()]
    for row in range(0, len(test), 97):
        index = int(test.images.name(row).split("/")[-1][:4])
        assert sets[row] == {label for bit, label in enumerate(NUS_LABELS) if index >> bit & 1}
    brute = [[len(sets[query] & sets[item]) for item in test.gallery] for query in test.queries]
    assert np.array_equal(test.grades(), brute)
    assert np.array_equal(
        test.grades(test.gallery[:300], [5]), [[len(sets[row] & sets[5])] for row in test.gallery[:300]]
    )
    query = load_nus_wide(benchmark_folders["nus-wide"], "query", **options)
    assert np.array_equal(query.grades(gallery=[0]), test.grades(gallery=test.queries[:1]))
    train = load_nus_wide(benchmark_folders["nus-wide"], **options)
    names = {test.images.name(row) for row in test.queries}
    assert len(train) == 9
    assert not names & {train.images.name(row) for row in range(9)}
    half = train.select([8, 0], split="two")
    assert half.grades().tolist() == train.grades([8, 0], [8, 0]).tolist()
    assert len(load_nus_wide(benchmark_folders["nus-wide"], **{**options, "training_per_label": None})) == 2181
    with pytest.raises(TableError, match=r"NUS-WIDE: .*label 1 of 3.*expected 3000.*lower queries_per_label"):
        load_nus_wide(benchmark_folders["nus-wide"], queries_per_label=2500, verify="structure")


def test_losses_learn_from_the_grades_of_pairs(benchmark_folders):
    import torch

    from hiertree.losses import TieAwareAP, TieAwareNDCG
    from hiertree.losses.functional import tie_aware_ap, tie_aware_ndcg
    from hiertree.relevance import gain

    train = load_nus_wide(benchmark_folders["nus-wide"], verify="structure")
    assert train.highest == 3
    rows, mask = np.arange(20, 32), ~torch.eye(12, dtype=torch.bool)
    outputs = torch.randn(12, 16, generator=torch.Generator().manual_seed(0), requires_grad=True)
    codes, levels = torch.tanh(outputs), torch.from_numpy(train.grades(rows, rows))
    counts = torch.stack([((levels == level) & mask).sum(dim=1) for level in range(4)], dim=1)
    distances = (codes @ codes.T - 16) / 2
    options = {"num_bits": 16, "valid": mask, "simplified": True}
    for loss, slow in (
        (TieAwareNDCG(simplified=True), tie_aware_ndcg(distances, levels, gain(counts), **options)),
        (TieAwareAP(simplified=True, level=1), tie_aware_ap(distances, levels, gain(counts), level=1, **options)),
    ):
        value_of_rows = loss.compare_rows(train.grades, train.highest)(outputs, torch.from_numpy(rows))
        assert value_of_rows.item() == pytest.approx(slow.item(), rel=1e-6)
        gradients = [torch.autograd.grad(value, outputs, retain_graph=True)[0] for value in (value_of_rows, slow)]
        torch.testing.assert_close(*gradients)
        assert gradients[0].abs().sum() > 0


def test_a_photograph_with_two_faces_is_two_images_cropped_to_their_boxes(benchmark_folders, tmp_path):
    faces = datasets.load("ijb-c", benchmark_folders["ijb-c"], "test")
    rows = [row for row in range(len(faces)) if faces.images.name(row) == "images/img/both.jpg"]
    assert faces.paths[rows, 0].tolist() == [0, 1]
    assert [faces.images[row].size for row in rows] == [(6, 6), (6, 6)]  # 4 × 4 grown by 0.3 to 5.2, from 0.4 or 1.4
    tight = datasets.load_ijbc(benchmark_folders["ijb-c"], margin=0.0)
    assert tight.images[rows[0]].size == (4, 4)
    write_benchmark("ijb-c", tmp_path)
    file = tmp_path / "protocols" / "ijbc_metadata.csv"
    text = file.read_text()
    file.write_text(text + text.splitlines()[1] + "\n")
    assert len(datasets.load("ijb-c", tmp_path, "test")) == 10
    file.write_text(text.replace(",1,1,4.0,", ",90,90,4.0,", 1))
    outside = datasets.load("ijb-c", tmp_path, "test")
    with pytest.raises(ImageError, match=r"12_0\.png' of 8 × 6 pixels, box \[89\.4.*a box inside"):
        outside.images[0]
    file.write_text("\n".join(text.splitlines()[:3]) + "\n")
    with pytest.raises(TableError, match="no person has 5 images with a box"):
        datasets.load("ijb-c", tmp_path, "test", verify="structure")
    file.write_text(text.replace("4.0", "wide", 1))
    with pytest.raises(TableError, match=r"could not convert string to float: 'wide'"):
        datasets.load("ijb-c", tmp_path, "test")


def test_what_trains_may_be_in_a_gallery_but_not_ask(benchmark_folders):
    from hiertree.pipelines.training.data.splits import check_apart

    train, test = (
        datasets.load("imagenet100", benchmark_folders["imagenet100"], broken, verify="structure")
        for broken in ("train", "test")
    )
    check_apart(train, test)
    with pytest.raises(TableError, match=r"6 of 15 images of the split 'test' are in 'train'"):
        check_apart(train, replace(test, queries=test.gallery, gallery=test.queries))


SPOILT_PICKLES = [
    ("sfm120k", "retrieval-SfM-120k.pkl", ("train",), {"cids": ["a"], "cluster": [1, 2]}, "cids and cluster"),
    ("sfm120k", "retrieval-SfM-120k.pkl", ("train",), {"cids": ["a"]}, "cids and cluster"),
    ("sfm120k", "retrieval-SfM-120k.pkl", ("train",), {"cids": 3, "cluster": [1]}, "cids and cluster"),
    ("sfm120k", "retrieval-SfM-120k.pkl", ("train",), [1], "cids and cluster"),
    ("roxford5k", "gnd_roxford5k.pkl", ("gnd", 0, "easy"), [0.5], "gnd_roxford5k"),
    ("roxford5k", "gnd_roxford5k.pkl", ("gnd", 0, "easy"), "12", "gnd_roxford5k"),
    ("roxford5k", "gnd_roxford5k.pkl", ("gnd", 0, "hard"), np.array([np.nan]), "gnd_roxford5k"),
    ("roxford5k", "gnd_roxford5k.pkl", ("gnd", 0, "junk"), [True], "gnd_roxford5k"),
    ("roxford5k", "gnd_roxford5k.pkl", ("gnd", 0, "junk"), np.array([0]), "name image 0 twice"),  # easy, too
    ("roxford5k", "gnd_roxford5k.pkl", ("imlist",), "abcd", "gnd_roxford5k"),
    ("roxford5k", "gnd_roxford5k.pkl", ("qimlist",), [1, 2], "gnd_roxford5k"),
    ("roxford5k", "gnd_roxford5k.pkl", ("imlist", 0), None, "gnd_roxford5k"),
    ("cifar100", "train", ("fine_labels", 0), 0.5, "train"),
    ("cifar100", "train", ("filenames",), "a" * 8, "train"),
    ("cifar100", "train", ("coarse_labels", 0), "1", "train"),
    ("cifar100", "meta", ("fine_label_names",), ["a", "a", "b", "c", "d", "e", "f", "g"], "a name listed twice"),
]


@pytest.mark.parametrize(("name", "file", "keys", "value", "message"), SPOILT_PICKLES)
def test_a_pickle_of_other_values_is_refused(name, file, keys, value, message, tmp_path):
    write_benchmark(name, tmp_path)
    path = next(tmp_path.rglob(file))
    pickled = broken = pickle.loads(path.read_bytes(), encoding="latin1")
    for key in keys[:-1]:
        broken = broken[key]
    broken[keys[-1]] = value
    path.write_bytes(pickle.dumps(pickled))
    with pytest.raises(TableError, match=message):
        datasets.load(name, tmp_path, "test" if name == "roxford5k" else "train", verify="structure")
