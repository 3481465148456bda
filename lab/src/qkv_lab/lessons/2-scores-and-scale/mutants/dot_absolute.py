"""scores without their sign

A negative score says that the two point apart, and such a key gets a small weight. Without its sign it would get a
large one.
"""


def dot_scores(Q, K):
    return abs(Q @ K.T)
