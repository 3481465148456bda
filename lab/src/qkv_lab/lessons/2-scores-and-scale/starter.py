import numpy as np


def dot_scores(Q, K):
    pass


def scaled_scores(Q, K, temperature):
    pass


def score_std(d_k, scale):
    pass
