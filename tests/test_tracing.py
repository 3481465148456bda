"""`qkv.trace`: the map of every attention of a small random model, its values, and the matrix that reads them."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import qkv  # noqa: E402
from qkv.errors import ArgumentError  # noqa: E402

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50}
LLAMA = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=64)
BERT = transformers.BertConfig(**SIZES, max_position_embeddings=64)
GPT2 = transformers.GPT2Config(
    n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=64, bos_token_id=0, eos_token_id=0
)
T5 = transformers.T5Config(
    d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=50, decoder_start_token_id=0
)
GPT_OSS = transformers.GptOssConfig(
    **SIZES, num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1, max_position_embeddings=64
)
DIFF_LLAMA = transformers.DiffLlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=64)
MPNET = transformers.MPNetConfig(**SIZES, max_position_embeddings=64)
IDS = torch.tensor([[3, 7, 11, 7, 3, 20, 21, 3, 7], [9, 8, 7, 6, 5, 4, 3, 2, 1]])
PADDING = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 9])


def random(config, kind=transformers.AutoModel):
    torch.manual_seed(0)
    return kind.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()


def eager(model, inputs):
    with torch.no_grad():
        return model(**inputs, output_attentions=True)


def dense(weights):
    return np.asarray(weights.dense())


@pytest.mark.parametrize("config", [LLAMA, BERT, GPT2], ids=lambda config: config.model_type)
def test_the_maps_are_the_weights_of_the_pass_and_the_output_is_its_output(config):
    model, inputs = (
        random(config),
        {"input_ids": IDS, "attention_mask": PADDING.flip(1)},
    )  # to the right: no row is empty
    seen, want = qkv.trace(model, inputs), eager(model, inputs)
    assert len(seen) == len(seen.maps) == 2
    for mine, theirs in zip(seen.maps, want.attentions, strict=True):
        np.testing.assert_allclose(dense(mine), theirs.numpy(), atol=1e-6)
    np.testing.assert_allclose(seen.output.last_hidden_state, want.last_hidden_state, atol=1e-5)
    assert not seen.output.last_hidden_state.requires_grad


def test_an_attention_is_named_as_its_module_is():
    model = random(LLAMA)
    seen = qkv.trace(model, IDS)
    assert seen.names == ("layers.0.self_attn", "layers.1.self_attn")
    assert set(seen.names) <= dict(model.named_modules()).keys()
    assert repr(seen) == "Trace(2 maps of shape (2, 4, 9, 9))"


@pytest.mark.parametrize(
    ("config", "matrix"),
    [
        (LLAMA, lambda model: model.layers[1].self_attn.o_proj.weight.T),
        (BERT, lambda model: model.encoder.layer[1].attention.output.dense.weight.T),
        (GPT2, lambda model: model.h[1].attn.c_proj.weight),
    ],
    ids=["llama", "bert", "gpt2"],
)
def test_the_matrix_that_reads_the_heads_is_found(config, matrix):
    model = random(config)
    seen, w_o = qkv.trace(model, IDS), matrix(model).detach()
    assert torch.equal(seen.w_o[1], w_o)
    values = seen.values[1].repeat_interleave(4 // seen.values[1].shape[1], dim=1)
    moved = torch.einsum("bhjc,hcd->bhjd", values, w_o.reshape(4, 8, 32))
    np.testing.assert_allclose(seen.value_norms(1), moved.norm(dim=-1), rtol=1e-5)


def test_values_and_matrix_give_what_the_layer_gives():
    """A @ v, heads side by side, times W_O: the output of the attention module."""
    model, caught = random(LLAMA), []
    model.layers[1].self_attn.register_forward_hook(lambda module, given, out: caught.append(out[0]))
    seen = qkv.trace(model, IDS)
    out = torch.as_tensor(seen.maps[1] @ seen.values[1]).transpose(1, 2).flatten(-2) @ seen.w_o[1]
    np.testing.assert_allclose(out, caught[0], atol=1e-6)


def test_a_value_weighted_map_is_weight_times_norm_over_its_row():
    seen = qkv.trace(random(LLAMA), {"input_ids": IDS, "attention_mask": PADDING})
    moved = dense(seen.maps[0]) * np.asarray(seen.value_norms(0))[..., None, :]
    total = moved.sum(axis=-1, keepdims=True)
    shares = np.divide(moved, total, where=total > 0, out=np.zeros_like(moved))
    np.testing.assert_allclose(dense(seen.value_weighted(0)), shares, atol=1e-6)
    assert not shares[0, :, :2].any()  # padding sees nothing


def test_an_even_map_sees_what_the_layer_sees():
    seen = qkv.trace(random(LLAMA), {"input_ids": IDS, "attention_mask": PADDING})
    sees = np.tril(np.ones((9, 9))) * PADDING.numpy()[:, None, None, :]
    want = sees / np.maximum(sees.sum(axis=-1, keepdims=True), 1)
    np.testing.assert_allclose(dense(seen.even(0)), np.broadcast_to(want, (2, 4, 9, 9)), atol=1e-15)


def test_a_model_with_encoder_and_decoder_has_three_kinds_of_maps():
    model = random(T5)
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
    seen, want = qkv.trace(model, inputs), eager(model, inputs)
    theirs = [
        *want.encoder_attentions,
        *(m for both in zip(want.decoder_attentions, want.cross_attentions, strict=True) for m in both),
    ]
    assert [name.rpartition(".")[2] for name in seen.names] == ["SelfAttention"] * 3 + [
        "EncDecAttention",
        "SelfAttention",
        "EncDecAttention",
    ]
    for mine, other in zip(seen.maps, theirs, strict=True):
        np.testing.assert_allclose(dense(mine), other, atol=1e-6)
    assert all(each is not None for each in seen.w_o)


def test_a_learned_sink_gets_no_share_of_what_values_move():
    seen = qkv.trace(random(GPT_OSS), IDS)
    assert (dense(seen.maps[0]).sum(axis=-1) < 1 - 1e-3).all()
    np.testing.assert_allclose(dense(seen.value_weighted(0)).sum(axis=-1), 1, atol=1e-5)


def test_where_something_else_happens_to_the_heads_first_no_matrix_is_guessed():
    """DiffLlama subtracts the second half of its heads from the first, so no matrix reads them as they are."""
    seen = qkv.trace(random(DIFF_LLAMA), IDS)
    assert len(seen) == 4
    assert seen.names[:2] == ("layers.0.self_attn[0]", "layers.0.self_attn[1]")
    assert seen.w_o == (None,) * 4
    assert seen.value_norms(0) is None
    assert seen.value_weighted(0) is None


def test_the_model_is_left_as_it_was():
    model = random(LLAMA)
    hooks = sum(len(each._forward_pre_hooks) for each in model.modules())
    qkv.trace(model, IDS)
    with pytest.raises(IndexError):
        qkv.trace(model, torch.tensor([[1000]]))
    assert model.config._attn_implementation == "eager"
    assert sum(len(each._forward_pre_hooks) for each in model.modules()) == hooks


def test_a_trace_keeps_what_was_when_the_model_changes():
    model = random(LLAMA)
    seen = qkv.trace(model, IDS)
    before = dense(seen.maps[0]).copy(), seen.values[0].clone()
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()
    assert np.array_equal(dense(seen.maps[0]), before[0])
    assert torch.equal(seen.values[0], before[1])


def test_a_model_in_training_mode_is_refused_for_its_weights_would_be_random():
    with pytest.raises(ArgumentError, match="training mode"):
        qkv.trace(random(BERT).train(), IDS)


def test_labels_are_kept_where_they_fit():
    model = random(LLAMA)
    assert qkv.trace(model, IDS, labels="a b c d e f g h i".split()).labels[2] == "c"
    with pytest.raises(ArgumentError, match="labels are 3"):
        qkv.trace(model, IDS, labels="a b c".split())


def test_a_model_with_attention_of_its_own_is_refused():
    model = random(MPNET)
    with pytest.raises(ArgumentError, match="MPNetModel has attention of its own, or none"):
        qkv.trace(model, IDS)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("call", ["qkv.trace(None, {})", "qkv.tracing.pretrained('.')"])
def test_without_torch_it_says_what_to_install(call):
    code = f"import sys; sys.modules['torch'] = None; import qkv; {call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("qkv.errors.MissingError:")
    assert "needs torch: pip install torch transformers" in done.stderr
