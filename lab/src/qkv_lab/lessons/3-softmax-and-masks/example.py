"""Softmax with a mask, with nothing but the standard library."""

from math import exp, inf


def softmax(scores, visible):
    """Weights of one row. A row that sees nothing is all zeros."""
    hidden = [score if sees else -inf for score, sees in zip(scores, visible)]
    top = max(hidden)
    if top == -inf:
        return [0.0 for _ in hidden]
    terms = [exp(score - top) for score in hidden]
    return [term / sum(terms) for term in terms]


def show(what, weights):
    print(f"{what:24}", [f"{weight:.4f}" for weight in weights], f"sum {sum(weights):.4f}")


scores, everything, first_two = [2.0, 0.0, 5.0], [True, True, True], [True, True, False]
print("exponentials", [f"{exp(score):.4f}" for score in scores], f"sum {sum(map(exp, scores)):.4f}")
show("all visible", softmax(scores, everything))
show("third hidden", softmax(scores, first_two))
show("masked after softmax", [w * sees for w, sees in zip(softmax(scores, everything), first_two)])
show("nothing visible", softmax(scores, [False, False, False]))
show("1000 more on each", softmax([score + 1000 for score in scores], everything))
assert softmax(scores, everything) == softmax([score + 1000 for score in scores], everything)
