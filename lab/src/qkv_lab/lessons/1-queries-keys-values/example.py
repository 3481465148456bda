"""One token projected three ways, then attention over two tokens, with nothing but the standard library."""

from math import exp, isclose, sqrt


def project(x, w):
    """A row times a matrix: each number of x scales one row of w, and the rows are added up."""
    return [sum(x[i] * w[i][j] for i in range(len(x))) for j in range(len(w[0]))]


x = [1, 2]
q = project(x, [[1, 0], [1, 1]])
k = project(x, [[0, 1], [1, 0]])
v = project(x, [[2, 0], [0, 2]])
print("q, k, v =", q, k, v)
assert (q, k, v) == ([3, 2], [2, 1], [2, 4])

query, keys, values = [1, 0], [[1, 0], [0, 1]], [[2, 0], [0, 2]]
scores = [sum(a * b for a, b in zip(query, key)) / sqrt(2) for key in keys]
terms = [exp(score - max(scores)) for score in scores]
weights = [term / sum(terms) for term in terms]
output = [sum(weight * value[c] for weight, value in zip(weights, values)) for c in range(2)]
print("scores =", [round(each, 6) for each in scores])
print("weights =", [round(each, 6) for each in weights])
print("output =", [round(each, 6) for each in output])
assert isclose(sum(weights), 1)

only_first = values[0]
print("output if only the first key may be seen =", only_first)
