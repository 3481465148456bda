"""The masks of transformers as values of qkv.masks: the same cells, structured where they can be read, never dense."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import masking_utils

import qkv
import zoo
from qkv import masks
from qkv.transformers import _read
from qkv.transformers._mask import ModelMask, model_mask

IDS = torch.tensor([[0] * 9 + [1] * 6 + [-1] * 5, [0] * 4 + [-1] * 3 + [1] * 13])
PATTERNS = {
    "causal": masking_utils.causal_mask_function,
    "open": masking_utils.bidirectional_mask_function,
    "window": masking_utils.sliding_window_causal_mask_function(3),
    "window of none": masking_utils.sliding_window_causal_mask_function(0),
    "window both ways": masking_utils.sliding_window_bidirectional_mask_function(2),
    "chunks": masking_utils.chunked_causal_mask_function(4, torch.tensor([0, 3])),
    "packed": masking_utils.packed_sequence_mask_function(IDS),
    "blocks": masking_utils.or_masks(masking_utils.causal_mask_function, masking_utils.blockwise_overlay(IDS)),
    "padding": masking_utils.padding_mask_function(IDS > 0),
    "open or causal": masking_utils.or_masks(*[masking_utils.bidirectional_mask_function] * 2),
    "unknown": lambda b, h, q, k: (q * k + b) % 3 != 0,
    "unknown and causal": masking_utils.and_masks(lambda b, h, q, k: q != k, masking_utils.causal_mask_function),
    "positions": masking_utils.remap_positions_for_packed_sequence(
        masking_utils.causal_mask_function, torch.arange(20).expand(2, -1) % 7
    ),
}
PLACES = [(6, 6, 0, 0), (1, 7, 6, 0), (5, 9, 4, 0), (3, 8, 9, 4), (4, 12, 5, 0)]  # n_q, n_k, q_offset, kv_offset
PADDING = {
    "none": None,
    "left": torch.arange(20).expand(2, -1) >= torch.tensor([[0], [3]]),
    "right": torch.arange(20).expand(2, -1) < torch.tensor([[20], [5]]),
    "short": torch.ones(2, 7, dtype=torch.bool),
}


def cells(mask):
    """A mask of ours as a dense array, by the weights of a map whose scores are all 0."""
    batch, _, n_q, n_k = mask.shape
    return np.asarray(qkv.attend(np.zeros((batch, 1, n_q, 1)), np.zeros((batch, 1, n_k, 1)), mask=mask.rule)) > 0


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_mask_has_the_cells_that_transformers_gives_it(pattern, place, padding):
    n_q, n_k, q_offset, kv_offset = place
    asked = {
        "batch_size": 2, "q_length": n_q, "kv_length": n_k, "q_offset": q_offset, "kv_offset": kv_offset,
        "mask_function": PATTERNS[pattern], "attention_mask": PADDING[padding],
    }  # fmt: skip
    ours = model_mask(**asked)
    wanted = masking_utils.sdpa_mask(**asked, allow_is_causal_skip=False)
    np.testing.assert_array_equal(cells(ours), wanted.expand(2, 1, n_q, n_k).numpy())
    assert ours.shape == (2, 1, n_q, n_k) and ours.ndim == 4


READ = [
    ("causal", None, "causal()"),
    ("window", None, "window(2, None) & causal()"),
    ("window both ways", None, "window(2, 2)"),
    ("open", None, "None"),
    ("open", "right", "lengths([6, 5])"),
    ("causal", "left", "causal() & dense(bool[2, 1, 1, 6])"),
    ("chunks", None, "segments(int64[2, 6], int64[2, 6]) & causal()"),
    ("packed", None, "segments(int64[2, 6], int64[2, 6])"),
    ("blocks", None, "causal() | segments(int64[2, 6], int64[2, 6])"),
    ("unknown and causal", None, "asked(<lambda>) & causal()"),
]


@pytest.mark.parametrize(("pattern", "padding", "wanted"), READ)
def test_a_known_pattern_is_read_and_not_asked(pattern, padding, wanted):
    mask = model_mask(2, 6, 6, 0, 0, PATTERNS[pattern], None if padding is None else PADDING[padding])
    assert repr(mask.rule) == wanted


def test_a_factory_that_comes_to_mean_something_else_is_no_longer_believed(monkeypatch):
    def sliding_window_overlay(sliding_window):
        def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
            return kv_idx >= q_idx - sliding_window

        return inner_mask

    sliding_window_overlay.__module__ = masking_utils.__name__
    changed = sliding_window_overlay(3)
    changed.__module__, changed.__qualname__ = masking_utils.__name__, "sliding_window_overlay.<locals>.inner_mask"
    assert repr(model_mask(1, 6, 6, 0, 0, masking_utils.sliding_window_overlay(3)).rule) == "window(2, None)"

    def factory(sliding_window):
        made = sliding_window_overlay(sliding_window)
        made.__module__, made.__qualname__ = changed.__module__, changed.__qualname__
        return made

    monkeypatch.setattr(masking_utils, "sliding_window_overlay", factory)
    _read.believed.cache_clear()
    try:
        mask = model_mask(1, 6, 6, 0, 0, factory(3))
        assert repr(mask.rule) == "asked(sliding_window_overlay.<locals>.inner_mask)"
        np.testing.assert_array_equal(cells(mask)[0, 0], np.tri(6, k=5, dtype=bool) & ~np.tri(6, k=-4, dtype=bool))
    finally:
        _read.believed.cache_clear()


def test_a_function_of_single_indices_is_mapped_over_all():
    def near(batch, head, query, key):
        return torch.where(query - key > 2, False, key <= query)

    mask = model_mask(2, 6, 6, 0, 0, near, use_vmap=True)
    np.testing.assert_array_equal(cells(mask)[1, 0], np.tri(6, dtype=bool) & ~np.tri(6, k=-3, dtype=bool))


def test_a_large_mask_is_never_dense():
    n = 200_000  # 40 GB, were it dense
    q = torch.zeros(1, 1, n, 1)
    for pattern in ("window", "unknown"):
        mask = model_mask(1, n, n, 0, 0, PATTERNS[pattern])
        assert mask.shape == (1, 1, n, n)
        assert qkv.attend(q, q, mask=mask.rule)[0, 0, 5, 3:6].count_nonzero() == (3 if pattern == "window" else 2)


def test_a_mask_made_before_the_forward_is_taken_as_it_is():
    mask = model_mask(1, 6, 6, 0, 0, PATTERNS["causal"])
    assert model_mask(1, 6, 6, 0, 0, PATTERNS["causal"], mask) is mask


def test_an_argument_that_nobody_knows_is_refused_by_name():
    with pytest.raises(qkv.ArgumentError, match="qkv does not know the mask argument 'diagonal'"):
        model_mask(1, 6, 6, diagonal=3)
    with pytest.raises(qkv.ArgumentError, match=r"attention_mask has shape \(2, 6, 6\)"):
        model_mask(2, 6, 6, attention_mask=torch.ones(2, 6, 6))


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda mask: mask.dtype, AttributeError),
        (lambda mask: torch.ones(1) + mask, qkv.ArgumentError),
        (lambda mask: mask[..., :3], qkv.ArgumentError),
    ],
)
def test_a_model_that_takes_its_mask_for_a_tensor_is_told_what_to_do(use, kind):
    with pytest.raises(kind, match=r'a mask of qkv is no tensor; model\.set_attn_implementation\("eager"\)'):
        use(ModelMask(masks.causal(), (1, 1, 4, 4)))


def test_packed_sequences_do_not_see_each_other():
    model = zoo.build("llama")
    ids = zoo.inputs("llama")["input_ids"]
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
    outs = {}
    for way in ("eager", "qkv"):
        model.set_attn_implementation(way)
        with torch.no_grad():
            outs[way] = model(input_ids=ids, position_ids=positions, output_attentions=True, use_cache=False)
    first = outs["qkv"].attentions[0]
    assert not first[..., 3:, :3].any()
    torch.testing.assert_close(first.dense(), outs["eager"].attentions[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(outs["qkv"].logits, outs["eager"].logits, rtol=0, atol=1e-6)
