"""Attention over all keys from attention over parts of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from qkv import _arrays, _kernel
from qkv._problem import check_same_dtype
from qkv._typing import Array
from qkv.errors import ArgumentError, ShapeError


def merge(parts: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Attention over all keys from attention over disjoint parts of them.

    parts: (out, lse) of each part, out (…, n_q, d_v), lse (…, n_q) in nats -> the (out, lse) of the whole. A sink
    belongs to exactly one part. A part that sees no key (lse −inf) counts for nothing, whatever its out.
    Rabe & Staats 2021.
    """
    if not parts:
        raise ArgumentError("merge got no parts; expected [(out, lse), …]")
    home = _arrays.library(parts[0][0])
    outs = [_arrays.floating(out, "out") for out, _ in parts]
    sums = [_arrays.floating(lse, "lse") for _, lse in parts]
    check_same_dtype(**{f"out {at}": out for at, out in enumerate(outs)})
    for out, lse in zip(outs, sums, strict=True):
        if out.shape != outs[0].shape or lse.shape != out.shape[:-1]:
            raise ShapeError(
                f"merge got out of shape {out.shape} with lse of shape {lse.shape}; expected {outs[0].shape} and "
                f"{outs[0].shape[:-1]} in each part"
            )
    work = np.result_type(*sums, _arrays.work_dtype(outs[0].dtype))
    sums = [lse.astype(work, copy=False) for lse in sums]
    compiled = _kernel.chosen() != "walk" and home.name in ("numpy", "torch") and home.device == "cpu"
    out, total = (_kernel.merge if compiled else _merged)(outs, sums)
    with np.errstate(all="ignore"):
        return home.give(out.astype(outs[0].dtype, copy=False)), home.give(total)


def _merged(outs: Sequence[Array], sums: Sequence[Array]) -> tuple[Array, Array]:
    """The whole from its parts, in the dtype of the sums."""
    stacked = np.stack(sums)
    with np.errstate(all="ignore"):
        total = np.logaddexp.reduce(stacked, axis=0)
        shares = np.exp(stacked - np.where(np.isneginf(total), 0, total))[..., None]
        terms = [
            np.where(share == 0, 0, share * out.astype(total.dtype)) for share, out in zip(shares, outs, strict=True)
        ]
        return np.sum(terms, axis=0), total
