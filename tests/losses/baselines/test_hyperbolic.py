"""Hyperbolic distances as scores of losses, and HIER, against loop transcriptions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import reference_baselines as baselines
import reference_hyperbolic as reference
import torch
from loss_loops import labeled_batch

from hiertree.errors import EmbeddingError, OptionError, ShapeError
from hiertree.losses import (
    CSL,
    HAPPIER,
    HIER,
    CrossBatchMemory,
    Hyperbolic,
    ProxyDecomposability,
    SmoothRecall,
    SupAP,
    SupCon,
    as_pytorch_metric_learning,
)
from hiertree.losses.baselines import hyperbolic as _hyperbolic
from hiertree.metrics.rerank import poincare_vectors

BALL = {"curvature": 0.3, "radius": 2.0, "scale": 1.4}
SIZE = 5
ROLES = ("query", "item")


batch = partial(labeled_batch, size=SIZE, classes=5)


def distances_by_loops(rows, columns):
    points = [[reference.point(row, **BALL) for row in rows_of.tolist()] for rows_of in (rows, columns)]
    return [[reference.distance(x, y, 0.3) for y in points[1]] for x in points[0]]


def test_scores_of_pairs_are_minus_distances_in_the_ball():
    (embeddings, paths), (memory, memory_paths) = batch(), batch(1, 24)
    loss = Hyperbolic(SupCon(temperature=0.5, level=1), **BALL)
    terms = []
    for row, path in zip(distances_by_loops(embeddings, memory), paths, strict=True):
        positive = (memory_paths[:, 0] == path[0]).tolist()
        terms.append(baselines.contrastive([-d for d in row], positive, 0.5))
    is_known = [term for term in terms if term is not None]
    value = loss(embeddings, paths, memory, memory_paths)
    assert value.item() == pytest.approx(sum(is_known) / len(is_known), rel=1e-10)
    assert torch.autograd.gradcheck(
        lambda e, m: loss(e, paths, m, memory_paths), (embeddings.requires_grad_(), memory.requires_grad_())
    )


@pytest.mark.parametrize(("curvature", "radius"), [(0.1, 2.3), (4.0, 3.0)])
def test_points_at_the_radius_and_at_the_edge_are_searched_by_the_distances_of_losses(curvature, radius):
    vectors = 3 * batch(0, 40)[0]
    points = _hyperbolic.poincare_points(vectors, curvature=curvature, radius=radius, scale=0.5)
    distances = _hyperbolic.poincare_distances(points, points, curvature)
    lifted = {
        dtype: [
            poincare_vectors(vectors.to(dtype), role, curvature=curvature, radius=radius, scale=0.5) for role in ROLES
        ]
        for dtype in (torch.float32, torch.float64)
    }
    cosines = {dtype: queries @ items.T for dtype, (queries, items) in lifted.items()}
    order = np.argsort(-cosines[torch.float64], axis=1)
    np.testing.assert_allclose(np.sort(distances.numpy()), np.take_along_axis(distances.numpy(), order, 1), atol=1e-6)
    np.testing.assert_allclose(cosines[torch.float32], cosines[torch.float64], atol=1e-5)


@pytest.mark.parametrize("loss", [SupCon(), SupAP()])
def test_equal_and_distant_points_have_finite_gradients_in_half_precision_too(loss):
    embeddings = torch.cat([torch.zeros(2, SIZE), torch.full((2, SIZE), 1e4), torch.eye(SIZE)]).bfloat16()
    leaf = embeddings.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = Hyperbolic(loss, radius=100.0)(leaf, torch.tensor([0, 0, 0, 1, 1, 2, 2, 3, 3]))
    value.backward()
    assert value.dtype == torch.float32
    assert value.isfinite()
    assert leaf.grad.isfinite().all()


def test_of_embeddings_of_one_length_the_order_is_that_of_cosines():
    unit = torch.nn.functional.normalize(batch(0, 40)[0])
    points = Hyperbolic(SupCon(), scale=2.3).points(unit)
    distances = _hyperbolic.poincare_distances(points, points, 0.1)
    assert torch.equal((unit @ unit.T).argsort(dim=1), distances.argsort(dim=1, descending=True))


def drawn_noise(num_triplets, num_proxies):
    """What Gumbel softmax adds for both ancestors, drawn as torch draws it."""
    return [-torch.empty(num_triplets, num_proxies, dtype=torch.float64).exponential_().log() for _ in range(2)]


def test_losses_of_triplets_and_their_straight_through_gradients_are_those_of_the_loops():
    generator = torch.Generator().manual_seed(0)
    distances = torch.rand(6, 4, generator=generator, dtype=torch.float64)
    triplets = torch.tensor([[0, 1, 2, 3, 0, 5], [1, 2, 0, 4, 5, 4], [2, 3, 5, 0, 3, 1]])
    leaf, options = distances.clone().requires_grad_(), {"tau": 0.4, "delta": 0.2}
    torch.manual_seed(7)
    losses = _hyperbolic.ancestor_losses(leaf, triplets, temperature=0.4, margin=0.2)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    torch.manual_seed(7)
    noise = [rows.tolist() for rows in drawn_noise(6, 4)]
    at, members = distances.tolist(), [tuple(triplet) for triplet in triplets.T.tolist()]
    expected = reference.ancestor_losses(at, at, members, noise, **options)
    assert losses.tolist() == pytest.approx(expected, rel=1e-10)
    assert 0 < sum(value > 0 for value in expected) < 6
    for row, column in torch.cartesian_prod(torch.arange(6), torch.arange(4)).tolist():
        totals = []
        for step in (1e-6, -1e-6):
            moved = distances.clone()
            moved[row, column] += step
            totals.append(sum(reference.ancestor_losses(moved.tolist(), at, members, noise, **options)))
        assert gradient[row, column].item() == pytest.approx((totals[0] - totals[1]) / 2e-6, abs=1e-6)


def test_losses_of_triplets_are_those_of_the_authors_code():
    """``python benchmarks/authors_code.py hier FOLDER``, whose 1e-5 in divisors move its values by 2e-5."""
    numbers, order = torch.arange(288, dtype=torch.float64), torch.arange(36)
    leaf = (1.7 * numbers[:80]).sin().reshape(20, 4).requires_grad_()
    loss = HIER(SupCon(), 4, num_proxies=8)
    points = loss._on_manifold(loss.points(leaf))
    distances = _hyperbolic.poincare_distances(points[:12], points[12:], 0.1)
    triplets = torch.stack([order % 12, (order + 1) % 12, (5 * order + 3) % 12])
    noise = [(factor * numbers).cos().reshape(36, 8) for factor in (2, 3)]
    value = _hyperbolic._AncestorLosses.apply(distances, triplets, *noise, 0.1, 0.1).mean()
    (gradient,) = torch.autograd.grad(value, leaf)
    assert (value.item(), gradient.norm().item()) == pytest.approx((0.202561453506, 0.103975899141), rel=3e-5)


def test_triplets_are_of_reciprocal_neighbors_and_of_others():
    similarities = torch.rand(12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    similarities = similarities + similarities.T
    valid = ~torch.eye(12, dtype=torch.bool)
    triplets = _hyperbolic.reciprocal_triplets(similarities, valid, 5, 400)
    expected = reference.neighbors(similarities.tolist(), 5)
    rows = [i for i in range(12) if len(expected[i]) > 1]
    assert rows
    assert triplets.shape == (3, 400 * len(rows))
    for i in rows:
        of_i = triplets[:, triplets[0] == i]
        assert set(of_i[1].tolist()) == expected[i]
        assert set(of_i[2].tolist()) == set(range(12)) - expected[i] - {i}


def test_hier_is_its_loss_and_the_losses_of_triplets_of_items_and_of_proxies():
    embeddings, paths = batch()
    loss = HIER(SupCon(), SIZE, weight=0.5, num_proxies=7, neighbors=5, num_triplets=20, level=1, **BALL).double()
    torch.manual_seed(2)
    terms = loss.terms(embeddings, paths)
    assert loss.total(terms).item() == pytest.approx(terms["SupCon"].item() + 0.5 * terms["HIER"].item())
    points = [reference.point(row, **BALL) for row in embeddings.tolist()]
    proxies = [reference.point(row, **{**BALL, "scale": 1.0}) for row in loss.proxies.tolist()]
    torch.manual_seed(2)
    expected = 0.0
    for items, labels in ((points, paths[:, 0]), (proxies, torch.arange(7))):
        apart = torch.tensor([[reference.distance(x, y, 0.3) for y in items] for x in items], dtype=torch.float64)
        to_proxies = [[reference.distance(x, y, 0.3) for y in proxies] for x in items]
        valid = ~torch.eye(len(items), dtype=torch.bool)
        similarities = (-apart).exp() + ((labels[:, None] == labels) & valid)
        triplets = _hyperbolic.reciprocal_triplets(similarities, valid, 5, 20)
        noise = [rows.tolist() for rows in drawn_noise(triplets.shape[1], 7)]
        members = [tuple(triplet) for triplet in triplets.T.tolist()]
        losses = reference.ancestor_losses(to_proxies, to_proxies, members, noise, tau=0.1, delta=0.1)
        expected += sum(losses) / len(losses)
    assert terms["HIER"].item() == pytest.approx(expected, rel=1e-9)


def test_the_gradient_is_the_riemannian_one_unless_the_euclidean_is_asked_for():
    embeddings, paths = batch()
    gradients = []
    for riemannian in (False, True):
        torch.manual_seed(0)
        loss = HIER(SupCon(), SIZE, num_proxies=9, neighbors=6, riemannian=riemannian, weight=1.0).double()
        gradients.append(torch.autograd.grad(loss.terms(embeddings, paths)["HIER"], loss.proxies)[0])
    proxies = torch.tensor([reference.point(row, 0.1, 2.3, 1.0) for row in loss.proxies.tolist()], dtype=torch.float64)
    factor = ((1 - 0.1 * proxies.square().sum(dim=1, keepdim=True)) / 2) ** 2
    torch.testing.assert_close(gradients[1], factor * gradients[0])


def test_items_that_are_no_queries_make_no_triplets():
    embeddings, paths = batch(0, 20)
    loss = HIER(SupCon(), SIZE, num_proxies=9, neighbors=6).double()
    memory, memory_paths = batch(3, 8)
    queries = torch.arange(20) < 12
    values = []
    for arguments in (
        (embeddings[:12], paths[:12], memory, memory_paths),
        (embeddings, paths, memory, memory_paths, queries),
    ):
        torch.manual_seed(0)
        mask = None if len(arguments) == 4 else arguments[4][:, None]
        values.append(loss.terms(*arguments[:4], valid=mask))
    torch.testing.assert_close(values[0]["SupCon"], values[1]["SupCon"])
    leaf = embeddings.clone().requires_grad_()
    loss(leaf, paths, valid=queries[:, None] & queries).backward()
    assert leaf.grad[12:].abs().max() == 0 < leaf.grad[:12].abs().max()


def test_a_batch_without_neighbors_adds_nothing_and_a_memory_serves_the_inner_loss():
    loss = HIER(SupAP(), SIZE, num_proxies=1).double()
    embeddings = batch(0, 2)[0].requires_grad_()
    terms = loss.terms(embeddings, torch.tensor([0, 1]))
    assert terms["HIER"].item() == 0
    loss.total(terms).backward()
    memory = CrossBatchMemory(HIER(SupAP(), SIZE, num_proxies=4, neighbors=3), SIZE, 1, size=20)
    for seed in (0, 1):
        vectors, paths = batch(seed, 12)
        assert memory(vectors.float(), paths[:, 1]).isfinite()


def test_grades_of_pairs_say_which_items_are_of_a_class():
    embeddings, paths = batch(0, 20)
    graded = [HIER(SupAP(), SIZE, num_proxies=6, neighbors=6), Hyperbolic(SupAP())]
    labeled_losses = [HIER(SupAP(), SIZE, num_proxies=6, neighbors=6), Hyperbolic(SupAP())]
    for by_rows, by_labels in zip(graded, labeled_losses, strict=True):
        by_rows.load_state_dict(by_labels.state_dict())
        by_rows.compare_rows(lambda a, b: (paths[a, None, 1] == paths[b, 1]).byte().numpy(), 1)
        values = []
        for loss, labels in ((by_rows, torch.arange(20)), (by_labels, paths[:, 1])):
            torch.manual_seed(0)
            values.append(loss.double()(embeddings, labels).item())
        assert values[0] == pytest.approx(values[1])


def test_bad_input_is_refused():
    pytest.importorskip("pytorch_metric_learning")
    with pytest.raises(OptionError, match=r"loss=HAPPIER.*pairs"):
        Hyperbolic(HAPPIER(5, SIZE))
    with pytest.raises(OptionError, match=r"loss=SmoothRecall.*pairs of images"):
        Hyperbolic(SmoothRecall(similarity_mixup=True))
    mined = tuple(torch.tensor([row]) for row in (0, 1, 2))
    with pytest.raises(OptionError, match="labels=None"):
        as_pytorch_metric_learning(HIER(SupAP(), SIZE))(torch.randn(4, SIZE), None, mined)
    with pytest.raises(OptionError, match="loss of hiertree"):
        HIER(torch.nn.Linear(2, 2), SIZE)
    with pytest.raises(ShapeError, match="3 dimensions"):
        HIER(SupAP(), SIZE)(torch.eye(3), torch.tensor([0, 0, 1]))
    with pytest.raises(EmbeddingError, match="NaN"):
        Hyperbolic(SupAP())(torch.full((2, 2), torch.nan), torch.tensor([0, 0]))
    with pytest.raises(OptionError, match="graded"):
        HIER(ProxyDecomposability(3, SIZE), SIZE).compare_rows(lambda *_: None, 1)
    with pytest.raises(OptionError, match="graded"):
        HIER(CSL([[0]], SIZE), SIZE).compare_rows(lambda *_: None, 1)
