"""What a notebook shows: a picture of a small map, of a sample of a large one, and never more than it says."""

import re

import numpy as np
import pytest

import qkv
from cases.definition import normal


def page(shape: tuple[int, ...], n_q: int, n_k: int) -> str:
    q, k = normal(1, (*shape, n_q, 4), (*shape, n_k, 4))
    return qkv.attend(q, k, causal=True)._repr_html_()


def cells(text: str) -> int:
    return len(re.findall(r"<rect [^>]*>\s*<title>", text))


def test_a_small_map_is_drawn_cell_by_cell_with_its_weights():
    text = page((), 3, 4)
    assert cells(text) == 12 and "hidden" in text
    assert "AttentionMap(shape=(3, 4), float32, mask=causal()" in text
    weight = qkv.attend(*normal(1, (3, 4), (4, 4)), causal=True)[2, 3]
    assert any(float(x) == pytest.approx(weight, abs=5e-4) for x in re.findall(r"\d?\.\d+", text))


def test_four_heads_are_drawn_and_the_rest_counted():
    assert "4 of 6 heads" in page((2, 3), 5, 5)
    assert "heads;" not in page((2, 2), 5, 5)
    assert "head (1, 1)" in page((2, 2), 5, 5)


@pytest.mark.parametrize(("n_q", "n_k"), [(300, 500), (65, 64), (1, 900)])
def test_a_larger_map_is_pooled_and_says_so(n_q, n_k):
    text = page((), n_q, n_k)
    assert cells(text) == min(n_q, 64) * min(n_k, 64)
    assert f"{n_q} × {n_k} weights" in text and "largest" in text
    assert len(text) < 1_000_000


def test_above_four_million_cells_a_sample_is_drawn_and_says_so():
    text = page((), 2001, 2000)
    assert "A sample: 64 evenly spaced queries of 2,001, each exact over all 2,000 keys" in text
    assert len(text) < 2_000_000


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_an_empty_map_has_a_page(shape):
    assert "AttentionMap" in page((), *shape)
    assert "AttentionMap" in page((0,), 3, 3)


def test_a_page_runs_nothing_and_asks_for_nothing():
    text = page((2,), 30, 30)
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|<link|@import|\son\w+=", text)


def test_drawing_a_head_without_visible_keys_warns_of_nothing():
    text = qkv.attend(np.ones((3, 2)), np.ones((4, 2)), mask=np.zeros((3, 4), bool))._repr_html_()
    assert cells(text) == 12
