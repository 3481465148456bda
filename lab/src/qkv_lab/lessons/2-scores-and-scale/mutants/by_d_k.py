"""÷ d_k, not ÷ √d_k

Divided by d_k the spread is 1/√d_k: at width 64 only an eighth, and all keys weigh nearly the same. The spread of a
sum grows like the root of its length, so the root is what divides.
"""


def scaled_scores(Q, K, temperature):
    return Q @ K.T / Q.shape[1] / temperature
