import numpy as np
import pytest

from gread.base.errors import InputError
from gread.tables.column import column
from gread.tables.labels import (
    are_quantities,
    check_split,
    draw_split,
    read_labels,
    read_lists,
    read_numbers,
    read_split,
    read_truths,
    separator_of,
)
from gread.tables.table import Table


def labels(values, **options):
    return read_labels(Table("nodes.csv", {"topic": column(values)}), "topic", **options)


@pytest.mark.parametrize(
    ("values", "classes", "y"),
    [
        (["b", None, "a"], ("a", "b"), [1, -1, 0]),
        ([3, 1, None], (1, 3), [1, 0, -1]),
        ([3.0, 1.0, None], (1, 3), [1, 0, -1]),
        ([True, False, None], (False, True), [1, 0, -1]),
        (["AT&T; Inc", "x", "x"], ("AT&T; Inc", "x"), [0, 1, 1]),
        (["a, b", "b, c", "c, a"], ("a, b", "b, c", "c, a"), [0, 1, 2]),
    ],
)
def test_classes_are_sorted_and_missing_labels_are_unknown(values, classes, y):
    found = labels(values)
    assert found.classes == classes
    assert found.y.tolist() == y
    assert found.known.tolist() == [place >= 0 for place in y]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["a", "a", None], "must have two classes or more, got only 'a'"),
        ([None, None], "must name the class of some nodes, got none"),
        ([0.5, 1.0], "must hold classes, got numbers such as 0.5"),
        (["a", 1], "must hold classes of one type, got values of several types"),
        ([[1], [2]], "must hold classes of one type, got lists of numbers"),
        ([1.0, float("nan")], "must hold classes, got NaN or infinity: leave them empty"),
    ],
)
def test_invalid_label_columns_raise_input_error(values, sentence):
    with pytest.raises(InputError) as raised:
        labels(values)
    assert f"label column 'topic' of nodes.csv {sentence}" in str(raised.value)


def test_labels_outside_the_known_classes_are_rejected():
    assert labels(["b", None], classes=("a", "b")).y.tolist() == [1, -1]
    with pytest.raises(InputError, match="must have the classes 'a', 'b', got 'c'"):
        labels(["c"], classes=("a", "b"))


def test_a_split_may_be_given_by_a_column():
    table = Table("t", {"split": column(["train", "Val", "validation", "test", None])})
    assert read_split(table, "split").tolist() == [0, 1, 1, 2, -1]
    with pytest.raises(InputError, match=r"must contain train, val, .* got 'tset' in row 1"):
        read_split(Table("t", {"split": column(["tset"])}), "split")


def test_drawn_split_is_stratified_and_determined_by_the_seed():
    y = np.repeat([0, 1, 2, -1], [100, 50, 10, 40])
    parts = draw_split(y, (0.6, 0.2, 0.2), seed=3)
    assert [[int((parts[y == c] == p).sum()) for p in range(3)] for c in range(3)] == [
        [60, 20, 20],
        [30, 10, 10],
        [6, 2, 2],
    ]
    assert (parts[y < 0] == -1).all()
    assert (draw_split(y, (0.6, 0.2, 0.2), seed=3) == parts).all()
    assert (draw_split(y, (0.6, 0.2, 0.2), seed=4) != parts).any()


def test_single_node_of_a_class_is_a_training_node():
    y = np.array([0] * 20 + [1])
    assert draw_split(y, (0.6, 0.2, 0.2), seed=0)[20] == 0


def test_split_with_too_few_labels_raises_input_error():
    with pytest.raises(InputError, match="got 1 train, 0 validation, 1 test"):
        check_split(np.array([0, 2]), np.array([True, True]))


@pytest.mark.parametrize(
    ("values", "separator"),
    [
        (["a", "b;a", "b"], ";"),
        (["a|b", "b|c", "c|a", None], "|"),
        (["AT&T; Inc", "x", "x"], ""),
        (["a, b", "b, c", "c, a"], ""),
        ([1, 2, 1], ""),
    ],
)
def test_lists_of_labels_are_recognized(values, separator):
    assert separator_of(column(values)) == separator


def test_label_lists_are_converted_to_indicators():
    table = Table("nodes.csv", {"topic": column(["b; a", "b", None, "a;c;", ";"])})
    names, y = read_lists(table, "topic", ";")
    assert names == ("a", "b", "c")
    nan = [np.nan] * 3
    np.testing.assert_array_equal(y, [[1, 1, 0], [0, 1, 0], nan, [1, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(read_lists(table, "topic", ";", "abcd")[1][:, :3], y)
    with pytest.raises(InputError, match="must have the labels a, b, got 'c'"):
        read_lists(table, "topic", ";", "ab")


def test_row_with_a_missing_indicator_has_unknown_labels():
    columns = {"a": column([1, 0, None]), "b": column([True, False, True])}
    found = read_truths(Table("t", columns), ["a", "b"])
    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [np.nan, np.nan]])
    with pytest.raises(InputError, match=r"column 'a' of t must hold 0 and 1.*, got 2 in row 2"):
        read_truths(Table("t", {"a": column([1, 2])}), ["a"])


@pytest.mark.parametrize(
    ("values", "quantities"),
    [
        ([0.5, 1.0, 2.0], True),
        ([1.0, 2.0, None], False),  # integers, from a table with a missing value
        (list(range(40)) * 2, False),  # codes
        (list(range(1, 41)) * 2, False),
        (list(range(40)), True),  # unique values
        ([10 * k for k in range(40)] * 2, True),
        ([10 * k for k in range(20)] * 2, False),
        (["1", "2"], False),
        ([True, False], False),
    ],
)
def test_quantities_are_distinguished_from_classes(values, quantities):
    assert are_quantities(column(values)) is quantities


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["a", "b"], "must hold numbers, got text"),
        ([[1.0], [2.0]], "must hold numbers, got lists of numbers"),
        ([1.0, float("inf")], "must hold numbers, got NaN or infinity"),
    ],
)
def test_invalid_number_columns_raise_input_error(values, sentence):
    with pytest.raises(InputError, match=f"label column 'y' of t {sentence}"):
        read_numbers(Table("t", {"y": column(values)}), "y")


def test_known_text_classes_that_look_like_numbers_are_recognized():
    assert labels([2, None, 1], classes=("1", "2", "x")).y.tolist() == [1, -1, 0]
    with pytest.raises(InputError, match="must have the classes '1', 'x', got '2'"):
        labels([1, 2], classes=("1", "x"))


def test_known_labels_determine_the_separator():
    assert separator_of(column(["a|b", "c"])) == ""
    assert separator_of(column(["a|b", "c"]), ("a", "b", "c")) == "|"
    assert separator_of(column(["a;b", "c"]), ("a", "b", "c")) == ";"
    assert separator_of(column(["a", "b"]), ("a", "b")) == ";"
