"""Causal and cross attention and their cost, with nothing but the standard library."""

from math import exp, sqrt


def causal(n_q, n_k):
    """Query i stands beside key i + n_k − n_q, and sees that one and all before it."""
    return [[j <= i + n_k - n_q for j in range(n_k)] for i in range(n_q)]


def attention(queries, keys, values, visible):
    output = []
    for query, sees in zip(queries, visible):
        scores = [sum(a * b for a, b in zip(query, key)) / sqrt(len(query)) for key in keys]
        top = max((score for score, seen in zip(scores, sees) if seen), default=0)
        terms = [exp(score - top) if seen else 0 for score, seen in zip(scores, sees)]
        total = sum(terms) or 1
        output.append(
            [sum(term * value[c] for term, value in zip(terms, values)) / total for c in range(len(values[0]))]
        )
    return output


print("three queries, five keys")
for row in causal(3, 5):
    print("   ", "".join(" ■" if seen else " ·" for seen in row))

tokens, values = [[1, 0], [0, 1], [1, 1]], [[1], [2], [4]]
everything = [[True] * 3] * 3
for name, visible in (("self", everything), ("causal", causal(3, 3))):
    print(f"{name:7}", [f"{row[0]:.4f}" for row in attention(tokens, tokens, values, visible)])
memory = [[2, 0], [0, 2]]
print("cross  ", [f"{row[0]:.4f}" for row in attention(tokens, memory, [[10], [20]], [[True] * 2] * 3)])

print()
for name, n, d, heads in (("a picture, 196 patches", 196, 768, 12), ("its pixels, 224 × 224", 224 * 224, 768, 12)):
    pairs, projections = 2 * n * n * d, 4 * n * d * d
    print(f"{name}: multiply-adds of projections {projections:,}, of pairs {pairs:,}")
    print(f"    pairs / projections {pairs / projections:.3f}, maps {heads * n * n * 4 / 1e9:.4f} GB")
