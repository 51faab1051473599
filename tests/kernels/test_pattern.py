import gc

import torch

from gread.kernels import pattern
from gread.kernels.pattern import Pattern, _kept, remember


def test_entries_are_found_by_row_and_by_column():
    row, column = torch.randint(7, (30,)), torch.randint(5, (30,))
    pattern, order = Pattern.from_entries(row, column, (7, 5))
    assert torch.equal(pattern.rows.numbers(), row[order])
    assert torch.equal(pattern.rows.column.long(), column[order])
    assert torch.equal(pattern.columns.numbers(), column[order][pattern.order])
    assert torch.equal(pattern.columns.column.long(), row[order][pattern.order])
    assert not pattern.symmetric


def test_an_undirected_graph_is_symmetric():
    source, target = torch.tensor([0, 2, 1, 3, 1]), torch.tensor([1, 1, 2, 3, 0])
    assert Pattern.from_entries(target, source, (4, 4))[0].symmetric
    assert not Pattern.from_entries(target[:4], source[:4], (4, 4))[0].symmetric


def test_remember_computes_each_value_once():
    tensor, made = torch.zeros(3), []
    for _ in range(2):
        assert remember(tensor, "sum", lambda: made.append(1) or 7) == 7
    assert len(made) == 1
    assert remember(tensor, "other", lambda: 8) == 8
    assert remember(torch.zeros(3), "sum", lambda: 9) == 9


def test_remember_drops_values_of_modified_or_deleted_tensors():
    tensor = torch.zeros(3)
    assert remember(tensor, "sum", lambda: 1) == 1
    tensor[0] = 5
    assert remember(tensor, "sum", lambda: 2) == 2
    gc.collect()  # tensors that other tests have left
    before = len(_kept)
    del tensor
    gc.collect()
    assert len(_kept) == before - 1


def test_remember_does_not_cache_values_of_trainable_tensors():
    parameter = torch.zeros(3, requires_grad=True)
    assert [remember(parameter, "sum", lambda n=n: n) for n in (1, 2)] == [1, 2]


def test_rows_are_ordered_by_length_with_heavy_ones_first(monkeypatch):
    monkeypatch.setattr(pattern, "MOST_LIGHT", 8)
    monkeypatch.setattr(pattern, "FEW", 6.75)  # the mean
    monkeypatch.setattr(pattern, "NEARBY", 3)
    monkeypatch.setattr(pattern, "PIECE", 40)
    counts = torch.tensor([2, 9, 5, 1, 30, 3, 0, 4])
    start = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    order = pattern.rows_by_length(start)
    row, begin, count = order.places.unbind(1)
    assert order.heavy == 2
    assert row.tolist() == [4, 1, 2, 0, 5, 3, 7, 6]  # heavy; then rows 0 to 2, 3 to 5, and 6 to 7
    assert order.long == 0
    monkeypatch.setattr(pattern, "PIECE", 3)
    assert pattern.rows_by_length(start).long == 3  # heavy, and row 2; row 7 comes later
    assert torch.equal(begin, start[row].int())
    assert torch.equal(count, counts[row].int())
    monkeypatch.setattr(pattern, "FEW", 13.5)
    assert pattern.rows_by_length(start).heavy == 3  # rows with more than 4 entries


def test_pieces_of_rows_cover_every_entry_once_in_order_of_length(monkeypatch):
    monkeypatch.setattr(pattern, "PIECE", 4)
    counts = torch.tensor([2, 9, 5, 1, 30, 3, 0, 4])
    start = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    row, begin, count = pattern.rows_by_length(start).pieces.long().unbind(1)
    entries = torch.cat([torch.arange(b, b + c) for b, c in zip(begin, count, strict=True)])
    assert torch.equal(entries.sort().values, torch.arange(counts.sum()))
    assert ((begin >= start[row]) & (begin + count <= start[row + 1])).all()
    assert 1 <= count.min() <= count.max() <= 4
    assert (count.diff() <= 0).all()
