"""0 instead of −∞ for hidden keys

0 is a score like any other, better than every negative one. Only −∞ has the exponential 0.
"""


def hide(scores, visible):
    return scores * visible
