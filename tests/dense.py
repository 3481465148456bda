"""Problems of every kind, and their weights and scores held whole: what the tests of measures are held against."""

from typing import Any

import numpy as np

from cases.definition import define, qkv_arrays

N_Q, N_K = 131, 1030  # two query tiles and two key tiles, none of them full
IDS = np.random.default_rng(5).integers(0, 9, N_K)


def visible_of(shape: tuple[int, ...], name: str) -> np.ndarray:
    """Which cells each of the problems below shows, by index arithmetic alone."""
    n_q, n_k = shape[-2:]
    i, j = np.arange(n_q)[:, None] + n_k - n_q, np.arange(n_k)
    every = {"plain": np.ones((n_q, n_k), bool), "sinks": j <= i, "causal": j <= i}
    every["window"] = (j >= i - 200) & (j <= i + 3)
    every["holes"] = np.random.default_rng(8).random((n_q, n_k)) < 0.5
    every["holes"][[0, 130]] = False  # two queries that may see nothing
    every["holes"][:, 7] = False  # a key that nobody may see
    every["holes"][5, :] = j == 1029  # a query that sees one key, in its last tile
    every["capped"] = j <= i
    return every[name]


PROBLEMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (200, 3)},
    "holes": {"mask": visible_of((N_Q, N_K), "holes")},
    "sinks": {"causal": True, "sinks": [0.5, -1.0]},
    "capped": {"causal": True, "softcap": 2.0, "temperature": 0.5, "bias": "slope"},
}


def problem(name: str, dtype: Any, n_q: int = N_Q, n_k: int = N_K) -> tuple[Any, Any, dict[str, Any]]:
    q, k, _ = qkv_arrays(11, n_q, n_k, dtype=dtype)
    arguments = dict(PROBLEMS[name])
    if arguments.get("bias") == "slope":
        arguments["bias"] = np.linspace(-3, 3, n_k, dtype=dtype)[None, :]
    return q, k, arguments


def dense(q: Any, k: Any, name: str, arguments: dict[str, Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Weights and scores (raw, before softcap and bias) of the formula."""
    rest = {key: value for key, value in arguments.items() if key not in ("causal", "window", "mask")}
    visible = visible_of((q.shape[-2], k.shape[-2]), name)
    answer = define(q, k, np.ones_like(k), dtype=dtype, visible=visible, **rest)
    raw = q.astype(dtype) @ k.astype(dtype).swapaxes(-1, -2) / np.sqrt(dtype(q.shape[-1]))
    return answer.weights, np.where(visible, raw / dtype(arguments.get("temperature", 1.0)), -np.inf)


def placed(w: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Visible cells, aligned position of each query, key positions."""
    n_q, n_k = w.shape[-2:]
    return visible_of(w.shape, name), np.arange(n_q)[:, None] + n_k - n_q, np.arange(n_k)
