"""The loss modules: embeddings and paths in, a scalar out."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import reference_losses as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from largest_tensor import LargestTensor
from loss_loops import labeled_batch, losses_and_loops
from loss_loops import loops as loops_of_pairs
from torch.utils._python_dispatch import TorchDispatchMode

from hiertree import losses
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.losses import (
    CSL,
    HAPPIER,
    ROADMAP,
    RODNDCG,
    BlackboxAP,
    FastAP,
    HierarchicalTriplet,
    HiMulCon,
    LevelSum,
    Loss,
    PairDecomposability,
    ProxyDecomposability,
    RODRecall,
    SmoothAP,
    SmoothHAP,
    SmoothNDCG,
    SmoothRecall,
    SoftBinAP,
    SupAP,
    SupCon,
    SupHAP,
    SupNDCG,
    SupRecall,
)
from hiertree.losses.base import PairLoss
from hiertree.losses.pairs.blocks import keep_full_precision
from hiertree.losses.pairs.pairs import pairs_of

NUM_CLASSES, SIZE = 12, 8
LOSSES = {
    "SupHAP": SupHAP,
    "SupNDCG": SupNDCG,
    "SupAP": SupAP,
    "SupRecall": SupRecall,
    "Sup weighted AP": lambda: SupHAP(level_weights=(0.25, 0.75)),
    "SmoothHAP": SmoothHAP,
    "SmoothNDCG": SmoothNDCG,
    "SmoothAP": SmoothAP,
    "SmoothRecall": SmoothRecall,
    "FastAP": FastAP,
    "SoftBinAP": SoftBinAP,
    "PairDecomposability": PairDecomposability,
    "PairDecomposability avg_nonzero": lambda: PairDecomposability(reduction="avg_nonzero"),
    "ProxyDecomposability": lambda: ProxyDecomposability(NUM_CLASSES, SIZE),
    "ProxyDecomposability of 3 centers": lambda: ProxyDecomposability(NUM_CLASSES, SIZE, centers=3),
    "HAPPIER": lambda: HAPPIER(NUM_CLASSES, SIZE),
    "RODNDCG": lambda: RODNDCG(NUM_CLASSES, SIZE),
    "RODRecall": lambda: RODRecall(NUM_CLASSES, SIZE),
    "RODRecall pair": lambda: RODRecall(decomposability="pair"),
    "Contrastive": SupCon,
    "HiMulCon": lambda: HiMulCon(2),
    "HierarchicalTriplet": lambda: HierarchicalTriplet((0.1, 0.2)),
    "LevelSum": lambda: LevelSum(lambda _: SupAP(), level_sizes=(3, NUM_CLASSES)),
    "ROADMAP pair": ROADMAP,
    "ROADMAP proxy": lambda: ROADMAP(NUM_CLASSES, SIZE, decomposability="proxy"),
}
RANK_LOSSES = [name for name in LOSSES if name[:2] in ("Su", "Sm")]
CLASS_PATHS = torch.stack([torch.arange(NUM_CLASSES) // 4, torch.arange(NUM_CLASSES)], dim=1)
MORE = {  # without proxies for other classes, or with a gradient that is no derivative
    "CSL": lambda: CSL(CLASS_PATHS, SIZE),
    "BlackboxAP": lambda: BlackboxAP(margin=0.0),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
these_and_more = pytest.mark.parametrize("name", {**LOSSES, **MORE})


def made(name):
    return {**LOSSES, **MORE}[name]()


ELSEWHERE = {  # whose own files test what this one does: codes, a library's losses, and losses around a loss
    *("CrossBatchMemory", "DistributedLoss", "Loss", "PytorchMetricLearning", "TieAwareAP", "TieAwareNDCG", "DPSH"),
    *("DTSH", "HIER", "HashNet", "Hyperbolic", "MIHash"),
}


def test_every_public_loss_is_tested_here_or_in_a_file_of_its_own():
    public = {name: getattr(losses, name) for name in losses.__all__}
    classes = {
        name for name, loss_class in public.items() if isinstance(loss_class, type) and issubclass(loss_class, Loss)
    }
    assert classes - {type(made(name)).__name__ for name in (*LOSSES, *MORE)} == ELSEWHERE


batch = partial(labeled_batch, num_items=24, size=SIZE, classes=NUM_CLASSES, branching=4)


def loops(objective, embeddings, paths):
    """The values of the queries that have one, each query's candidates being the rest of the batch."""
    items = embeddings, paths
    return loops_of_pairs(objective, items, items, ~torch.eye(len(paths), dtype=torch.bool))


SUP = {"equal": reference.heaviside, "lower": reference.h_minus()}
TRANSCRIBED = ["SupHAP", "SupNDCG", "SupAP", "SmoothHAP", "SmoothNDCG", "PairDecomposability"]


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(TRANSCRIBED))
def test_a_loss_counts_items_at_the_levels_that_are_known(seed, name):
    embeddings, paths = batch(seed)
    paths[torch.rand(len(paths), generator=torch.Generator().manual_seed(seed)) < 0.3, 1] = -1
    loss, objective = losses_and_loops(2)[name]
    values = loops(objective, embeddings, paths)
    assert float(loss(embeddings, paths)) == pytest.approx(sum(values) / max(len(values), 1), rel=1e-12)
    assert loss.last_num_skipped == len(paths) - len(values)


def test_alpha_stresses_the_finest_level():
    embeddings, paths = batch()
    values = loops(
        lambda scores, levels: reference.one_minus_h_ap(
            scores, levels, reference.hap_table(levels, 2, alpha=5.0), **SUP
        ),
        embeddings,
        paths,
    )
    assert float(SupHAP(alpha=5.0)(embeddings, paths)) == pytest.approx(sum(values) / len(values), rel=1e-12)


def test_coarse_positives_by_level():
    embeddings, paths = batch()
    assert float(SupAP(level=1)(embeddings, paths)) == float(SupAP()(embeddings, paths[:, 0]))
    assert float(SmoothAP(level=1)(embeddings, paths)) == float(SmoothAP()(embeddings, paths[:, 0]))
    assert float(PairDecomposability(level=1)(embeddings, paths)) == float(
        PairDecomposability()(embeddings, paths[:, 0])
    )
    with pytest.raises(OptionError, match="level=3"):
        SupAP(level=3)(embeddings, paths)


@every_loss
def test_gradient_equals_central_differences(name):
    torch.manual_seed(0)
    embeddings, paths = batch(num_items=9)
    loss = LOSSES[name]().double()
    assert torch.autograd.gradcheck(
        lambda e: loss(e, paths), embeddings.requires_grad_(), eps=1e-8, atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize("name", [*RANK_LOSSES, "FastAP", "ProxyDecomposability", "HAPPIER", "BlackboxAP"])
def test_a_second_derivative_is_refused_by_losses_that_have_none(name):
    embeddings, paths = batch()
    value = made(name).double()(embeddings.requires_grad_(), paths)
    (gradient,) = torch.autograd.grad(value, embeddings, create_graph=True)
    with pytest.raises(OptionError, match="second derivative"):
        gradient.square().sum().backward()


@these_and_more
def test_neither_the_order_of_the_batch_nor_the_length_of_vectors_matters(name):
    torch.manual_seed(0)
    embeddings, paths = batch()
    loss = made(name).double()
    shuffled = torch.randperm(len(paths))
    lengths = torch.rand(len(paths), 1, dtype=torch.float64) * 1e200 + 1e-200
    torch.testing.assert_close(loss((embeddings * lengths)[shuffled], paths[shuffled]), loss(embeddings, paths))


@these_and_more
def test_terms_add_up_to_the_loss(name):
    embeddings, paths = batch()
    loss = made(name).double()
    terms = loss.terms(embeddings, paths)
    assert set(terms) == set(loss.weights)
    weighted = sum(loss.weights[name] * value.item() for name, value in terms.items())
    assert loss.total(terms).item() == loss(embeddings, paths).item() == pytest.approx(weighted)


def test_lambda_weighs_the_two_terms():
    assert HAPPIER(3, 2).weights == {"SupHAP": 0.9, "ProxyDecomposability": 0.1}
    assert ROADMAP().weights == {"SupAP": 0.5, "PairDecomposability": 0.5}
    assert ROADMAP(3, 2, decomposability="proxy").weights == {"SupAP": 0.9, "ProxyDecomposability": 0.1}
    assert RODNDCG(3, 2, lambda_=0.25).weights == {"SupNDCG": 0.75, "ProxyDecomposability": 0.25}
    assert all(type(weight) is float for weight in RODNDCG(3, 2, lambda_=Fraction(1, 4)).weights.values())


STEP = {"tau": 0.02, "rho": 30.0, "delta": 0.03, "start": 0.25, "offset": 0.9, "include_self": True}
PROXY = {"eta": 0.1, "centers": 2, "sampled_classes": 7}
COMBINED = {
    "HAPPIER": (HAPPIER(NUM_CLASSES, SIZE, alpha=3.0, **STEP, **PROXY), SupHAP(alpha=3.0, **STEP)),
    "RODNDCG": (RODNDCG(NUM_CLASSES, SIZE, **STEP, **PROXY), SupNDCG(**STEP)),
    "RODRecall": (
        RODRecall(NUM_CLASSES, SIZE, ks=(3,), tau_star=0.5, level=1, **STEP, **PROXY),
        SupRecall(ks=(3,), tau_star=0.5, level=1, **STEP),
    ),
    "ROADMAP": (ROADMAP(NUM_CLASSES, SIZE, decomposability="proxy", level=1, **STEP, **PROXY), SupAP(level=1, **STEP)),
}


@pytest.mark.parametrize("name", COMBINED)
def test_options_of_a_combined_loss_reach_its_parts(name):
    embeddings, paths = batch()
    loss, rank = COMBINED[name]
    proxies = ProxyDecomposability(NUM_CLASSES, SIZE, **PROXY)
    proxies.proxies = next(loss.parameters())
    torch.manual_seed(0)
    expected = 0.9 * rank(embeddings, paths) + 0.1 * proxies(embeddings, paths)
    torch.manual_seed(0)
    torch.testing.assert_close(loss(embeddings, paths), expected)


def test_options_of_pairs_reach_l_dg():
    embeddings, paths = batch()
    pairs = {"alpha": 0.7, "beta": 0.1, "level": 1, "include_self": True}
    expected = 0.8 * SupAP(level=1, include_self=True)(embeddings, paths)
    expected = expected + 0.2 * PairDecomposability(**pairs, reduction="avg_nonzero")(embeddings, paths)
    value = ROADMAP(**pairs, reduction="avg_nonzero", lambda_=0.2)(embeddings, paths)
    torch.testing.assert_close(value, expected)
    expected = 0.8 * SupRecall(level=1, include_self=True)(embeddings, paths)
    expected = expected + 0.2 * PairDecomposability(**pairs)(embeddings, paths)
    value = RODRecall(**pairs, decomposability="pair", lambda_=0.2)(embeddings, paths)
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("name", RANK_LOSSES)
def test_reference_embeddings_are_ranked_instead_of_the_batch(name):
    embeddings, paths = batch()
    memory, memory_paths = batch(1, num_items=31)
    loss = LOSSES[name]()
    assert isinstance(loss, PairLoss)
    with_memory = torch.cat([embeddings[:1], memory]), torch.cat([paths[:1], memory_paths])
    expected = loss.query_losses(pairs_of(*with_memory).compared()).values[0]
    torch.testing.assert_close(loss(embeddings[:1], paths[:1], memory, memory_paths), expected)


def test_the_batch_given_as_its_own_reference_is_masked_and_a_copy_is_not():
    embeddings, paths = batch()
    loss = SupHAP()
    expected = float(loss(embeddings, paths))
    assert float(loss(embeddings, paths, embeddings, paths)) == expected
    assert float(loss(embeddings, paths, embeddings.clone(), paths)) != expected


@these_and_more
def test_masked_items_are_ranked_and_do_not_query(name):
    torch.manual_seed(0)
    embeddings, paths = batch()
    loss = made(name).double()
    queries = torch.arange(len(paths)) < 9
    value = loss(embeddings, paths, valid=queries[:, None])
    valid = ~torch.eye(9, len(paths), dtype=torch.bool)
    torch.testing.assert_close(value, loss(embeddings[:9], paths[:9], embeddings, paths, valid=valid))


def test_include_self_adds_the_query_as_its_own_best_match():
    embeddings, paths = batch()
    loss = SupAP(include_self=True)
    expected = SupAP()(embeddings, paths, embeddings.clone(), paths)
    assert float(loss(embeddings, paths)) == pytest.approx(float(expected))
    assert loss.last_num_skipped == 0


@pytest.mark.parametrize("name", [*RANK_LOSSES, "FastAP", "SoftBinAP", "PairDecomposability", "ROADMAP pair"])
def test_gradient_flows_to_queries_and_to_a_memory_that_asks_for_it(name):
    embeddings, paths = batch(num_items=4)
    memory, memory_paths = batch(1, num_items=9)
    loss = LOSSES[name]()
    assert torch.autograd.gradcheck(
        lambda e, m: loss(e, paths, m, memory_paths),
        (embeddings.requires_grad_(), memory.requires_grad_()),
        eps=1e-8,
        atol=1e-5,
        rtol=1e-4,
    )


@pytest.mark.parametrize("name", ["SupHAP", "SupNDCG", "SupAP"])
def test_a_perfect_ranking_gives_0(name):
    paths = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2]])
    angles = torch.tensor([0.0, 0.1, 1.0, 1.12, 3.0, 3.1])  # no two alike: a tie among positives costs NDCG
    embeddings = torch.stack([angles.cos(), angles.sin()], dim=1)
    assert float(LOSSES[name]()(embeddings, paths)) == pytest.approx(0, abs=1e-6)


@every_loss
@pytest.mark.parametrize("labels", ["one class", "classes of one image"])
def test_degenerate_batches_give_a_finite_loss_with_a_graph(name, labels):
    embeddings, _ = batch(num_items=6)
    column = torch.zeros(6, dtype=torch.int64) if labels == "one class" else torch.arange(6)
    loss = LOSSES[name]().double()
    value = loss(embeddings.requires_grad_(), torch.stack([column, column], dim=1))
    value.backward()
    assert value.item() >= -1e-9
    if labels == "classes of one image" and name in RANK_LOSSES:
        assert value.item() == 0
        assert loss.last_num_skipped == 6


@these_and_more
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0])
def test_autocast_gives_no_nan_from_perfect_to_random_embeddings(name, dtype, spread):
    torch.manual_seed(0)
    noise, paths = batch(dtype=torch.float32)
    centers = torch.randn(NUM_CLASSES, SIZE)
    images = centers[paths[:, 1]] + spread * noise
    layer, loss = torch.nn.Linear(SIZE, SIZE), made(name)
    with torch.autocast("cpu", dtype=dtype):
        embeddings = layer(images)
        value = loss(embeddings, paths)
    assert embeddings.dtype == dtype
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(embeddings.float(), paths), rtol=1e-6, atol=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16, init_scale=1024.0)
    scaler.scale(value).backward()
    assert all(bool(p.grad.isfinite().all()) for p in layer.parameters() if p.grad is not None)
    assert layer.weight.grad is not None


@these_and_more
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0])
def test_bad_embeddings_are_refused_by_row(name, bad):
    embeddings, paths = batch()
    embeddings[5] = bad
    with pytest.raises(EmbeddingError, match=r"embeddings.*rows: 5"):
        made(name).double()(embeddings, paths)


def test_input_that_does_not_fit_is_refused():
    embeddings, paths = batch()
    loss = SupHAP()
    with pytest.raises(ShapeError, match="24 rows"):
        loss(embeddings, paths[:-1])
    with pytest.raises(ShapeError, match="both or neither"):
        loss(embeddings, paths, embeddings)
    with pytest.raises(ShapeError, match="one L"):
        loss(embeddings, paths, embeddings.clone(), paths[:, 0])
    with pytest.raises(ShapeError, match="dimensions"):
        loss(embeddings, paths, embeddings[:, 1:], paths)
    with pytest.raises(ShapeError, match="n, d"):
        loss(embeddings, paths, embeddings[:0], paths[:0])
    with pytest.raises(PathError, match="negative"):
        loss(embeddings, -paths - 1)
    with pytest.raises(EmbeddingError, match="floating-point"):
        loss(torch.ones(24, 3, dtype=torch.int64), paths)


def test_a_class_without_a_proxy_is_refused_by_row():
    with pytest.raises(PathError, match="finest id 9 in row 1"):
        HAPPIER(9, 2)(torch.eye(2), torch.tensor([[0, 8], [0, 9]]))


def test_proxies_learn_and_are_saved_with_the_loss():
    torch.manual_seed(0)
    embeddings, paths = batch(dtype=torch.float32)
    loss = HAPPIER(NUM_CLASSES, SIZE)
    optimizer = torch.optim.SGD(loss.parameters(), lr=10.0)
    first_value = loss(embeddings, paths).item()
    for _ in range(20):
        optimizer.zero_grad()
        loss(embeddings, paths).backward()
        optimizer.step()
    assert loss(embeddings, paths).item() < first_value
    copy = HAPPIER(NUM_CLASSES, SIZE)
    copy.load_state_dict(loss.state_dict())
    assert copy(embeddings, paths).item() == loss(embeddings, paths).item()


@pytest.mark.parametrize("name", RANK_LOSSES)
def test_no_tensor_has_a_number_for_every_query_positive_and_candidate(name):
    num_items = 256  # one block
    embeddings = torch.randn(num_items, SIZE, requires_grad=True)
    fine = torch.arange(num_items) // 4
    with LargestTensor() as memory:
        LOSSES[name]()(embeddings, torch.stack([fine // 12, fine], dim=1)).backward()
    assert num_items**2 <= memory.largest <= num_items**3 / 8


def test_options_show_in_the_representation():
    expected = {
        SupHAP(alpha=3): ("alpha=3", "tau=0.01"),
        HAPPIER(3, 2): ("lambda_=0.1", "num_classes=3"),
        SmoothAP(): ("level=finest",),
        ROADMAP(): ("reduction='mean'", "rho=100"),
    }
    for loss, texts in expected.items():
        assert all(text in repr(loss) for text in texts)


class Products(TorchDispatchMode):
    """The types of the factors of every matrix product, and the precision that the program has set for it."""

    seen: set[tuple[torch.dtype, str]]

    def __enter__(self):
        self.seen = set()
        super().__enter__()
        return self

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            self.seen.add((args[-1].dtype, torch.backends.mkldnn.matmul.fp32_precision))
        return func(*args, **kwargs or {})


@pytest.fixture
def _coarse_products():
    """What programs set for the speed of their networks: TF32, or bfloat16 on a CPU, and autocast."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield
    torch.set_float32_matmul_precision(precision)


@pytest.mark.usefixtures("_coarse_products")
@these_and_more
def test_scores_are_products_of_float32_whatever_the_program_has_set(name):
    embeddings, paths = batch(dtype=torch.float32)
    loss = made(name)
    with Products() as products:
        loss(embeddings, paths)
    assert products.seen == {(torch.float32, "ieee")}
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.usefixtures("_coarse_products")
def test_gradients_of_chunks_and_proxies_are_products_of_float32_too():
    embeddings, paths = batch(dtype=torch.float32)
    loss = HAPPIER(NUM_CLASSES, SIZE)
    with Products() as products:
        loss(embeddings.requires_grad_(), paths).backward()
    assert products.seen == {(torch.float32, "ieee")}


def test_products_on_a_gpu_are_not_tf32():
    matmul, precision = torch.backends.cuda.matmul, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    with keep_full_precision(torch.device("cuda")):
        assert matmul.fp32_precision == "ieee"
    assert matmul.fp32_precision == "tf32"
    torch.set_float32_matmul_precision(precision)


@these_and_more
def test_the_gradient_of_torch_func_is_that_of_autograd(name):
    embeddings, paths = batch()
    loss = made(name).double()
    (expected,) = torch.autograd.grad(loss(embeddings.requires_grad_(), paths), embeddings)
    assert torch.equal(torch.func.grad(lambda vectors: loss(vectors, paths))(embeddings.detach()), expected)
    assert loss.last_num_skipped >= 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning")  # of torch itself, in forward mode
@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.jacrev, torch.func.jacfwd])
@pytest.mark.parametrize("name", ["SupAP", "HAPPIER", "BlackboxAP"])
def test_other_transforms_of_torch_func_are_refused_in_one_message(name, transform):
    embeddings, paths = batch()
    loss = made(name).double()
    inputs = embeddings[None] if transform is torch.func.vmap else embeddings
    with pytest.raises(OptionError, match=r"a loss under torch.func.(vmap|jvp): expected"):
        transform(lambda vectors: loss(vectors, paths))(inputs)


@pytest.mark.parametrize("make", [SupHAP, SmoothHAP, partial(HAPPIER, NUM_CLASSES, SIZE)])
def test_weights_of_levels_are_checked_when_the_loss_is_made(make):
    for bad in ((0.5, 0.6), (), (-0.5, 1.5), (float("nan"), 1.0), ("0.5", 0.5), 1.0):
        with pytest.raises(OptionError, match="level_weights"):
            make(level_weights=bad)
    random_rows = np.random.default_rng(0).random((50, 2), dtype=np.float32)
    embeddings, paths = batch()
    for weights in random_rows / random_rows.sum(axis=1, keepdims=True):
        value = make(level_weights=weights)(embeddings, paths)
        assert value.isfinite()
    make(level_weights=torch.full((5,), 0.2))
