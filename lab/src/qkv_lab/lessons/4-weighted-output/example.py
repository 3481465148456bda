"""Attention of one query, taken apart, with nothing but the standard library."""

from math import exp, isclose, sqrt


def attention(query, keys, values):
    """Weights, contributions and output of one query."""
    scores = [sum(a * b for a, b in zip(query, key)) / sqrt(len(query)) for key in keys]
    terms = [exp(score - max(scores)) for score in scores]
    weights = [term / sum(terms) for term in terms]
    parts = [[weight * number for number in value] for weight, value in zip(weights, values)]
    return weights, parts, [sum(column) for column in zip(*parts)]


def rounded(numbers):
    return [f"{number:.6f}" for number in numbers]


weights, parts, output = attention([1, 0], [[1, 0], [0, 1]], [[2, 0], [0, 2]])
print("weights", rounded(weights))
for j, part in enumerate(parts):
    print(f"key {j} brings", rounded(part))
print("output ", rounded(output))
assert isclose(sum(weights), 1)
assert isclose(output[0], 1.3395230986533138)

# The same weights, but the second value is ten times as long: the key with less weight brings more.
weights, parts, output = attention([1, 0], [[1, 0], [0, 1]], [[2, 0], [0, 20]])
lengths = [sqrt(sum(number**2 for number in part)) for part in parts]
print("lengths of what they bring", rounded(lengths))
assert weights[0] > weights[1]
assert lengths[0] < lengths[1]
