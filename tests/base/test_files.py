import signal

import pytest

from gread.base.errors import InputError
from gread.base.files import whole_file, whole_folder
from tests.processes import Forked


def test_folder_appears_only_after_all_files_are_written(tmp_path):
    with whole_folder(tmp_path / "a" / "out") as folder:
        (folder / "x").write_text("1")
        assert not (tmp_path / "a" / "out").exists()
    assert (tmp_path / "a" / "out" / "x").read_text() == "1"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_failed_writes_leave_no_files(tmp_path):
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "out") as folder:
        (folder / "x").write_text("1")
        raise KeyboardInterrupt
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "out.csv") as file:
        file.write_text("1")
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_existing_folder_is_not_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="must not exist yet"), whole_folder(tmp_path / "out"):
        pass
    with pytest.raises(InputError, match="must be a file"), whole_file(tmp_path / "out"):
        pass


def test_file_is_replaced_only_after_all_content_is_written(tmp_path):
    old = tmp_path / "out.csv"
    old.write_text("old")
    with whole_file(old) as file:
        file.write_text("new")
        assert old.read_text() == "old"
    assert old.read_text() == "new"


def test_folder_created_concurrently_is_not_overwritten(tmp_path):
    with pytest.raises(InputError, match="must not exist yet"), whole_folder(tmp_path / "out"):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "x").write_text("1")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "x").read_text() == "1"


KILLED = """
import os, signal, sys
from gread.base.files import whole_file, whole_folder
with whole_folder(sys.argv[1] + "/out[1]") as folder, whole_file(sys.argv[1] + "/x.csv") as file:
    (folder / "half").write_text("1")
    file.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_temporary_files_of_a_killed_process_are_removed_by_the_next(tmp_path):
    done = Forked("-c", KILLED, tmp_path).end()
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 2 and all(name.startswith(".") for name in left)
    others = tmp_path / ".x.csv.another.machine-1.part"
    others.write_text("of a process of another machine")
    with whole_file(tmp_path / "x.csv") as file:
        file.write_text("whole")
    with whole_folder(tmp_path / "out[1]"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"out[1]", "x.csv", others.name}


FULL = """
# Limit the size of all files, as on a full disk, then write a text and a tensor.
import resource, signal, sys
import torch
from gread.base.files import write_text
from gread.base.tensors import write_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
for write, content in ((write_text, "long" * 10_000), (write_tensors, {"x": torch.zeros(10_000)})):
    try:
        write(sys.argv[1], content)
    except OSError as error:
        print(error)
"""


def test_full_disk_raises_error_with_path_and_keeps_old_file(tmp_path):
    old = tmp_path / "old"
    old.write_text("old")
    done = Forked("-c", FULL, old).end()
    sentences = done.stdout.splitlines()
    assert len(sentences) == 2, done
    assert all(sentence.startswith(f"{old} cannot be written: ") for sentence in sentences)
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]
