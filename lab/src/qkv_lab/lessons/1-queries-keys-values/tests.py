"""Every call that a program is tried on: function, what is special about the case, arguments."""

import numpy as np


def cases(rng):
    def array(*shape):
        return rng.normal(size=shape)

    def sizes(count):
        # Different from each other, so that no two can stand for one another.
        return (int(each) for each in rng.permutation(np.arange(2, 9))[:count])

    for label in ("a few tokens", "other sizes"):
        n, d_model, d_k, d_v = sizes(4)
        yield "project_qkv", label, (array(n, d_model), array(d_model, d_k), array(d_model, d_k), array(d_model, d_v))
    n, d_model, d_k, d_v = sizes(4)
    x = array(n, d_model)
    right, values = array(d_model, d_k), array(d_model, d_v)
    yield "project_qkv", "one token", (x[:1], right, array(d_model, d_k), values)
    yield "project_qkv", "all sizes alike", tuple(array(3, 3) for _ in range(4))
    long = array(d_model + 1, d_k)
    yield "project_qkv", "Wq has a row too many", (x, long, right, values)
    yield "project_qkv", "Wk has a row too many", (x, right, long, values)
    yield "project_qkv", "Wv has a row too few", (x, right, right, values[1:])
    yield "project_qkv", "Wk has a column less than Wq", (x, right, right[:, 1:], values)
    yield "project_qkv", "Wk has a column more than Wq", (x, right, array(d_model, d_k + 1), values)
    for label in ("four sizes", "four other sizes"):
        n, d_model, d_k, d_v = sizes(4)
        yield "qkv_shapes", label, (n, d_model, d_k, d_v)
        n_q, n_k, d_v = sizes(3)
        yield "output_shape", label.replace("four", "three"), (n_q, n_k, d_v)
        d_model, d_k, d_v = sizes(3)
        yield "param_count", label.replace("four", "three"), (d_model, d_k, d_v)
    yield "param_count", "the sizes of a real model", (512, 64, 64)
