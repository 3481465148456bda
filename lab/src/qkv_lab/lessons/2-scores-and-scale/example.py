"""What the scale does to a softmax, with nothing but the standard library."""

from math import exp, sqrt
from random import Random


def dot(q, k):
    return sum(a * b for a, b in zip(q, k))


def softmax(scores):
    terms = [exp(score - max(scores)) for score in scores]
    return [term / sum(terms) for term in terms]


def slope(weight):
    """How much a weight changes when its score does."""
    return weight * (1 - weight)


print("q·k =", dot([1, 2, 0, -1], [2, 1, 3, 0]), "  scaled =", dot([1, 2, 0, -1], [2, 1, 3, 0]) / sqrt(4))

d_k = 64
for raw in ([8, 0], [16, 0, 0, 0]):
    scaled = [score / sqrt(d_k) for score in raw]
    print("raw   ", raw, [f"{weight:.7f}" for weight in softmax(raw)])
    print("scaled", scaled, [f"{weight:.4f}" for weight in softmax(scaled)])

before, after = slope(softmax([8, 0])[0]), slope(softmax([1, 0])[0])
print(f"slope {before:.6f} raw, {after:.6f} scaled: {after / before:.0f} times as steep")

# The spread of scores, measured: about 8 raw, about 1 scaled.
random, scores = Random(1), []
for _ in range(2000):
    q, k = ([random.gauss(0, 1) for _ in range(d_k)] for _ in range(2))
    scores.append(dot(q, k))
spread = sqrt(sum(score**2 for score in scores) / len(scores))
print(f"measured spread {spread:.1f} raw, {spread / sqrt(d_k):.2f} scaled")
assert abs(spread - 8) < 0.5
