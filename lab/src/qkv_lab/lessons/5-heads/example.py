"""Two heads of a toy layer, with nothing but the standard library."""

from math import exp, isclose, sqrt


def split(rows, n_heads):
    """Cut each row into as many slices: a table for each head."""
    d = len(rows[0]) // n_heads
    return [[row[h * d : (h + 1) * d] for row in rows] for h in range(n_heads)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def weights(queries, keys):
    scores = [[dot(q, k) / sqrt(len(q)) for k in keys] for q in queries]
    terms = [[exp(score - max(row)) for score in row] for row in scores]
    return [[term / sum(row) for term in row] for row in terms]


def show(what, table):
    print(what, [[f"{number:.4f}" for number in row] for row in table])


# Queries of three tokens, and their keys, four channels wide: two heads of two channels.
queries = [[2, 0, 0, 2], [0, 2, 2, 0], [1, 1, 0, 0]]
keys = [[2, 0, 2, 0], [0, 2, 0, 2], [0, 0, 1, 1]]

show("full width", weights(queries, keys)[:1])
for h, (q, k) in enumerate(zip(split(queries, 2), split(keys, 2))):
    show(f"head {h}    ", weights(q, k)[:1])

# The dot products of the heads add up to that of the full width, for every pair.
halves = list(zip(split(queries, 2), split(keys, 2)))
for i, q in enumerate(queries):
    for j, k in enumerate(keys):
        assert isclose(dot(q, k), sum(dot(some_q[i], some_k[j]) for some_q, some_k in halves))

print("split [1, 2, 3, 4, 5, 6]:", split([[1, 2, 3, 4, 5, 6]], 2))
group = 6 // 2
print("key head of each query head:", [head // group for head in range(6)])
