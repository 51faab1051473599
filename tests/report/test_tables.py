from gread.report.tables import Cell, TextTable, better, places

TABLE = TextTable(
    "Title", ("model", "x"), ((Cell("a"), Cell("1.0 ± 0.5", 1)), (Cell("b"), Cell("50 %"))), "Note."
)


def test_markdown_marks_the_best():
    assert TABLE.markdown().splitlines() == [
        "# Title",
        "",
        "| model | x |",
        "| --- | ---: |",
        "| a | **1.0 ± 0.5** |",
        "| b | 50 % |",
        "",
        "Note.",
    ]


def test_csv_and_latex_render_the_table():
    assert TABLE.csv() == "model,x\na,1.0 ± 0.5\nb,50 %\n"
    assert r"a & \textbf{1.0 $\pm$ 0.5} \\" in TABLE.latex()
    assert r"b & 50 \% \\" in TABLE.latex()
    assert TABLE.latex().count(r"\\") == 3


def test_latex_replaces_unicode_symbols_with_commands():
    table = TextTable("Title", ("β", "a_b"), ((Cell("76.64∗†"), Cell("< 0.001 ≠")),))
    assert r"$\beta$ & a\_b \\" in table.latex()
    assert r"76.64$^\ast$$^\dagger$ & $<$ 0.001 $\neq$ \\" in table.latex()


def test_places_are_shared_by_equal_values():
    assert places([3.0, 5.0, None, 5.0, 4.0, 1.0]) == [3, 1, None, 1, 2, None]
    assert places([None]) == [None]


def test_the_better_value_is_marked_if_none_is_missing():
    assert better([3.0, 5.0]) == [None, 1]
    assert better([5.0, 5.0]) == [1, 1]
    assert better([3.0, None]) == [None, None]


def test_text_table_converts_strings_to_cells_without_a_place():
    rows = [("a", Cell("1.0 ± 0.5", 1)), ["b", "50 %"]]
    assert TextTable.of("Title", ["model", "x"], rows, "Note.") == TABLE
