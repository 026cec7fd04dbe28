"""Examples of each label: names of landmarks that carry it, and where their images are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from hiertree.errors import CategoryError

from ..clean.rules import KeptLandmark
from ..fill.image_folder import ImageFolder
from ..scrape.titles import PREFIX, category_title

SHOWN, LOOKED_AT = 6, 24  # of a label's landmarks; those with an image come first


@dataclass(frozen=True)
class Example:
    """A landmark that carries a label: its id, its name, and whether there is an image of it."""

    landmark: int
    name: str
    image: bool


def examples(kept: Iterable[KeptLandmark], images: ImageFolder | None = None) -> dict[str, list[Example]]:
    """Up to six landmarks of each label, in the order given, those with an image first.

    >>> from hiertree.pipelines.labels.clean.rules import KeptLandmark
    >>> examples([KeptLandmark(7, "http://commons.wikimedia.org/wiki/Category:Mud_Lake", ("lake",))])["lake"][0].name
    'Mud Lake'
    """
    of_label: defaultdict[str, list[KeptLandmark]] = defaultdict(list)
    for landmark in kept:
        for label in landmark.labels:
            if len(of_label[label]) < LOOKED_AT:
                of_label[label].append(landmark)
    return {label: _shown(landmarks, images) for label, landmarks in of_label.items()}


def _shown(landmarks: list[KeptLandmark], images: ImageFolder | None) -> list[Example]:
    found = [
        Example(at.landmark_id, landmark_name(at.category), bool(images and images.find(at.landmark_id)))
        for at in landmarks
    ]
    return sorted(found, key=lambda example: not example.image)[:SHOWN]


def landmark_name(category: str) -> str:
    """What a Commons category is called; the text itself where it is no such URL.

    >>> landmark_name("http://commons.wikimedia.org/wiki/Category:Mud_Lake"), landmark_name("C7")
    ('Mud Lake', 'C7')
    """
    try:
        return category_title(category).removeprefix(PREFIX)
    except CategoryError:
        return category.rpartition(PREFIX)[2].replace("_", " ")
