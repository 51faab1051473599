import pytest

from gread.estimator.output import whole_file, whole_folder
from gread.inputs import InputError


def test_a_folder_is_there_when_all_is_written(tmp_path):
    with whole_folder(tmp_path / "a" / "out") as folder:
        (folder / "x").write_text("1")
        assert not (tmp_path / "a" / "out").exists()
    assert (tmp_path / "a" / "out" / "x").read_text() == "1"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_what_fails_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "out") as folder:
        (folder / "x").write_text("1")
        raise KeyboardInterrupt
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "out.csv") as file:
        file.write_text("1")
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_not_touched(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="must not exist yet"), whole_folder(tmp_path / "out"):
        pass
    with pytest.raises(InputError, match="must be a file"), whole_file(tmp_path / "out"):
        pass


def test_a_file_replaces_an_older_one_when_all_is_written(tmp_path):
    old = tmp_path / "out.csv"
    old.write_text("old")
    with whole_file(old) as file:
        file.write_text("new")
        assert old.read_text() == "old"
    assert old.read_text() == "new"
