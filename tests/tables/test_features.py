import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gread.base.errors import InputError
from gread.tables.column import column
from gread.tables.features import (
    ENCODERS,
    HASHED_WORDS,
    LARGEST,
    Categories,
    Numbers,
    Preprocessing,
    Words,
)
from gread.tables.table import Table

ALL = np.arange(6)
TABLE = Table(
    "nodes.csv",
    {
        "height": column([1.0, 2.0, 3.0, 4.0, 5.0, None]),
        "clicks": column([0, 0, 0, 0, 4, 2]),
        "member": column([True, True, True, False, None, True]),
        "colour": column(["red", "blue", "red", None, "blue", "red"]),
        "code": column([1, 2, 1, 2, 1, 2]),
        "note": column([f"the cat {k} sat" for k in "abcdef"]),
        "pixels": column(np.arange(12.0).reshape(6, 2)),
        "odd": column(["x", 1, "x", 1, "x", 1]),
    },
)


def fitted(*names, rows=ALL):
    return Preprocessing.fit(TABLE, names, rows)


def test_numbers_get_mean_0_and_deviation_1_over_the_training_rows():
    found = fitted("height", rows=np.array([0, 2, 4])).transform(TABLE)
    assert found[[0, 2, 4], 0].mean() == pytest.approx(0, abs=1e-6)
    assert found[[0, 2, 4], 0].std() == pytest.approx(1, abs=1e-6)
    assert found.shape == (6, 1)  # no training row lacks it
    assert found[5, 0] == 0


def test_what_is_missing_in_training_has_a_feature_of_its_own():
    preprocessing = fitted("height", "colour")
    assert preprocessing.names() == [
        "height",
        "height is missing",
        "colour = blue",
        "colour = red",
        "colour is missing",
    ]
    found = preprocessing.transform(TABLE)
    assert found[:, 1].tolist() == [0, 0, 0, 0, 0, 1]
    assert found[:, 4].tolist() == [0, 0, 0, 1, 0, 0]


def test_columns_that_are_mostly_zero_keep_their_zeros():
    assert fitted("clicks").transform(TABLE)[:, 0].tolist() == [0, 0, 0, 0, 1, 0.5]


def test_only_training_rows_are_looked_at():
    rows = np.array([0, 1, 2])
    kept = fitted(*TABLE.columns, rows=rows)
    other = {name: column(_shuffled(found, rows)) for name, found in TABLE.columns.items()}
    assert Preprocessing.fit(Table("t", other), list(other), rows) == kept


def _shuffled(found, rows):
    """The same training rows, with the first of them in all other rows."""
    order = np.where(np.isin(ALL, rows), ALL, rows[0])
    values = found.values[order]
    return (
        values
        if values.ndim == 2
        else [
            None if gone else value
            for value, gone in zip(values.tolist(), found.missing[order], strict=True)
        ]
    )


def test_each_kind_has_its_encoder():
    kinds = {name: type(encoder) for name, encoder in fitted(*TABLE.columns).encoders.items()}
    assert kinds == {
        "height": Numbers,
        "clicks": Numbers,
        "member": Numbers,
        "colour": Categories,
        "code": Numbers,
        "note": Words,
        "pixels": Numbers,
        "odd": Categories,
    }
    assert set(kinds.values()) == set(ENCODERS.values())


def test_a_preprocessing_survives_json():
    kept = fitted(*TABLE.columns)
    read = Preprocessing.from_dict(json.loads(json.dumps(kept.to_dict())))
    assert read == kept
    np.testing.assert_array_equal(read.transform(TABLE), kept.transform(TABLE))
    assert len(kept.names()) == kept.width == kept.transform(TABLE).shape[1]


def test_texts_with_the_same_words_are_alike():
    texts = ["Graph neural networks", "networks, neural graph!", "cooking with salt", None]
    texts += [f"word{k} other{k}" for k in range(8)]
    table = Table("t", {"text": column(texts)})
    found = Preprocessing.fit(table, ["text"], np.arange(12)).transform(table)
    assert found.shape == (12, HASHED_WORDS)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert found[0] @ found[2] < 0.5
    assert not found[3].any()
    np.testing.assert_allclose(np.linalg.norm(found[[0, 2]], axis=1), 1, atol=1e-6)


def test_a_new_value_an_outlier_and_a_column_of_codes_are_encoded():
    kept = fitted("colour", "height")
    new = Table("t", {"colour": column([7, 7]), "height": column([1e30, -(10.0**300)])})
    found = kept.transform(new)
    assert not found[:, :3].any()
    assert found[:, 3].tolist() == [LARGEST, -LARGEST]


def test_a_column_without_a_value_is_missing_everywhere():
    kept = fitted("height", "colour", "note")
    new = Table("t", {name: column([None]) for name in ("height", "colour", "note")})
    found = dict(zip(kept.names(), kept.transform(new)[0].tolist(), strict=True))
    assert found["height is missing"] == found["colour is missing"] == 1
    assert sum(map(abs, found.values())) == 2


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        ({"height": ["tall"]}, "column 'height' of new.csv must hold numbers, got text: 'tall'"),
        ({"height": [float("nan")]}, "must hold finite numbers, got NaN or infinity in 1 rows"),
        ({"width": [1]}, "new.csv has no column 'height'"),
        ({"height": [[1, 2]]}, "must hold 1 numbers a row, as in training, got 2"),
    ],
)
def test_a_new_table_that_does_not_fit_is_one_sentence(new, sentence):
    table = Table("new.csv", {name: column(values) for name, values in new.items()})
    with pytest.raises(InputError) as raised:
        fitted("height").transform(table)
    assert sentence in str(raised.value)


@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1
    ),
    share=st.floats(0, 1),
)
def test_features_are_finite_whatever_numbers_there_are(values, share):
    table = Table("t", {"x": column(values)})
    rows = np.arange(max(1, int(share * len(values))))
    found = Preprocessing.fit(table, ["x"], rows).transform(table)
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= LARGEST


def test_features_that_would_fill_the_memory_stay_on_the_disk(monkeypatch):
    names = column([f"word{k % 70} and {k % 7}" for k in range(200)])
    table = Table("nodes", {"x": column(np.arange(200.0)), "text": names})
    fitted = Preprocessing.fit(table, ["x", "text"], np.arange(150))
    here = fitted.transform(table)
    monkeypatch.setattr("gread.tables.features.free_memory", lambda: 0.0)
    monkeypatch.setattr("gread.tables.features.BLOCK", 64)
    there = fitted.transform(table)
    assert isinstance(there, np.memmap)
    np.testing.assert_array_equal(there, here)
