import pytest

from gread.runs.cost import _size, estimate
from gread.runs.spec import RunSpec


@pytest.fixture
def no_local_data(tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(tmp_path))
    _size.cache_clear()
    yield
    _size.cache_clear()


def test_estimated_time_grows_with_graph_size_without_local_data(no_local_data):
    names = ("texas", "chameleon-filtered", "roman-empire", "amazon-ratings", "questions")
    settings = {"hidden_channels": 64, "time": 4.0, "step_size": 0.5}
    seconds = [estimate(RunSpec(dataset=n, model="gread-bs", hyper=settings)) for n in names]
    assert seconds == sorted(seconds)
    assert seconds[-1] > 20 * seconds[0]
