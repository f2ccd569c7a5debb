"""Recipes: pinned content, definitions against independent constructions, texts, refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from unittest import mock

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench import recipes
from spgraph_bench.errors import InputError
from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.recipes import base, grids, patterns, random_graphs
from spgraph_bench.recipes.draw import AliasTable, Words, below, unit

# A change of any of these breaks the promise that a recipe is the same matrix everywhere and forever.
PINNED = {
    "arrow:n=50": "6087259a8c67ecad",
    "banded:n=100,diagonals=7": "b601003ac716f334",
    "banded:n=64,diagonals=4,values=ones": "4a2f361a38851aa3",
    "blocks:n=7,block=3": "0ebc404efccc4f0a",
    "chain:n=50": "26aa278af988c3bf",
    "dense:rows=13,cols=29": "a0548e6f2cccf496",
    "fem2d:n=7": "985ad40180079fc0",
    "fem2d:n=6,values=random,seed=3": "28691819a2b17f79",
    "grid:n=9": "dffff59ad4024726",
    "grid:n=9,values=random": "a39166eea7749051",
    "poisson2d:n=12,values=random": "0d5c0e273d408548",
    "poisson2d:n=12": "ae78e0b588bd6cce",
    "poisson3d:n=6,values=random": "af1475b7a9a6a60b",
    "powerlaw:n=300,exponent=1.7": "843fb1ffa4249681",
    "powerlaw:n=500,max_degree=40,seed=7": "2aa7828546972ad9",
    "rmat:scale=8": "12fb1a8ed0f631dc",
    "rmat:scale=9,edgefactor=4,symmetrize=1,seed=12345678901234": "a745395b4772babe",
    "rmat:scale=5,a=0.25,b=0.25,c=0.25": "22b4bee267a0d04d",
    "star:n=50": "c05ea12c1c0719a8",
    "uniform:n=400,degree=9": "f1ac1b6b5dbdf2d6",
}
WORDS = ["0x72cb55b7a4acbbc2", "0x6e4e482cf03b98ab"]

ERRORS = [
    ("rmta:scale=4", "no recipe 'rmta'", "did you mean rmat?"),
    ("", "no recipe ''", "recipes are arrow"),
    ("rmat:", "'' is not NAME=VALUE", "e.g. rmat:scale=20"),
    ("rmat:scale", "'scale' is not NAME=VALUE", "e.g. rmat:scale=20"),
    ("rmat:scale=4,", "'' is not NAME=VALUE", "e.g."),
    ("rmat:scael=4", "no parameter 'scael'", "did you mean scale?"),
    ("rmat:scale=4,scale=5", "scale is given twice", "omit one"),
    ("rmat:scale=four", "scale cannot be 'four'", "scale takes 1..30"),
    ("rmat:scale=31", "scale cannot be '31': it is not in 1..30", "2^scale vertices"),
    ("rmat:scale=4,a=1.5", "a cannot be '1.5': it is not in 0..1", "a takes 0..1"),
    ("rmat:scale=4,a=1e-10", "more than 9 digits after the point", "a takes"),
    ("rmat:scale=4,a=0.9,b=0.1,c=0.1", "a + b + c is more than 1", "defaults"),
    ("rmat:scale=4,values=some", "values cannot be 'some'", "values takes random|integers|ones|none"),
    ("banded:n=3,diagonals=7", "has only 5", "defaults"),
    ("powerlaw:n=10,max_degree=11", "more than the n=10 columns", "defaults"),
    ("poisson2d:n=0", "n cannot be '0': it is not in 1..", "n takes"),
    ("poisson2d:n=100000", "10,000,000,000 x 10,000,000,000 is beyond", "smaller"),
    ("dense:rows=2000000000,cols=2000000000", "GB", "smaller"),
    (f"chain:n={'9' * 5000}", "n cannot be", "n takes"),
]


def _check_canonical(csr: CSR) -> None:
    assert csr.row_ptr.dtype == np.int64
    assert csr.col_idx.dtype == np.int32
    assert csr.row_ptr.shape == (csr.rows + 1,)
    assert csr.row_ptr[0] == 0
    assert csr.row_ptr[-1] == len(csr.col_idx)
    assert (np.diff(csr.row_ptr) >= 0).all()
    if csr.nnz:
        assert csr.col_idx.min() >= 0
        assert csr.col_idx.max() < csr.cols
    starts = np.zeros(csr.nnz + 1, bool)
    starts[csr.row_ptr] = True
    rising = np.diff(csr.col_idx) > 0
    assert (rising | starts[1:-1]).all() if csr.nnz else True
    if csr.values is not None:
        assert csr.values.dtype == np.float64
        assert csr.values.shape == csr.col_idx.shape


def _dense(matrix: Matrix) -> np.ndarray[Any, Any]:
    return matrix.csr.to_scipy().toarray()


def _pattern(text: str) -> np.ndarray[Any, Any]:
    return (_dense(recipes.make(text + ",values=ones"))).astype(int)


@pytest.mark.parametrize("text", PINNED)
def test_content_is_pinned(text: str) -> None:
    assert recipes.make(text).sha256[:16] == PINNED[text]


def test_every_recipe_is_pinned() -> None:
    assert {text.partition(":")[0] for text in PINNED} == set(recipes.names())


def test_random_words_are_pinned() -> None:
    assert [hex(w) for w in Words(1, 2).take(2).tolist()] == WORDS
    split = Words(1, 2)
    assert np.array_equal(np.concatenate((split.take(3), split.take(4))), Words(1, 2).take(7))


@pytest.mark.parametrize("text", PINNED)
def test_result_is_canonical_and_within_its_size(text: str) -> None:
    matrix = recipes.make(text)
    _check_canonical(matrix.csr)
    result, values = recipes.parse(text)
    size = base._call(result.size, values)
    assert matrix.csr.shape == (size.rows, size.cols)
    assert matrix.csr.nnz + matrix.policies.duplicates_found <= size.entries
    assert matrix.weighted == (values["values"] != "none") == (matrix.csr.values is not None)
    loops = int(np.count_nonzero(np.diag(_dense(matrix)[: min(matrix.csr.shape), : min(matrix.csr.shape)])))
    assert matrix.policies.self_loops == loops
    assert matrix.source.kind == "recipe"
    assert recipes.make(matrix.source.text).sha256 == matrix.sha256
    if matrix.symmetry == "symmetric":
        assert np.array_equal(_dense(matrix), _dense(matrix).T)


@pytest.mark.parametrize("text", [t for t in PINNED if "star" not in t and "arrow" not in t])
def test_chunks_do_not_change_the_result(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (patterns, grids, random_graphs):
        monkeypatch.setattr(module, "CHUNK", 64)
    assert recipes.make(text).sha256[:16] == PINNED[text]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_poisson(n: int) -> None:
    one = sp.diags_array([np.full(n - 1, -1.0), np.full(n, 2.0), np.full(n - 1, -1.0)], offsets=[-1, 0, 1])
    eye = sp.eye_array(n)
    two = sp.kron(one, eye) + sp.kron(eye, one)
    assert np.array_equal(_dense(recipes.make(f"poisson2d:n={n}")), two.toarray())
    three = sp.kron(two, eye) + sp.kron(sp.eye_array(n * n), one)
    assert np.array_equal(_dense(recipes.make(f"poisson3d:n={n}")), three.toarray())


@pytest.mark.parametrize(("n", "diagonals"), [(1, 1), (4, 7), (9, 3), (9, 4), (50, 27)])
def test_banded(n: int, diagonals: int) -> None:
    away = np.subtract.outer(np.arange(n), np.arange(n))
    band = (away <= (diagonals - 1) // 2) & (-away <= diagonals // 2)
    assert np.array_equal(_pattern(f"banded:n={n},diagonals={diagonals}"), band)


def test_blocks() -> None:
    coarse = _pattern("poisson2d:n=4")
    assert np.array_equal(_pattern("blocks:n=4,block=3"), np.kron(coarse, np.ones((3, 3), int)))


@pytest.mark.parametrize("n", [1, 2, 6])
def test_graphs_without_randomness(n: int) -> None:
    for text, graph in (
        (f"grid:n={n}", nx.grid_2d_graph(n, n)),
        (f"chain:n={n}", nx.path_graph(n)),
        (f"star:n={n}", nx.star_graph(n - 1)),
    ):
        nodes = sorted(graph)
        assert np.array_equal(_pattern(text), nx.to_numpy_array(graph, nodelist=nodes)), text
        assert recipes.make(text).csr.values is None
    arrow = np.eye(n, dtype=int)
    arrow[0] = arrow[:, 0] = 1
    assert np.array_equal(_pattern(f"arrow:n={n}"), arrow)
    assert _pattern(f"dense:rows={n},cols=3").tolist() == [[1, 1, 1]] * n


@pytest.mark.parametrize("n", [2, 3, 8])
def test_stiffness_of_a_mesh(n: int) -> None:
    """From the places of the corners: gradients of the three hat functions of each triangle."""
    made = recipes.make(f"fem2d:n={n},seed=5")
    place = np.array([(j + i / 2, i * np.sqrt(3) / 2) for i in range(n) for j in range(n)])
    linked = _dense(made) != 0
    expected, entries = np.zeros((n * n, n * n)), 0
    for i, j in np.ndindex(n - 1, n - 1):
        a = i * n + j
        b, c, d = a + 1, a + n, a + n + 1
        for triangle in [(a, b, d), (a, c, d)] if linked[a, d] else [(a, b, c), (b, c, d)]:
            hats = np.linalg.inv(np.column_stack((np.ones(3), place[list(triangle)])))
            area = np.sqrt(3) / 4
            expected[np.ix_(triangle, triangle)] += 2 * np.sqrt(3) * area * hats[1:].T @ hats[1:]
            entries += 9
    np.testing.assert_allclose(_dense(made), expected, atol=1e-12)
    assert (made.policies.duplicates, made.policies.duplicates_found) == ("sum", entries - made.csr.nnz)
    assert recipes.make(f"fem2d:n={n},seed=5,values=ones").policies.duplicates == "first"


def test_rmat() -> None:
    directed, undirected = recipes.make("rmat:scale=9"), recipes.make("rmat:scale=9,symmetrize=1")
    drawn = 16 << 9
    assert 0.5 * drawn < directed.csr.nnz < drawn - directed.policies.duplicates_found  # the rest are loops
    mirrored = _dense(directed) + _dense(directed).T
    assert np.array_equal(_dense(undirected) != 0, mirrored != 0)
    assert undirected.symmetry == "symmetric"
    assert np.trace(mirrored) == 0
    lengths = directed.csr.row_lengths()
    assert lengths.max() > 8 * lengths.mean()  # hubs
    hubs = np.argsort(lengths)[-16:]
    assert hubs.max() > 256  # ids are permuted: hubs are not all among the first
    assert recipes.make("rmat:scale=3,a=1,b=0,c=0").csr.nnz == 0  # nothing but self-loops


def test_quarter_weights_are_products_of_levels() -> None:
    a, b, c = Fraction(1, 2), Fraction(1, 4), Fraction(1, 8)
    share = {(0, 0): a, (0, 1): b, (1, 0): c, (1, 1): 1 - a - b - c}
    weights = random_graphs._quarter_weights(3, a, b, c)
    assert sum(weights) == 8**3
    for row in range(8):
        for col in range(8):
            product = Fraction(1)
            for bit in range(3):
                product *= share[row >> bit & 1, col >> bit & 1]
            assert Fraction(weights[row << 3 | col], 8**3) == product


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=40).filter(any))
def test_alias_table_has_the_right_probabilities(weights: list[int]) -> None:
    table = AliasTable(weights)
    size, scale = 1 << table.bits, 1 << (64 - table.bits)
    result = [0] * size
    for column in range(size):
        saved = int(table.threshold[column])
        result[column] += saved
        result[int(table.alias[column])] += scale - saved
    for i, count in enumerate(result):
        exact = Fraction(weights[i], sum(weights)) if i < len(weights) else 0
        assert abs(Fraction(count, 1 << 64) - exact) <= Fraction(size, 1 << 64)
        assert count == 0 or exact > 0  # what has no weight never comes


def test_alias_table_draws_by_column_and_threshold() -> None:
    table = AliasTable([1, 3])  # column 0 gives 0 in half of the cases, column 1 always 1
    assert table.draw(np.array([0, 1, 2**64 - 2, 2**63 - 2], np.uint64)).tolist() == [0, 1, 1, 0]


def test_unit_and_below_at_their_ends() -> None:
    ends = np.array([0, 2**64 - 1], np.uint64)
    assert unit(ends).tolist() == [0.0, 1 - 2.0**-53]
    for bound in (1, 2, 3, 7, 2**20 + 1, 2**31 - 1):
        assert below(ends, bound).tolist() == [0, bound - 1]


def test_power_weights_follow_the_law() -> None:
    weights = random_graphs._power_weights(Fraction("2.1"), 3000)
    k = np.arange(1, 3001)
    assert weights[0] == 2**96
    assert np.allclose(np.array(weights, float) / 2.0**96, k**-2.1, rtol=1e-12, atol=0)


def test_powerlaw_lengths() -> None:
    csr = recipes.make("powerlaw:n=20000,exponent=2,max_degree=100,values=none").csr
    k = np.arange(1, 101)
    expected = k**-2.0 / (k**-2.0).sum()
    counts = np.bincount(csr.row_lengths(), minlength=101)
    assert counts[0] == 0
    assert abs(counts[1] / 20000 - expected[0]) < 0.02
    assert abs(csr.nnz / 20000 - (expected * k).sum()) < 0.3
    assert 50 < csr.row_lengths().max() <= 100


def test_uniform_columns_are_spread() -> None:
    csr = recipes.make("uniform:n=4000,degree=16,values=none").csr
    assert csr.row_lengths().max() == 16
    assert csr.row_lengths().min() >= 13
    in_degree = np.bincount(csr.col_idx, minlength=4000)
    assert abs(in_degree.std() / in_degree.mean() - 0.25) < 0.02  # Poisson: 1 / sqrt(16)


def test_values() -> None:
    values = recipes.make("uniform:n=3000,degree=8").csr.values
    assert values is not None
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.var() - 1 / 12) < 0.003
    assert len(np.unique(values)) == len(values)
    one, two = (recipes.make(f"arrow:n=100,seed={seed}").csr.values for seed in (1, 2))
    assert one is not None
    assert two is not None
    assert not (one == two).any()


def test_structure_changes_with_the_seed() -> None:
    for text in ("rmat:scale=6", "uniform:n=50,degree=4", "powerlaw:n=50"):
        one, two = (recipes.make(f"{text},values=none,seed={seed}") for seed in (1, 2))
        assert one.sha256 != two.sha256


@pytest.mark.parametrize(("text", "cause", "remedy"), ERRORS, ids=lambda v: v[:40])
def test_errors_name_cause_place_and_remedy(text: str, cause: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        recipes.make(text)
    assert cause in caught.value.cause
    assert remedy in (caught.value.remedy or "")
    assert caught.value.place == text


def test_refusal_comes_before_any_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(**_: Any) -> None:
        raise AssertionError("must not be called")

    result, _ = recipes.parse("poisson2d:n=30000")
    monkeypatch.setitem(base._RECIPES._entries, "poisson2d", base.Recipe(**{**result.__dict__, "build": build}))
    monkeypatch.setattr("spgraph_bench.memory.available_memory", lambda: 2**30)
    with pytest.raises(InputError, match=r"900,000,000 rows and .* 4,499,880,000 entries needs 68\.5 GB"):
        recipes.make("poisson2d:n=30000")


def test_names() -> None:
    for text, name in {
        "rmat:scale=5": "rmat5",
        "rmat:scale=5,edgefactor=8,seed=3": "rmat5-edgefactor8-seed3",
        "rmat:scale=5,a=0.5": "rmat5-a0.5",
        "banded:n=20000,diagonals=3": "banded-20k-3",
        "poisson2d:n=5,values=random": "poisson2d-5-random",
        "powerlaw:n=100,max_degree=100": "powerlaw-100",
        "powerlaw:n=100,max_degree=50": "powerlaw-100-max_degree50",
        "grid:n=3,values=none": "grid-3",
    }.items():
        assert recipes.make(text).name == name


def test_canonical_text_has_all_parameters_in_order() -> None:
    assert recipes.make(" rmat: seed=2 , scale=5,a=.570").source.text == (
        "rmat:scale=5,edgefactor=16,a=0.57,b=0.19,c=0.19,symmetrize=0,values=random,seed=2"
    )
    assert recipes.make("powerlaw:n=1_00").source.text == (
        "powerlaw:n=100,exponent=2.1,max_degree=100,values=random,seed=1"
    )


@st.composite
def _texts(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    result = recipes.recipes()[draw(st.sampled_from(recipes.names()))]
    chosen = draw(st.lists(st.sampled_from(list(result.parameters)), unique=True, min_size=1))
    given: dict[str, Any] = {}
    for name in chosen:
        p = result.parameters[name]
        if p.choices:
            given[name] = draw(st.sampled_from(p.choices))
        elif p.number is Fraction:
            low, high = p.between or (0, 1)
            given[name] = Fraction(draw(st.integers(int(low * 10**9), int(high * 10**9))), 10**9)
        else:
            assert p.between is not None
            given[name] = draw(st.integers(*p.between))
    text = ",".join(f"{name}={result.parameters[name].text(value)}" for name, value in given.items())
    return f"{result.name}:{text}", given


@given(_texts())
@settings(deadline=None)
def test_text_and_values_are_one_to_one(case: tuple[str, dict[str, Any]]) -> None:
    text, given_values = case
    result, values = recipes.parse(text)
    assert list(values) == list(result.parameters)
    assert {name: values[name] for name in given_values} == given_values
    again, same = recipes.parse(result.text(values))
    assert (again, same) == (result, values)
    assert result.short_name(values)


@given(st.text(max_size=30) | st.text("abcdefgrmatscle0123456789=,:.-_ ", max_size=30).map("rmat:".__add__))
@settings(deadline=None)
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        result, values = recipes.parse(text)
    except InputError:
        return
    assert recipes.parse(result.text(values)) == (result, values)


def test_registry_refuses_a_name_twice() -> None:
    with pytest.raises(ValueError, match="'rmat' is registered twice"):
        base.recipe("rmat", about="", short="", size=lambda: None)(lambda: None)  # type: ignore[arg-type,return-value]


def test_every_recipe_runs_with_its_defaults_described() -> None:
    for name, entry in recipes.recipes().items():
        assert entry.about
        assert list(entry.parameters)[-2:] == ["values", "seed"]
        assert all(p.about and p.domain and p.default_text for p in entry.parameters.values()), name


def test_progress_is_reported() -> None:
    reports: list[tuple[str, float | None]] = []
    recipes.make("rmat:scale=6", lambda doing, fraction: reports.append((doing, fraction)))
    assert {"drawing edges", "sorting edges", "drawing values"} <= {doing for doing, _ in reports}
    assert all(fraction is None or 0 <= fraction <= 1 for _, fraction in reports)


def test_keys_are_sorted_by_several_threads_as_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_WORTH_SHARING", 0)
    monkeypatch.setattr(patterns, "usable_cores", lambda: 5)
    rng = np.random.default_rng(3)
    for keys in (
        rng.integers(0, 1 << 63, 10_007, dtype=np.uint64),
        rng.integers(0, 3, 1000, dtype=np.uint64),  # all ranges but three are empty
        np.full(64, 2**64 - 1, np.uint64),
        np.arange(6, dtype=np.uint64)[::-1].copy(),
    ):
        progress = mock.Mock()
        assert np.array_equal(np.sort(keys), patterns.sorted_keys(keys.copy(), progress))
        assert [call.args[1] for call in progress.call_args_list] == [pytest.approx(k / 10) for k in range(1, 11)]
    assert len(patterns.sorted_keys(np.empty(0, np.uint64), lambda doing, fraction: None)) == 0


@pytest.mark.parametrize("cores", [1, 3])
def test_random_order_is_a_stable_argsort_where_upper_bits_are_alike_too(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "usable_cores", lambda: cores)
    monkeypatch.setattr(patterns, "_WORTH_SHARING", 8)
    monkeypatch.setattr(patterns, "CHUNK", 100)
    random = np.random.default_rng(1)
    for count in (0, 1, 2, 3, 1000):
        low, high = random.integers(0, 7, count).astype(np.uint64), random.integers(0, 50, count).astype(np.uint64)
        for words in (low, low << np.uint64(61), high << np.uint64(50) | low, Words(1, 3).take(count)):
            order = patterns.random_order(words, lambda doing, fraction: None)
            assert np.array_equal(order, np.argsort(words, kind="stable"))
