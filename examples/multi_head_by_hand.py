"""One layer of attention with several heads: as one call, by hand, and one position at a time.

python examples/multi_head_by_hand.py
"""

import numpy as np

import qkv

rng = np.random.default_rng(0)
n, d_model, n_heads, d_k = 6, 8, 2, 4
x = rng.standard_normal((n, d_model))
w_q, w_k, w_v, w_o = (rng.standard_normal((d_model, n_heads * d_k)) / d_model**0.5 for _ in range(4))

# One call.
layer = qkv.MultiHead(w_q, w_k, w_v, w_o.T, n_heads)
out = layer(x, causal=True)
print(layer, "->", out.shape)

# By hand: every head has columns of its own in W_Q, W_K and W_V, and rows of its own in W_O; the heads add up.
by_hand = np.zeros_like(out)
for h in range(n_heads):
    own = slice(h * d_k, (h + 1) * d_k)
    A = qkv.attend(x @ w_q[:, own], x @ w_k[:, own], causal=True)
    by_hand += A @ (x @ w_v[:, own]) @ w_o.T[own]
np.testing.assert_allclose(out, by_hand)

# One position at a time: the cache keeps the keys and values of those before.
cache = qkv.KVCache()
steps = [layer(x[i : i + 1], cache=cache, causal=True) for i in range(n)]
np.testing.assert_allclose(out, np.concatenate(steps))
print(cache)

# The weights are still there: one map for the layer, an index for the head.
weights = layer.map(x, causal=True)
print(np.asarray(weights[0]).round(2))
