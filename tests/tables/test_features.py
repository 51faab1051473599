import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_array

from gread.base.errors import InputError
from gread.tables.column import column, sparse_numbers, sparse_vectors
from gread.tables.features import (
    ENCODERS,
    HASHED_WORDS,
    LARGEST,
    MILLION,
    SCALINGS,
    Categories,
    Dates,
    Numbers,
    Preprocessing,
    Words,
)
from gread.tables.table import Table
from gread.tables.written import as_numbers, date_format, number_format

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
        "joined": column(
            ["2020-01-31", "2020-02-01", None, "2021-12-24", "2020-02-01", "2022-03-01"]
        ),
    },
)


def fitted(*names, rows=ALL):
    return Preprocessing.fit(TABLE, names, rows)


def test_numbers_get_mean_0_and_deviation_1_over_the_training_rows():
    found = fitted("height", rows=np.array([0, 2, 4])).transform(TABLE)
    assert found[[0, 2, 4], 0].mean() == pytest.approx(0, abs=1e-6)
    assert found[[0, 2, 4], 0].std() == pytest.approx(1, abs=1e-6)
    assert found.shape == (6, 1)  # no missing value in training rows
    assert found[5, 0] == 0


def test_missing_training_values_add_an_indicator_feature():
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
    found = fitted("clicks").transform(TABLE)[:, 0]
    np.testing.assert_allclose(found, np.log2([1, 1, 1, 1, 5, 3]), rtol=1e-6)


def test_preprocessing_is_fitted_on_training_rows_only():
    rows = np.array([0, 1, 2])
    kept = fitted(*TABLE.columns, rows=rows)
    other = {name: column(_shuffled(found, rows)) for name, found in TABLE.columns.items()}
    assert Preprocessing.fit(Table("t", other), list(other), rows) == kept


def _shuffled(found, rows):
    """Values with the same training rows; all other rows are copies of the first one."""
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
        "joined": Dates,
    }
    assert set(kinds.values()) == set(ENCODERS.values())


def test_preprocessing_is_restored_from_json():
    kept = fitted(*TABLE.columns)
    read = Preprocessing.from_dict(json.loads(json.dumps(kept.to_dict())))
    assert read == kept
    np.testing.assert_array_equal(read.transform(TABLE), kept.transform(TABLE))
    assert len(kept.names()) == kept.width == kept.transform(TABLE).shape[1]


def test_texts_with_the_same_words_get_equal_features():
    texts = ["Graph neural networks", "graph, NEURAL networks!", "cooking with salt", None]
    texts += [f"word{k} other{k}" for k in range(8)]
    table = Table("t", {"text": column(texts)})
    found = Preprocessing.fit(table, ["text"], np.arange(12)).transform(table)
    assert found.shape == (12, HASHED_WORDS[0])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert found[0] @ found[2] < 0.5
    assert not found[3].any()
    np.testing.assert_allclose(np.linalg.norm(found[[0, 2]], axis=1), 1, atol=1e-6)


def test_unseen_categories_are_zero_and_outliers_are_clipped():
    kept = fitted("colour", "height")
    new = Table("t", {"colour": column([7, 7]), "height": column([1e30, -(10.0**300)])})
    found = kept.transform(new)
    assert not found[:, :3].any()
    assert found[:, 3].tolist() == [LARGEST, -LARGEST]


def test_empty_columns_set_only_missing_indicators():
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
        ({"height": [[1, 2]]}, "must hold 1 numbers per row as in training, got 2"),
    ],
)
def test_incompatible_new_table_raises_input_error(new, sentence):
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
def test_features_of_arbitrary_numbers_are_finite_and_bounded(values, share):
    table = Table("t", {"x": column(values)})
    rows = np.arange(max(1, int(share * len(values))))
    found = Preprocessing.fit(table, ["x"], rows).transform(table)
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= MILLION


def test_features_larger_than_memory_are_memory_mapped(monkeypatch):
    names = column([f"word{k % 70} and {k % 7}" for k in range(200)])
    table = Table("nodes", {"x": column(np.arange(200.0)), "text": names})
    fitted = Preprocessing.fit(table, ["x", "text"], np.arange(150))
    here = fitted.transform(table)
    monkeypatch.setattr("gread.tables.features.free_memory", lambda: 0.0)
    monkeypatch.setattr("gread.tables.features.BLOCK", 64)
    there = fitted.transform(table)
    assert isinstance(there, np.memmap)
    np.testing.assert_array_equal(there, here)


def codes(count=400):
    """Columns with four unordered codes and a quantity."""
    rng = np.random.default_rng(0)
    return {
        "dorm": rng.choice([3, 17, 21, 40], size=count),
        "age": np.clip(rng.normal(40, 12, count), 18, 80).astype(int),
    }


@pytest.mark.parametrize("gaps", [False, True])
def test_codes_get_a_feature_for_each_value(gaps):
    dorm = codes()["dorm"].tolist()
    dorm[0] = None if gaps else dorm[0]
    table = Table("t", {"dorm": column(dorm)})
    kept = Preprocessing.fit(table, ["dorm"], np.arange(300))
    names = [f"dorm = {value}" for value in (3, 17, 21, 40)]
    assert kept.names() == names + ["dorm is missing"] * gaps
    found = kept.transform(table)
    assert (found.sum(axis=1) == 1).all()
    as_text = Table("t", {"dorm": column([None if v is None else str(v) for v in dorm])})
    np.testing.assert_array_equal(kept.transform(as_text), found)


def test_categorical_and_numeric_options_override_the_inferred_kind():
    table = Table("t", {name: column(values) for name, values in codes().items()})
    options = {"categorical": ["age"], "numeric": ["dorm"]}
    found = Preprocessing.fit(table, ["dorm", "age"], np.arange(400), **options).encoders
    assert [type(found[name]) for name in ("dorm", "age")] == [Numbers, Categories]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"categorical": ["code"], "numeric": ["code"]},
            "categorical or numeric, got both: 'code'",
        ),
        ({"categorical": ["pixels"]}, "column 'pixels' of nodes.csv must hold single values to be"),
        (
            {"numeric": ["colour"]},
            "column 'colour' of nodes.csv must hold numbers, got text: 'red'",
        ),
    ],
)
def test_invalid_categorical_or_numeric_options_raise_input_error(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Preprocessing.fit(TABLE, list(TABLE.columns), ALL, **options)


def test_columns_declared_categorical_are_encoded_as_categories():
    declared = replace(column([1, 2, 3] * 2), categorical=True)
    assert isinstance(
        Preprocessing.fit(Table("t", {"x": declared}), ["x"], ALL).encoders["x"], Categories
    )


def test_about_describes_the_encoding_of_columns():
    columns = {f"w{k}": column([1.5, 2.5, 3.0]) for k in range(745)}
    table = Table("t", {**columns, "colour": column(["a", "b", "a"])})
    lines = Preprocessing.fit(table, list(table.columns), np.arange(3)).about()
    assert lines == [
        "numbers, standardized: w0, w1, w2, w3, w4, w5 and 739 more",
        "text, one feature for each value: colour",
    ]


def test_dates_are_encoded_as_month_weekday_and_days():
    kept = fitted("joined")
    found = kept.transform(TABLE)
    named = [dict(zip(kept.names(), row, strict=True)) for row in found.tolist()]
    assert named[0]["joined month 1"] == named[0]["joined weekday 5"] == 1  # a Friday
    assert named[1]["joined month 2"] == named[1]["joined weekday 6"] == 1
    assert named[2]["joined is missing"] == 1
    assert sum(map(abs, found[2].tolist())) == 1
    days = [row["joined days"] for k, row in enumerate(named) if k != 2]
    assert np.argsort(days, kind="stable").tolist() == [0, 1, 3, 2, 4]
    assert days[1] - days[0] == pytest.approx((days[4] - days[0]) / 760, rel=1e-4)


@pytest.mark.parametrize(
    ("texts", "way"),
    [
        (["2020-01-31", "2021-12-01 10:15:00", "2021-12-01T10:15:00.5Z"], "YYYY-MM-DD"),
        (["2020/1/31", "2021/12/01"], "YYYY/MM/DD"),
        (["31.1.2020", "01.12.2021"], "DD.MM.YYYY"),
        (["1/31/2020", "12/1/2021"], "MM/DD/YYYY"),
        (["31/1/2020", "1/12/2021"], "DD/MM/YYYY"),
        (["2020-01-31", "soon"], ""),
        (["2020-13-31"], ""),
        (["31/31/2020"], ""),
        ([], ""),
    ],
)
def test_date_format_is_inferred_from_all_values(texts, way):
    assert date_format(column(np.array(texts, dtype=object))) == way


@pytest.mark.parametrize(
    ("texts", "way", "numbers"),
    [
        (["1,234", "12", "1,234,567.5"], "thousands separators", [1234, 12, 1234567.5]),
        (["-1,000", "NA"], "thousands separators", [-1000, 0]),
        (["1,5", "2,25", "3"], "decimal commas", [1.5, 2.25, 3]),
        (["007", "1,234"], "", None),
        (["1,234", "many"], "", None),
        (["12", "13"], "", None),  # stored as text
    ],
)
def test_thousands_separators_and_decimal_commas_are_parsed(texts, way, numbers):
    found = column(texts)
    assert number_format(found) == way
    if numbers:
        assert as_numbers(found, way).values.tolist() == numbers
        table = Table("t", {"x": found})
        encoder = Preprocessing.fit(table, ["x"], np.arange(len(texts))).encoders["x"]
        assert isinstance(encoder, Numbers)
        assert way in encoder.about


def test_new_table_accepts_plain_numbers_but_rejects_invalid_dates():
    table = Table("t", {"x": column(["1,234", "5,678"]), "d": column(["2020-01-01", "2020-01-03"])})
    kept = Preprocessing.fit(table, ["x", "d"], np.arange(2))
    plain = Table("new.csv", {"x": column([1234, 5678]), "d": column(["2020-01-01", "2020-01-03"])})
    np.testing.assert_array_equal(kept.transform(plain), kept.transform(table))
    wrong = Table("new.csv", {"x": column([1]), "d": column(["tomorrow"])})
    with pytest.raises(
        InputError, match=r"'d' of new\.csv must hold dates such as YYYY-MM-DD, got 'to"
    ):
        kept.transform(wrong)


def test_word_pairs_distinguish_word_order():
    texts = ["dog bites man", "man bites dog", *(f"filler {k} text {k}" for k in range(80))]
    table = Table("t", {"text": column(texts)})
    found = Preprocessing.fit(table, ["text"], np.arange(82)).transform(table)
    assert not np.allclose(found[0], found[1])
    old = Preprocessing({"text": Words((1.0,) * 256)}).transform(table)  # as in older folders
    np.testing.assert_allclose(old[0], old[1])


WORDS = np.array([[3, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 5], [0] * 4], dtype=float)
SCALED = {
    "auto": np.log2(1 + WORDS),
    "log": np.log2(1 + WORDS),
    "none": WORDS,
    "binary": WORDS != 0,
    "row": 4 / 5 * WORDS / np.maximum(WORDS.sum(axis=1, keepdims=True), 1),  # 4 words in 5 rows
    "standard": WORDS / np.where(WORDS.std(axis=0) > 0, WORDS.std(axis=0), 1),
}


def words_as(form):
    """Word counts as one vector or as separate columns, dense or sparse."""
    if form == "vector":
        return {"w": column(WORDS)}
    if form == "sparse vector":
        return {"w": sparse_vectors(csr_array(WORDS))}
    if form == "columns":
        return {f"w{k}": column(WORDS[:, k]) for k in range(4)}
    columns = {}
    for k in range(4):
        rows = np.flatnonzero(WORDS[:, k])
        columns[f"w{k}"] = sparse_numbers("number", rows, WORDS[rows, k], np.zeros(5, dtype=bool))
    return columns


@pytest.mark.parametrize("form", ["vector", "sparse vector", "columns", "sparse columns"])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_counts_are_scaled_alike_in_every_form(scaling, form, monkeypatch):
    table = Table("t", words_as(form))
    kept = Preprocessing.fit(table, list(table.columns), np.arange(5), scaling=scaling)
    assert Preprocessing.from_dict(json.loads(json.dumps(kept.to_dict()))) == kept
    dense = kept.transform(table)
    assert isinstance(dense, np.ndarray)
    np.testing.assert_allclose(dense, SCALED[scaling], rtol=1e-5)
    monkeypatch.setattr("gread.tables.features.WORTH", 0)
    monkeypatch.setattr("gread.tables.features.SPARSE", 0.5)
    found = kept.transform(table)
    assert isinstance(found, csr_array)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), dense)


def test_indicators_and_shares_keep_their_proportions():
    shares = WORDS / np.maximum(WORDS.sum(axis=1, keepdims=True), 1)
    for values, factor in ((WORDS != 0, 1.0), (shares, 4 / 3)):  # the mean of non-zeros is 1
        table = Table("t", {"w": column(values.astype(float))})
        found = Preprocessing.fit(table, ["w"], np.arange(5)).transform(table)
        np.testing.assert_allclose(found, values * factor, rtol=1e-6)


def test_unknown_scaling_raises_input_error():
    with pytest.raises(InputError, match="unknown scaling 'logg', did you mean 'log'"):
        Preprocessing.fit(TABLE, ["clicks"], ALL, scaling="logg")


@pytest.mark.parametrize("other", [2.5, np.nan])
def test_codes_are_encoded_next_to_fractions_and_missing_values(other):
    values = np.array([3.0, 17, 21, 40] * 5 + [other])
    table = Table("nodes.csv", {"code": column(values, np.isnan(values))})
    preprocessing = Preprocessing.fit(table, ["code"], np.arange(20))
    assert preprocessing.transform(table).sum(axis=0).tolist() == [5, 5, 5, 5]


def test_an_error_in_a_large_table_names_the_table(monkeypatch):
    monkeypatch.setattr("gread.tables.features.WORTH", 1)
    preprocessing = fitted("height")
    with pytest.raises(InputError, match=r"column 'height' of new\.csv must hold numbers"):
        preprocessing.transform(Table("new.csv", {"height": column(["tall", "small"])}))
