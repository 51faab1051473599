"""Regression tests for errors found by hostile files and fuzzing."""

import json
import lzma
import os
import sys
import zipfile

import numpy as np
import pyarrow.parquet
import pytest
import torch
from typer.testing import CliRunner

import gread
from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.cli import app, main
from gread.cli.console import PlainConsole
from gread.cli.options import numbers, setting
from gread.distributed.parquet import shard_parquet
from gread.estimator.classifier import GraphClassifier
from gread.estimator.files import _text
from gread.kernels.cpu import NoCompiler, gather, library
from gread.kernels.operators import product
from gread.kernels.pattern import Pattern
from gread.kernels.reference import Terms
from gread.models.hub import load_module, save_weights
from gread.runs.archive import ARCHIVES
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.trackers import TELEMETRY, _package
from gread.tables.column import column
from gread.tables.formats import read_table
from gread.tables.graph import join
from gread.tables.table import Table
from studies.soak.hostile.folders import copied


@pytest.mark.parametrize("text", ["²", "0-²", "0-99999999999", "1" * 5000, "", "-1", "0-", "a"])
def test_invalid_number_lists_on_the_command_line_are_rejected(text):
    with pytest.raises(InputError, match="--splits must be"):
        numbers("splits", text)


def test_number_lists_on_the_command_line_are_limited_to_100000():
    assert numbers("splits", "0-2, 7") == [0, 1, 2, 7]
    with pytest.raises(InputError, match="--seeds must be 100,000 numbers at most"):
        numbers("seeds", "0-999999")


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5000])
def test_setting_that_is_not_json_is_kept_as_text(value):
    assert setting(f"time={value}") == ("time", value)


@pytest.mark.parametrize("module", ["", ".", ".x", "no.such"])
def test_import_of_a_missing_module_raises_input_error(module):
    found = CliRunner().invoke(app, ["--import", module, "list", "models"])
    assert isinstance(found.exception, InputError)


def test_error_inside_an_imported_module_is_propagated(tmp_path, monkeypatch):
    (tmp_path / "wrong_itself.py").write_text("int('x')")
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["--import", "wrong_itself", "list", "models"])
    assert type(found.exception) is ValueError


def test_meta_device_is_rejected_with_input_error():
    with pytest.raises(InputError, match="device must be one that this machine has, got 'meta'"):
        choose_device("meta")


@pytest.mark.parametrize(
    "text", ["[/b]", "[red]x", ":cat:", "a\x1b[2Jb", "\u202ex", "\udcff", "\x9b1m"]
)
def test_console_prints_markup_literally_and_escapes_control_characters(text, tmp_path):
    with (tmp_path / "shown").open("w+", encoding="utf-8") as file:
        PlainConsole(file=file, width=60, force_terminal=False).print(text)
        file.seek(0)
        assert file.read().strip() == "".join(
            letter if letter.isprintable() else repr(letter)[1:-1] for letter in text
        )


def test_error_message_escapes_undecodable_file_name(monkeypatch, capsysbinary):
    command = ["gread", "predict", os.fsdecode(b"\xff[b]"), "--out", "x.csv"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit):
        main()
    assert capsysbinary.readouterr().err == b"gread: there is no model folder \\udcff[b]\n"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("-1+cmd", "'-1+cmd"),
        ("-1.5", "-1.5"),
        ("+49", "+49"),
        (-3, -3),
        ("a=b", "a=b"),
        ("\t=1", "'\t=1"),
    ],
)
def test_formulas_in_prediction_cells_are_escaped(value, cell):
    assert _text(value) == cell


def test_weights_beyond_float32_are_refused():
    nodes = Table("nodes", {"id": column([0, 1])})
    edges = Table("e", {"source": column([0]), "target": column([1]), "w": column([1e39])})
    with pytest.raises(InputError, match=r"must hold finite weights, zero or above, got 1e\+39"):
        join(nodes, edges, weight="w")


def test_sparse_product_of_mixed_dtypes_is_correct():
    pattern, _ = Pattern.from_entries(torch.tensor([0, 1]), torch.tensor([1, 0]), (2, 2))
    y = torch.tensor([[1.0], [3.0]])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64):
        found = product(pattern, torch.tensor([2, 1]).to(dtype), y)
        assert found.tolist() == [[6.0], [1.0]]


def test_c_gather_kernel_rejects_mixed_dtypes():
    try:
        library()
    except NoCompiler:
        pytest.skip("there is no compiler")
    pattern, _ = Pattern.from_entries(torch.tensor([0, 1]), torch.tensor([1, 0]), (2, 2))
    with pytest.raises(TypeError, match="gather needs tensors of one dtype"):
        gather(pattern.rows, torch.ones(2).half(), torch.ones(2, 1), Terms(torch.ones(2, 1)))


def test_weights_of_wrong_shape_are_rejected_before_allocation(tmp_path):
    small = gread.GREAD(3, 4, 2)
    save_weights(small, tmp_path)
    file = tmp_path / "model.safetensors"
    load_module(lambda: gread.GREAD(3, 4, 2), file)
    with pytest.raises(
        InputError, match=r"must be of shape \[3, 1000000000\], got of shape \[3, 4\]"
    ):
        load_module(lambda: gread.GREAD(3, 10**9, 2), file)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"train": 1}', "[" * 100_000])
def test_invalid_spec_json_raises_input_error(text):
    with pytest.raises(InputError, match="a spec must have the format of gread"):
        RunSpec.from_json(text)


def test_text_files_are_read_in_blocks_limited_by_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("gread.tables.formats.CELLS", 4)
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "".join(f"{k},x,{k / 2}\n" for k in range(5)))
    found = read_table(path)
    assert found["a"].values.tolist() == [0, 1, 2, 3, 4]
    assert found["c"].kind == "number"


def test_out_of_memory_while_reading_raises_input_error(tmp_path, monkeypatch):
    monkeypatch.setattr("gread.base.memory.LEAST", 2**60)
    path = tmp_path / "t.csv"
    path.write_text("id\n1\n")
    with pytest.raises(InputError, match=r"t.csv cannot be read: its content must fit"):
        read_table(path)


def test_repeated_parquet_strings_share_one_object(tmp_path):
    texts = pyarrow.array(["a" * 100, None, "a" * 100, "b"])
    table = pyarrow.table({"x": texts, "n": [1, None, 3, 4]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet")
    assert found["x"].missing.tolist() == [False, True, False, False]
    assert found["x"].values[0] is found["x"].values[2]
    assert found["n"].kind == "whole"


def test_npz_member_that_is_not_an_array_is_rejected(tmp_path):
    np.savez(tmp_path / "t.npz", id=np.arange(2))
    with zipfile.ZipFile(tmp_path / "t.npz", "a") as archive:
        archive.writestr("x", b"no array")
    with pytest.raises(InputError, match="it is not an NPZ file of plain arrays"):
        read_table(tmp_path / "t.npz")


def test_tracker_telemetry_is_disabled_unless_enabled_by_environment(monkeypatch):
    assert set(TELEMETRY) == {"mlflow", "wandb"}
    monkeypatch.setitem(TELEMETRY, "json", {"GREAD_TEST_TELEMETRY": "off"})  # always exists
    monkeypatch.setenv("GREAD_TEST_TELEMETRY", "on")
    _package("json")
    assert os.environ["GREAD_TEST_TELEMETRY"] == "on"
    monkeypatch.delenv("GREAD_TEST_TELEMETRY")
    _package("json")
    assert os.environ.pop("GREAD_TEST_TELEMETRY") == "off"


def test_committed_results_are_unchanged_by_a_json_round_trip():
    files = [lzma.decompress(file.read_bytes()) for file in ARCHIVES.glob("*.jsonl.xz")]
    lines = [line for content in files for line in content.splitlines()[:20]]
    assert lines
    for line in lines:
        assert json.loads(Result.from_json(line).to_json()) == json.loads(line)


def test_parquet_file_that_crashes_pyarrow_raises_input_error(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2]}), tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    broken = content.replace(b"%\x02\x18\x02id", b"%\x03\x18\x02id")  # a required column
    assert broken != content
    (tmp_path / "t.parquet").write_bytes(broken)
    with pytest.raises(InputError, match="it is not a Parquet file that pyarrow can read"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.slow
def test_parquet_columns_of_every_kind_are_read_by_the_subprocess(tmp_path):
    columns = {
        "id": pyarrow.array(range(200_000)),
        "word": pyarrow.array([f"word {k % 1000}" for k in range(200_000)]),
        "x": pyarrow.array([[k, 0.5] for k in range(200_000)]),
        "seldom": pyarrow.array([None, True] * 100_000),
    }
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, tmp_path / "-t.parquet", row_group_size=70_000)
    found = read_table(tmp_path / "-t.parquet")
    for name, values in columns.items():
        expected = column(values.to_pylist())
        assert found[name].kind == expected.kind
        assert (found[name].missing == expected.missing).all()
        there = ~expected.missing
        assert (found[name].values[there] == expected.values[there]).all()
    pyarrow.parquet.write_table(table[:0], tmp_path / "none.parquet")
    assert len(read_table(tmp_path / "none.parquet")) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [[[1e39]], np.array([[1e39]]), np.array([[1.0, 1e39]])])
def test_a_number_beyond_float32_is_unusable_without_a_warning(values):
    assert column(values).unusable().tolist() == [True]


def test_parquet_with_duplicate_names_or_out_of_range_dates_is_rejected(tmp_path):
    twice = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["id", "id"])
    late = pyarrow.table({"id": pyarrow.array([2**62], pyarrow.timestamp("us"))})
    for table in (twice, late):
        pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(InputError, match="it contains unsupported data"):
            read_table(tmp_path / "t.parquet")


def test_dictionary_encoded_parquet_numbers_are_read_as_numbers(tmp_path):
    values = pyarrow.array([7, None, 7, 9]).dictionary_encode()
    pyarrow.parquet.write_table(pyarrow.table({"id": values}), tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet")["id"]
    assert found.kind == "whole"
    assert found.values[~found.missing].tolist() == [7, 7, 9]
    assert found.missing.tolist() == [False, True, False, False]


@pytest.mark.parametrize("which", ["nodes", "edges"])
def test_sharding_rejects_parquet_files_with_a_corrupt_page(which, tmp_path):
    tables = {
        "nodes": pyarrow.table({"x": [0.1, 0.2, 0.3], "kind": [0, 1, 0]}),
        "edges": pyarrow.table({"source": [0, 1], "target": [1, 2]}),
    }
    for name, table in tables.items():
        pyarrow.parquet.write_table(table, tmp_path / name, use_dictionary=False)
    content = bytearray((tmp_path / which).read_bytes())
    content[4:24] = bytes(20)  # the header of the first page
    (tmp_path / which).write_bytes(content)
    with pytest.raises(InputError, match="Parquet files must be complete, got a broken one"):
        shard_parquet(
            tmp_path / "nodes", tmp_path / "edges", tmp_path / "out", label="kind", shards=2
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings", [" ", True, [["epochs", 3]], {"epochs": "many"}])
def test_invalid_settings_in_a_model_folder_raise_input_error(settings, tmp_path):
    model = copied(tmp_path)
    file = model / "classifier.json"
    about = json.loads(file.read_text())
    about["parameters"]["settings"] = settings
    file.write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"(settings|epochs) must be"):
        GraphClassifier.load(model)
