"""MultiHead: what it computes, by the formula written out head by head."""

import dataclasses

import numpy as np
import pytest

from qkv import MultiHead, formula, heads, masks
from qkv.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(20)
HEAD_SHAPES = [(1, 1, 4, 4), (2, 2, 6, 6), (4, 2, 3, 5), (6, 1, 2, 1), (8, 8, 1, 2), (6, 3, 5, 2)]


def normal(*shape):
    return RNG.standard_normal(shape)


def make(n_heads=4, n_kv_heads=2, d_k=3, d_v=5, *, d_model=7, d_memory=None, d_values=None, bias=False, dtype="f8"):
    d_memory = d_model if d_memory is None else d_memory
    d_values = d_memory if d_values is None else d_values
    matrices = {
        "w_q": normal(d_model, n_heads * d_k),
        "w_k": normal(d_memory, n_kv_heads * d_k),
        "w_v": normal(d_values, n_kv_heads * d_v),
        "w_o": normal(n_heads * d_v, d_model),
    }
    biases = {"b_" + name[-1]: normal(w.shape[1]) for name, w in matrices.items() if bias}
    arrays = {name: array.astype(dtype) for name, array in (matrices | biases).items()}
    return MultiHead(**arrays, n_heads=n_heads, n_kv_heads=n_kv_heads)


def longhand(layer, x, memory=None, values=None, visible=None):
    """Output and weights, head by head in float64, with slices of the matrices and nothing of heads.py."""
    memory = x if memory is None else memory
    values = memory if values is None else values
    group, out, kept = layer.n_heads // layer.n_kv_heads, [], []
    for h in range(layer.n_heads):
        g, b = h // group, {n: getattr(layer, n) for n in ("b_q", "b_k", "b_v", "b_o")}
        own, key = slice(h * layer.d_k, (h + 1) * layer.d_k), slice(g * layer.d_k, (g + 1) * layer.d_k)
        val = slice(g * layer.d_v, (g + 1) * layer.d_v)
        q = x @ layer.w_q[:, own] + (0 if b["b_q"] is None else b["b_q"][own])
        k = memory @ layer.w_k[:, key] + (0 if b["b_k"] is None else b["b_k"][key])
        v = values @ layer.w_v[:, val] + (0 if b["b_v"] is None else b["b_v"][val])
        score = q @ np.swapaxes(k, -1, -2) / np.sqrt(layer.d_k)
        if visible is not None:
            score = np.where(visible, score, -np.inf)
        top = np.max(score, -1, keepdims=True, initial=-1e300)
        weight = np.exp(score - top)
        weight /= np.maximum(weight.sum(-1, keepdims=True), 1e-300)
        kept.append(weight)
        out.append(weight @ v)
    joined = np.concatenate(out, -1) @ layer.w_o
    return joined + (0 if layer.b_o is None else layer.b_o), np.stack(kept, -3)


def close(got, want, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


# ---- split and merge


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0,)])
@pytest.mark.parametrize(("n_heads", "n", "d"), [(1, 4, 6), (3, 5, 2), (6, 1, 1), (2, 0, 3), (4, 3, 0)])
def test_merging_undoes_splitting_and_neither_copies(batch, n_heads, n, d):
    x = normal(*batch, n, n_heads * d)
    parts = heads.split(x, n_heads)
    assert parts.shape == (*batch, n_heads, n, d)
    for h in range(n_heads):
        np.testing.assert_array_equal(parts[..., h, :, :], x[..., h * d : (h + 1) * d])
    np.testing.assert_array_equal(heads.merge(parts), x)
    if x.size:
        assert np.shares_memory(parts, x)
        assert np.shares_memory(heads.merge(parts), x)


def test_split_names_a_width_that_the_heads_do_not_divide():
    with pytest.raises(ShapeError, match=r"n_heads = 3 divides, got x.shape = \(2, 8\)"):
        heads.split(normal(2, 8), 3)
    with pytest.raises(ArgumentError, match="n_heads must be a whole number of at least 1, got 0"):
        heads.split(normal(2, 8), 0)
    with pytest.raises(ShapeError, match=r"got \(2, 8\); one head is heads\[None\]"):
        heads.merge(normal(2, 8))


# ---- what the layer computes


@pytest.mark.parametrize(("n_heads", "n_kv_heads", "d_k", "d_v"), HEAD_SHAPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_a_layer_is_projecting_attending_in_each_head_and_mixing(n_heads, n_kv_heads, d_k, d_v, bias, batch):
    layer, x = make(n_heads, n_kv_heads, d_k, d_v, bias=bias), normal(*batch, 6, 7)
    out, weight = longhand(layer, x)
    close(layer(x), out)
    close(layer.map(x), weight)
    out, weight = longhand(layer, x, visible=np.tri(6, dtype=bool))
    close(layer(x, causal=True), out)
    close(layer.map(x, causal=True), weight)


def test_a_layer_agrees_with_the_formula():
    layer, x, memory = make(4, 4, 3, 5), normal(2, 6, 7), normal(2, 9, 7)
    matrices = (layer.w_q, layer.w_k, layer.w_v, layer.w_o)
    close(layer(x), formula.multi_head(x, *matrices, n_heads=4))
    close(layer(x, memory), formula.multi_head(x, *matrices, n_heads=4, memory=memory))


# B134 (tenstorrent/tt-metal#56789): the score was divided by the root of the number of heads.
@pytest.mark.parametrize(("n_heads", "d_k"), [(2, 6), (1, 9), (9, 1), (3, 4), (16, 2), (4, 4)])
def test_the_score_is_scaled_by_the_width_of_a_head_not_by_the_number_of_heads(n_heads, d_k):
    x, eye = normal(1, 4, n_heads * d_k), np.eye(n_heads * d_k)
    layer = MultiHead(eye, eye, eye, eye, n_heads)
    close(layer(x), longhand(layer, x)[0], 1e-10)
    part = x[0, :, :d_k]
    close(layer.map(x).scores("raw")[0, 0], part @ part.T / np.sqrt(d_k))


# B157 (huggingface/transformers#48356): keys and values were reshaped with the length of the queries.
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 7), (7, 4), (1, 9), (9, 1), (5, 5), (3, 0), (0, 3)])
@pytest.mark.parametrize(("n_heads", "n_kv_heads", "d_k", "d_v"), HEAD_SHAPES)
def test_in_cross_attention_the_number_of_keys_is_that_of_the_memory(n_q, n_k, n_heads, n_kv_heads, d_k, d_v):
    layer = make(n_heads, n_kv_heads, d_k, d_v, d_memory=5, bias=True)
    x, memory = normal(2, n_q, 7), normal(2, n_k, 5)
    out, weight = longhand(layer, x, memory)
    q, k, v = layer.project(x, memory)
    assert (q.shape, k.shape) == ((2, n_heads, n_q, d_k), (2, n_kv_heads, n_k, d_k))
    assert v.shape == (2, n_kv_heads, n_k, d_v)
    assert layer(x, memory).shape == (2, n_q, 7)
    assert layer.map(x, memory).shape == (2, n_heads, n_q, n_k)
    close(layer(x, memory), out)
    close(layer.map(x, memory), weight)


def test_the_published_case_of_four_queries_and_seven_memory_tokens():
    # B157 in full: 2 heads of width 3, and the number found there for the first output.
    rng = np.random.default_rng(172)
    x, memory = (rng.standard_normal((1, n, 6)).astype("f4").astype("f8") for n in (4, 7))
    layer = MultiHead(*(rng.standard_normal((6, 6)) for _ in range(4)), n_heads=2)
    got = layer(x, memory)
    close(
        got[0, 0], [-5.71085948787, 4.5100862176, 9.54255591495, -0.947107097993, 7.17491204517, -0.607678141869], 1e-9
    )
    close(
        got[0, 3],
        [-0.462436415933, 0.157883018609, 0.897410560749, -1.72302632567, 3.32168237483, -0.704393643069],
        1e-9,
    )


def test_values_may_come_from_a_third_array():
    layer = make(d_memory=4, d_values=3, bias=True)
    x, memory, values = normal(2, 5, 7), normal(2, 8, 4), normal(2, 8, 3)
    close(layer(x, memory, values), longhand(layer, x, memory, values)[0])
    own = make(d_values=3)
    carried = normal(2, 5, 3)
    close(own(x, values=carried, causal=True), longhand(own, x, None, carried, np.tri(5, dtype=bool))[0])


# B158 (pytorch/pytorch#97111, #86120): where the whole batch ended in padding the output came back shorter.
@pytest.mark.parametrize("kept", [(3, 2), (5, 1), (1, 1), (0, 4), (0, 0)])
@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_the_output_keeps_its_length_where_every_sequence_ends_in_padding(kept, n_heads):
    x, eye = normal(2, 5, 4), np.eye(4)
    layer = MultiHead(eye, eye, eye, eye, n_heads)
    visible = (np.arange(5) < np.array(kept)[:, None])[:, None, :]
    want = longhand(layer, x, visible=visible)[0]
    for hiding in ({"mask": visible[:, None]}, {"lengths": np.array(kept)}, {"mask": masks.lengths(kept)}):
        assert layer(x, **hiding).shape == (2, 5, 4)
        close(layer(x, **hiding), want)


def test_the_published_case_of_padding_at_the_end():
    # B158 in full: one row of each sequence as found there.
    x, eye = np.random.default_rng(173).standard_normal((2, 5, 4)).astype("f4").astype("f8"), np.eye(4)
    keep = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]], bool)
    got = MultiHead(eye, eye, eye, eye, 2)(x, mask=keep[:, None, None, :])
    assert got.shape == (2, 5, 4)
    close(got[0, 4], [0.596487949147, -0.66986615677, 0.281090165084, -1.54269307901], 1e-9)
    close(got[1, 0], [0.103620991309, -0.727368146532, -0.829354972842, -0.0562742521355], 1e-9)


@pytest.mark.parametrize("filler", [np.nan, np.inf, -np.inf])
def test_what_stands_in_hidden_memory_changes_no_bit(filler):
    layer, x, memory = make(bias=True), normal(2, 3, 7), normal(2, 6, 7)
    spoilt = memory.copy()
    spoilt[0, 4:], spoilt[1, 2:] = filler, filler
    np.testing.assert_array_equal(layer(x, spoilt, lengths=[4, 2]), layer(x, memory, lengths=[4, 2]))


def test_grouped_heads_are_heads_whose_keys_and_values_repeat():
    layer, x = make(6, 2, 3, 5, bias=True), normal(2, 8, 7)

    def repeat(array, d):
        return np.repeat(array.reshape(*array.shape[:-1], 2, d), 3, axis=-2).reshape(*array.shape[:-1], 6 * d)

    wide = dataclasses.replace(
        layer,
        n_kv_heads=6,
        w_k=repeat(layer.w_k, 3),
        w_v=repeat(layer.w_v, 5),
        b_k=repeat(layer.b_k, 3),
        b_v=repeat(layer.b_v, 5),
    )
    close(layer(x, causal=True), wide(x, causal=True))
    close(layer.map(x), np.asarray(wide.map(x)))


def test_it_agrees_with_torch_in_self_and_cross_attention():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    theirs = torch.nn.MultiheadAttention(12, 3, kdim=5, vdim=8, batch_first=True, dtype=torch.float64)
    torch.nn.init.normal_(theirs.in_proj_bias)
    b_q, b_k, b_v = theirs.in_proj_bias.detach().split(12)
    ours = MultiHead(
        *(getattr(theirs, f"{part}_proj_weight").detach().T for part in "qkv"),
        theirs.out_proj.weight.detach().T,
        n_heads=3,
        b_q=b_q,
        b_k=b_k,
        b_v=b_v,
        b_o=theirs.out_proj.bias.detach(),
    )
    x, memory, values = torch.randn(2, 4, 12).double(), torch.randn(2, 7, 5).double(), torch.randn(2, 7, 8).double()
    with torch.no_grad():
        out, weights = theirs(x, memory, values, average_attn_weights=False)
    got = ours(x, memory, values)
    assert isinstance(got, torch.Tensor)
    assert torch.allclose(got, out, rtol=0, atol=1e-12)
    close(ours.map(x.numpy(), memory.numpy()), weights.numpy())


# ---- the map


# B139 (pytorch/pytorch#34537, #47583): the weights came back averaged over the heads.
@pytest.mark.parametrize(("batch", "n_heads", "n_q", "n_k"), [((2,), 3, 4, 6), ((), 5, 3, 3), ((2, 2), 1, 4, 2)])
def test_the_map_has_the_weights_of_every_head_and_an_index_picks_one(batch, n_heads, n_q, n_k):
    layer, x, memory = make(n_heads, n_heads), normal(*batch, n_q, 7), normal(*batch, n_k, 7)
    weight = longhand(layer, x, memory)[1]
    A = layer.map(x, memory)
    assert A.shape == (*batch, n_heads, n_q, n_k)
    close(np.asarray(A).sum(-1), np.ones((*batch, n_heads, n_q)))
    for h in range(n_heads):
        close(A[..., h, :, :], weight[..., h, :, :])
        first = A[(0,) * len(batch)][h]
        assert first.shape == (n_q, n_k)
        close(first, weight[(0,) * len(batch)][h])


def test_a_map_of_a_hundred_thousand_tokens_is_made_at_once_and_shows_any_row():
    layer, x = make(2, 1, 2, 2, d_model=3, dtype="f4"), normal(100_000, 3).astype("f4")
    A = layer.map(x, causal=True)
    assert A.shape == (2, 100_000, 100_000)
    row = A[1, 3]
    assert row.shape == (100_000,)
    assert not row[4:].any()
    close(row[:4], longhand(layer, x[:4].astype("f8"), visible=np.tri(4, dtype=bool))[1][1, 3], 1e-5)


def test_value_norms_are_the_lengths_of_what_each_key_adds():
    layer, x = make(4, 2, 3, 5), normal(2, 6, 7)
    v = layer.project(x)[2]
    norms = layer.value_norms(v)
    assert norms.shape == (2, 4, 6)
    for h in range(4):
        added = v[:, h // 2] @ layer.w_o[5 * h : 5 * (h + 1)]
        close(norms[:, h], np.sqrt((added**2).sum(-1)))


# ---- dtypes and memory


@pytest.mark.parametrize(("dtype", "tolerance"), [("f2", 2e-2), ("bfloat16", 2e-1), ("f4", 1e-5), ("f8", 1e-12)])
def test_the_dtype_of_the_layer_is_that_of_its_output_and_map(dtype, tolerance):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16
    layer, x = make(bias=True, dtype=dtype), (normal(2, 6, 7) / 4).astype(dtype)
    exact = dataclasses.replace(
        layer, **{n: getattr(layer, n).astype("f8") for n in layer.__dict__ if n[1:2] == "_" and n[0] in "wb"}
    )
    want, weight = longhand(exact, x.astype("f8"))
    got = layer(x)
    assert got.dtype == layer.map(x).dtype == np.dtype(dtype)
    close(got.astype("f8"), want, tolerance * np.abs(want).max())
    close(np.asarray(layer.map(x)).astype("f8"), weight, tolerance)


def test_lists_and_integers_take_the_dtype_of_the_layer():
    layer = make(dtype="f4")
    rows = RNG.integers(-3, 4, (5, 7))
    for x in (rows, rows.tolist(), rows.astype("f8").tolist()):
        assert layer(x).dtype == np.float32
        np.testing.assert_array_equal(layer(x), layer(rows.astype("f4")))
    assert MultiHead([[1, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], 1).dtype == np.float64


def test_no_array_is_written_and_any_layout_is_read():
    layer, x = make(bias=True, d_memory=7), normal(2, 6, 7)
    memory = np.broadcast_to(normal(7, 5).T, (2, 5, 7))
    want = layer(x, memory)
    frozen = {name: value for name, value in layer.__dict__.items() if isinstance(value, np.ndarray)}
    for array in (*frozen.values(), x):
        array.flags.writeable = False
    backwards = np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    np.testing.assert_array_equal(layer(x, memory), want)
    close(layer(backwards, memory), want)
    close(layer(np.asfortranarray(x), memory), want)


@pytest.mark.parametrize(("batch", "n"), [((0,), 4), ((2,), 0), ((), 0)])
def test_nothing_in_gives_nothing_out(batch, n):
    layer, x = make(bias=True), normal(*batch, n, 7)
    assert layer(x, causal=True).shape == (*batch, n, 7)
    assert layer.map(x).shape == (*batch, 4, n, n)


def test_a_layer_cannot_be_changed():
    layer = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        layer.n_heads = 2
    assert repr(layer) == "MultiHead(n_heads=4, n_kv_heads=2, d_model=7, d_k=3, d_v=5, d_out=7, float64)"
