"""Ids and their places by tables are those that sorting gives, wherever the ids are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from league.services.matches import indexing as module
from league.services.matches.indexing import distinct, indices

near = st.integers(100, 140)
far = st.integers(-(2**41), 2**41)
ids = st.sampled_from([near, far]).flatmap(lambda each: arrays(np.int64, st.integers(0, 30), elements=each))


@given(ids, ids)
def test_distinct_values_are_in_order_and_each_is_there_once(one, other):
    assert distinct(one, other).tolist() == sorted({*one.tolist(), *other.tolist()})


@given(ids, st.data())
def test_places_are_where_the_values_are(values, data):
    ordered = np.unique(values)
    within = st.integers(0, ordered.size - 1) if ordered.size else st.nothing()
    expected = data.draw(arrays(np.int64, st.integers(0, 60 if ordered.size else 0), elements=within))
    assert indices(ordered, ordered[expected]).tolist() == expected.tolist()


def test_where_ids_are_close_together_nothing_is_sorted(monkeypatch):
    """And where they are far apart no table is made, which would not fit into memory."""
    monkeypatch.setattr(module.np, "unique", None)
    monkeypatch.setattr(module.np, "searchsorted", None)
    values = np.array([7, 5, 9, 5])
    assert distinct(values).tolist() == [5, 7, 9]
    assert indices(np.array([5, 7, 9]), values).tolist() == [1, 0, 2, 0]
    monkeypatch.undo()
    apart = np.array([1, 2**60])
    assert distinct(apart).tolist() == apart.tolist()
    assert indices(apart, apart).tolist() == [0, 1]
