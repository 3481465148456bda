def dot_scores(Q, K):
    return [[float(sum(a * b for a, b in zip(q, k))) for k in K.tolist()] for q in Q.tolist()]


def scaled_scores(Q, K, temperature):
    d_k = len(Q.tolist()[0])
    return [[score * d_k**-0.5 / temperature for score in row] for row in dot_scores(Q, K)]


def score_std(d_k, scale):
    return (d_k * scale * scale) ** (1 / 2)
