"""Decoding step by step: chunks of any size give what one call over all positions gives."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from qkv import KVCache, MultiHead, attend, attention, biases, heads, masks
from qkv.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(21)
CHUNKINGS = [[10], [1] * 10, [3, 4, 3], [9, 1], [1, 9], [0, 5, 0, 5, 0], [2, 3, 5]]


def normal(*shape):
    return RNG.standard_normal(shape)


def make(n_heads=4, n_kv_heads=2, d_k=3, d_v=5):
    w_q, w_k = normal(6, n_heads * d_k), normal(6, n_kv_heads * d_k)
    w_v, w_o = normal(6, n_kv_heads * d_v), normal(n_heads * d_v, 6)
    return MultiHead(w_q, w_k, w_v, w_o, n_heads, n_kv_heads, b_k=normal(n_kv_heads * d_k), b_o=normal(6))


def pieces(x, chunks):
    return np.split(x, np.cumsum(chunks)[:-1], axis=-2)


def stepwise(layer, x, chunks, **options):
    cache = KVCache()
    return np.concatenate([layer(part, cache=cache, **options) for part in pieces(x, chunks)], -2)


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12, atol=1e-12)


# B043 (GeeeekExplorer/nano-vllm#213): each chunk read the keys of all chunks, later ones too.
@pytest.mark.parametrize("chunks", CHUNKINGS)
@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(2, 2), (6, 2), (3, 1)])
@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
def test_appending_a_chunk_and_attending_equals_one_run_over_all(chunks, n_heads, n_kv_heads, batch):
    q = normal(*batch, n_heads, 10, 4)
    k, v = normal(*batch, n_kv_heads, 10, 4), normal(*batch, n_kv_heads, 10, 3)
    cache, outs = KVCache(), []
    for parts in zip(*(pieces(array, chunks) for array in (q, k, v)), strict=True):
        all_k, all_v = cache.append(*parts[1:])
        outs.append(attention(parts[0], all_k, all_v, causal=True))
    assert len(cache) == 10
    close(np.concatenate(outs, -2), attention(q, k, v, causal=True))


@pytest.mark.parametrize("chunks", CHUNKINGS)
@pytest.mark.parametrize(("n_heads", "n_kv_heads", "d_k", "d_v"), [(4, 2, 3, 5), (1, 1, 2, 2), (6, 1, 1, 4)])
@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
def test_a_layer_run_in_chunks_equals_one_call(chunks, n_heads, n_kv_heads, d_k, d_v, batch):
    layer, x = make(n_heads, n_kv_heads, d_k, d_v), normal(*batch, 10, 6)
    close(stepwise(layer, x, chunks, causal=True), layer(x, causal=True))


@pytest.mark.parametrize("chunks", CHUNKINGS)
@pytest.mark.parametrize(
    "options",
    [
        {"causal": True, "window": (2, 0)},
        {"causal": True, "bias": biases.alibi()},
        {"causal": True, "softcap": 2.0, "temperature": 0.5, "sinks": np.array([0.0, 1.0, -1.0, 0.5])},
        {"mask": masks.causal() & masks.window(3, 0)},
    ],
    ids=["window", "alibi", "softcap and sinks", "mask values"],
)
def test_windows_and_biases_follow_the_positions_in_the_cache(chunks, options):
    layer, x = make(), normal(2, 10, 6)
    close(stepwise(layer, x, chunks, **options), layer(x, **options))


@settings(max_examples=40, deadline=None)
@given(chunks=st.lists(st.integers(0, 4), min_size=1, max_size=8), group=st.sampled_from([(1, 1), (4, 2), (3, 1)]))
def test_any_chunking_of_any_length_equals_one_call(chunks, group):
    layer, x = make(*group), normal(sum(chunks), 6)
    close(stepwise(layer, x, chunks, causal=True), layer(x, causal=True))


# B044 (Mikyx-1/TinyLLM#18): with a cache at hand the mask of a prompt of several tokens was left out.
@pytest.mark.parametrize("n", [1, 2, 4, 17])
@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(1, 1), (4, 2)])
def test_a_prompt_into_an_empty_cache_stays_causal(n, n_heads, n_kv_heads):
    layer, x = make(n_heads, n_kv_heads), normal(1, n, 6)
    weight = np.asarray(layer.map(x, cache=KVCache(), causal=True))
    assert (weight[..., ~np.tri(n, dtype=bool)] == 0).all()
    close(weight.sum(-1), np.ones((1, n_heads, n)))
    close(layer(x, cache=KVCache(), causal=True), layer(x, causal=True))
    k, v = layer.project(x)[1:]
    all_k, all_v = KVCache().append(k, v)
    np.testing.assert_array_equal(all_k, k)
    np.testing.assert_array_equal(all_v, v)


def test_without_causal_a_step_sees_all_so_far():
    layer, x = make(), normal(7, 6)
    cache = KVCache()
    layer(x[:4], cache=cache)
    assert layer.map(x[4:], cache=cache).shape == (4, 3, 7)
    close(layer(x[4:], cache=cache), layer(x[4:], x))


def test_the_map_with_a_cache_is_that_of_the_next_call_and_leaves_the_cache_alone():
    layer, x = make(), normal(2, 9, 6)
    cache = KVCache()
    layer(x[:, :5], cache=cache, causal=True)
    first, other = layer.map(x[:, 5:], cache=cache, causal=True), layer.map(x[:, 6:8], cache=cache, causal=True)
    assert len(cache) == 5
    assert first.shape == (2, 4, 4, 9)
    assert other.shape == (2, 4, 2, 7)
    layer(x[:, 5:], cache=cache, causal=True)
    assert len(cache) == 9
    close(first, np.asarray(layer.map(x, causal=True))[..., 5:, :])


def test_values_from_elsewhere_join_the_cache():
    layer, x, values = make(), normal(8, 6), normal(8, 6)
    cache = KVCache()
    parts = zip(pieces(x, [3, 5]), pieces(values, [3, 5]), strict=True)
    steps = [layer(a, values=b, cache=cache, causal=True) for a, b in parts]
    close(np.concatenate(steps), layer(x, values=values, causal=True))


def test_a_memory_and_a_cache_contradict_each_other():
    layer, x = make(), normal(4, 6)
    for call in (layer, layer.map):
        with pytest.raises(ArgumentError, match="cache and memory were both given"):
            call(x, normal(5, 6), cache=KVCache())
    q, k, v = layer.project(x, x[:2])
    close(layer.combine(attend(q, k) @ v), layer(x, x[:2]))


# ---- the cache itself


def test_it_gives_back_all_keys_and_values_in_order():
    k, v = normal(2, 3, 40, 4), normal(2, 3, 40, 5)
    cache = KVCache()
    assert (len(cache), repr(cache)) == (0, "KVCache(empty)")
    seen = [cache.append(*parts) for parts in zip(pieces(k, [5] * 8), pieces(v, [5] * 8), strict=True)]
    assert repr(cache) == "KVCache(40 keys, k (2, 3, 40, 4), v (2, 3, 40, 5), float64)"
    for i, (all_k, all_v) in enumerate(seen):  # what an early step was given, later steps left alone
        np.testing.assert_array_equal(all_k, k[..., : 5 * i + 5, :])
        np.testing.assert_array_equal(all_v, v[..., : 5 * i + 5, :])


def test_it_keeps_copies_and_hands_out_views_that_cannot_be_written():
    cache, k = KVCache(), normal(2, 3, 4)
    kept = k.copy()
    all_k, all_v = cache.append(k, k)
    k[:] = 0
    np.testing.assert_array_equal(cache.append(k, k)[0][:, :3], kept)
    for array in (all_k, all_v):
        assert not array.flags.writeable


def test_appending_one_by_one_allocates_a_few_times_only():
    cache, buffers = KVCache(), set()
    for _ in range(1000):
        k, _v = cache.append(normal(2, 1, 3), normal(2, 1, 3))
        buffers.add(k.__array_interface__["data"][0])
    assert len(cache) == 1000
    assert len(buffers) <= 11  # 1, 2, 4, … 1024


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "bfloat16"])
def test_it_keeps_the_dtype(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16
    k = normal(2, 3, 4).astype(dtype)
    all_k, all_v = KVCache().append(k, k)
    assert all_k.dtype == all_v.dtype == np.dtype(dtype)


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    k, v = torch.randn(2, 5, 4), torch.randn(2, 5, 3)
    cache = KVCache()
    cache.append(k[:, :2], v[:, :2])
    all_k, all_v = cache.append(k[:, 2:], v[:, 2:])
    assert torch.equal(all_k, k)
    assert torch.equal(all_v, v)


@pytest.mark.parametrize(
    ("k", "v", "error", "message"),
    [
        (normal(2, 3, 1, 4), normal(2, 2, 1, 5), ShapeError, r"k.shape = \(2, 3, 1, 4\) and v.shape = \(2, 2, 1, 5\)"),
        (normal(2, 2, 1, 4), normal(2, 2, 2, 5), ShapeError, r"differ in nothing but the width"),
        (normal(4), normal(5), ShapeError, r"k.shape = \(4,\)"),
        (normal(3, 2, 1, 4), normal(3, 2, 1, 5), ShapeError, r"batch axes 3, not 2 .*\(3, 2, 1, 4\), .*\(2, 2, 7, 4\)"),
        (normal(2, 3, 1, 4), normal(2, 3, 1, 5), ShapeError, r"heads 3, not 2"),
        (normal(2, 2, 1, 6), normal(2, 2, 1, 5), ShapeError, r"width 6, not 4 .*start the next with KVCache\(\)"),
        (normal(2, 2, 1, 4), normal(2, 2, 1, 4), ShapeError, r"v does not continue the cache: width 4, not 5"),
        (normal(2, 1, 4), normal(2, 1, 5), ShapeError, r"3 axes, not 4"),
        (normal(2, 2, 1, 4).astype("f4"), normal(2, 2, 1, 5).astype("f4"), DTypeError, "k is float32 but .* float64"),
        (normal(2, 2, 1, 4).astype("f4"), normal(2, 2, 1, 5), DTypeError, "got k float32 and v float64"),
        (normal(2, 2, 1, 4) * 1j, normal(2, 2, 1, 5), DTypeError, "k has dtype complex128"),
    ],
)  # fmt: skip
def test_an_append_that_fails_says_why_and_leaves_the_cache_as_it_was(k, v, error, message):
    cache, old_k, old_v = KVCache(), normal(2, 2, 7, 4), normal(2, 2, 7, 5)
    cache.append(old_k, old_v)
    with pytest.raises(error, match=message):
        cache.append(k, v)
    assert len(cache) == 7
    all_k, all_v = cache.append(old_k[..., :1, :], old_v[..., :1, :])
    np.testing.assert_array_equal(all_k[..., :7, :], old_k)
    np.testing.assert_array_equal(all_v[..., :7, :], old_v)
    assert len(cache) == 8


def test_a_preview_that_does_not_fit_is_refused_like_an_append():
    cache = KVCache()
    np.testing.assert_array_equal(cache.preview(np.ones((2, 3, 4))), np.ones((2, 3, 4)))
    cache.append(np.ones((2, 3, 4)), np.ones((2, 3, 4)))
    with pytest.raises(ShapeError, match="width 5, not 4"):
        cache.preview(np.ones((2, 1, 5)))


def test_a_call_that_fails_leaves_the_cache_as_it_was():
    layer, x = make(), normal(2, 6, 6)
    cache = KVCache()
    for filled in (0, 4):
        layer(x[:, :filled], cache=cache, causal=True)
        with pytest.raises(ShapeError):
            layer(x[:, 4:], cache=cache, mask=np.ones((3, 3, 3), bool))
        assert len(cache) == filled
    close(layer(x[:, 4:], cache=cache, causal=True), layer(x, causal=True)[:, 4:])


def test_a_first_call_that_fails_leaves_the_cache_free_for_any_shape():
    cache = KVCache()
    with pytest.raises(ShapeError):
        make(2, 2)(normal(3, 6), cache=cache, mask=np.ones((2, 2), bool))
    layer, x = make(4, 1), normal(2, 3, 6)
    close(layer(x, cache=cache, causal=True), layer(x, causal=True))


def test_a_copy_of_the_cache_is_a_branch_of_its_own():
    layer, x = make(), normal(8, 6)
    trunk = KVCache()
    layer(x[:4], cache=trunk, causal=True)
    branch = copy.deepcopy(trunk)
    layer(normal(2, 6), cache=branch, causal=True)
    close(layer(x[4:], cache=trunk, causal=True), layer(x, causal=True)[4:])
    assert (len(trunk), len(branch)) == (8, 6)


def test_one_head_without_a_head_axis_is_kept_too():
    k, v = normal(5, 4), normal(5, 2)
    cache = KVCache()
    cache.append(k[:3], v[:3])
    all_k, all_v = cache.append(k[3:], v[3:])
    np.testing.assert_array_equal(all_k, k)
    np.testing.assert_array_equal(all_v, v)
    assert heads.KVCache is KVCache
