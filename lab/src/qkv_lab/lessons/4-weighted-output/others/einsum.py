import numpy as np


def average(weights, V):
    return np.einsum("ij,jc->ic", weights, V)


def contributions(weights, V, i):
    return np.einsum("j,jc->jc", weights[i], V)


def attention(Q, K, V, visible):
    scores = np.einsum("ic,jc->ij", Q, K) / Q.shape[-1] ** 0.5
    # The largest of all scores, hidden ones too, would be too large for rows far below; that of the visible is right.
    top = np.max(scores, axis=1, where=visible, initial=-np.inf)
    terms = np.where(visible, np.exp(np.minimum(scores - top[:, None], 0)), 0)
    output = np.einsum("ij,jc->ic", terms, V)
    return output / np.maximum(terms.sum(axis=1), 1e-300)[:, None]
