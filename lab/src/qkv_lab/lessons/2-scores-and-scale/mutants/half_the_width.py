"""d_k ** 1 / 2 is half of d_k

** binds tighter than /, so that Python reads (d_k ** 1) / 2. The root is d_k ** 0.5 or np.sqrt(d_k). The two agree
only at d_k = 4.
"""


def scaled_scores(Q, K, temperature):
    return Q @ K.T / (Q.shape[1] ** 1 / 2) / temperature
