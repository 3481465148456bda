"""Attention over all keys from attention over parts of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from qkv import _arrays
from qkv._problem import check_same_dtype
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
    stacked = np.stack([lse.astype(work) for lse in sums])
    with np.errstate(all="ignore"):
        total = np.logaddexp.reduce(stacked, axis=0)
        shares = np.exp(stacked - np.where(np.isneginf(total), 0, total))[..., None]
        terms = [np.where(share == 0, 0, share * out.astype(work)) for share, out in zip(shares, outs, strict=True)]
        out = np.sum(terms, axis=0).astype(outs[0].dtype)
    return home.give(out), home.give(total)
