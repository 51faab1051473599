import numpy as np
import pytest

from gread.base.errors import InputError
from gread.tables.column import column, column_of_texts


@pytest.mark.parametrize(
    ("texts", "kind", "missing"),
    [
        (["1", "-2", "3"], "whole", 0),
        (["1", "", "3"], "whole", 1),
        (["1", "2.5", "1e3"], "number", 0),
        (["1", "NA", "2.5", "null"], "number", 2),
        (["inf", "1"], "number", 0),
        (["True", "false", ""], "truth", 1),
        (["true", "maybe"], "text", 0),
        (["a", "", "NA"], "text", 1),  # NA may be a word
        (["007", "12"], "text", 0),  # a code
        (["1_000"], "text", 0),
        (["2020-01-02"], "text", 0),
        ([str(2**70)], "text", 0),
        (["", ""], "number", 2),
    ],
)
def test_column_kind_is_inferred_from_all_texts(texts, kind, missing):
    found = column_of_texts(texts)
    assert (found.kind, int(found.missing.sum())) == (kind, missing)


def test_large_integers_in_text_are_parsed_exactly():
    found = column_of_texts([str(2**62 + 1), "", "-7"])
    assert found.values[[0, 2]].tolist() == [2**62 + 1, -7]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, 2], "whole"),
        ([1, 2.5, None], "number"),
        ([True, None], "truth"),
        (["a", None], "text"),
        ([[1, 2], [3.0, 4]], "vector"),
        (["a", 1], "mixed"),
        ([True, 1], "mixed"),
        ([2**70, 1], "text"),
        ([2.5, 10**400], "number"),
        (np.array([1, 2], dtype=np.uint64), "whole"),
        (np.array([b"a", b"b"]), "text"),
        (np.array(["2020-01-02", "NaT"], dtype="datetime64[D]"), "text"),
        (np.ones((2, 3), dtype=int), "vector"),
        ([None, None], "number"),
    ],
)
def test_column_kind_is_inferred_from_values(values, kind):
    found = column(values)
    assert found.kind == kind
    assert len(found) == len(found.missing) == 2 + (len(values) == 3)


def test_none_is_missing_and_nan_is_unusable():
    found = column([1.0, None, float("nan"), float("inf")])
    assert found.missing.tolist() == [False, True, False, False]
    assert found.unusable().tolist() == [False, False, True, True]
    assert column(np.array([[1.0, 2.0], [0.0, np.nan]])).unusable().tolist() == [False, True]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([[1], [1, 2]], "lists in a column must have one length, got 1 and 2"),
        ([["a"], ["b"]], "lists in a column must hold only numbers"),
        ([{"a": 1}], "a column must hold plain values, got an object"),
        (np.zeros((2, 2, 2)), "a column must be an array"),
        (np.zeros(()), "a column must be an array"),
    ],
)
def test_invalid_columns_raise_input_error(values, sentence):
    with pytest.raises(InputError, match=sentence):
        column(values)


def test_the_text_of_a_number_does_not_depend_on_other_rows():
    assert column([1.0, 2.5, float("nan")]).texts() == ["1", "2.5", "nan"]
    assert column([1.0, 2.0]).texts() == ["1", "2"]
