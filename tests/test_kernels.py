import pytest
import torch

from gread.kernels import spmm

SOURCE = torch.tensor([0, 0, 1, 3, 3, 0])
TARGET = torch.tensor([1, 2, 2, 0, 3, 1])  # the edge 0 → 1 stands twice


def matrix(weight):
    return torch.zeros(4, 4, dtype=weight.dtype).index_put(
        (TARGET, SOURCE), weight, accumulate=True
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product_equals_the_dense_one(dtype):
    weight, h = torch.randn(6, dtype=dtype), torch.randn(4, 3, dtype=dtype)
    result = spmm(SOURCE, TARGET, weight, h)
    assert result.dtype == dtype
    torch.testing.assert_close(result, matrix(weight) @ h)


def test_gradients_of_first_and_second_order_are_right():
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    h = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)

    def product(weight, h):
        return spmm(SOURCE, TARGET, weight, h)

    assert torch.autograd.gradcheck(product, (weight, h))
    assert torch.autograd.gradgradcheck(product, (weight, h))
    assert torch.autograd.gradcheck(product, (weight.detach(), h))
    assert torch.autograd.gradcheck(product, (weight, h.detach()))


def test_pytorch_finds_nothing_wrong_with_the_operator():
    weight, h = torch.randn(6, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    results = torch.library.opcheck(spmm, (SOURCE, TARGET, weight, h))
    assert set(results.values()) == {"SUCCESS"}


def test_no_edges_give_zero():
    nothing = torch.empty(0, dtype=torch.int64)
    assert not spmm(nothing, nothing, torch.empty(0), torch.randn(3, 2)).any()
