"""Figures of retrieved images: which are shown, and in which color."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import colormaps

from hiertree.errors import OptionError, ShapeError
from hiertree.pipelines.inference import plot_retrievals

IMAGES = [np.full((20, 30, 3), 10 * row, np.uint8) for row in range(6)]
PATHS = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2]])
EMBEDDINGS = np.array([[np.cos(angle), np.sin(angle)] for angle in (0, 0.1, 0.3, 0.5, 0.9, 1.4)])


def test_each_row_shows_a_query_and_its_nearest_images_in_the_color_of_their_level(tmp_path):
    figure = plot_retrievals(EMBEDDINGS, IMAGES, PATHS, queries=[0, 4], k=3)
    grays = [int(panel.images[0].get_array()[80, 80, 0]) for panel in figure.axes]
    assert grays == [0, 10, 20, 30, 40, 30, 50, 20]
    colors = [tuple(panel.spines["left"].get_edgecolor()) for panel in figure.axes[1:4]]
    assert colors == [colormaps["RdYlGn"](level / 2) for level in (2, 1, 1)]
    figure.savefig(tmp_path / "retrievals.png")
    assert (tmp_path / "retrievals.png").stat().st_size > 1000


def test_queries_are_drawn_and_need_no_labels():
    assert len(plot_retrievals(EMBEDDINGS, IMAGES, queries=2, k=10).axes) == 2 * 6
    with pytest.raises(OptionError, match=r"queries=.*rows from 0 to 5"):
        plot_retrievals(EMBEDDINGS, IMAGES, queries=[6])
    with pytest.raises(ShapeError, match="5 embeddings and 6 paths: expected 6"):
        plot_retrievals(EMBEDDINGS[:5], IMAGES, PATHS)
