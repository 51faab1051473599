import pytest

from gread.base.errors import InputError
from gread.base.registry import Registry, UnknownName


def test_decorator_registers_and_returns_the_object_unchanged():
    colours: Registry[object] = Registry("colour")

    @colours.register("red")
    def red():
        return 1

    assert colours["red"] is red
    assert red() == 1
    assert list(colours) == ["red"]
    assert len(colours) == 1
    assert "blue" not in colours


def test_unknown_name_error_lists_choices_and_nearest_match():
    colours = Registry("colour", {"red": 1, "green": 2})
    with pytest.raises(UnknownName) as caught:
        colours["gren"]
    assert str(caught.value) == (
        "unknown colour 'gren', did you mean 'green'? Choose from: red, green"
    )
    with pytest.raises(KeyError, match=r"unknown colour 'x'; choose from: red, green"):
        colours["x"]


def test_registering_a_name_twice_raises_input_error():
    colours = Registry("colour", {"red": 1})
    with pytest.raises(InputError, match="'red' is registered already"):
        colours.add("red", 2)
    assert colours["red"] == 1


def test_followers_receive_existing_and_later_entries():
    seen = []
    colours = Registry("colour", {"red": 1})
    colours.follow(lambda name, value: seen.append((name, value)))
    colours.add("blue", 3)
    assert seen == [("red", 1), ("blue", 3)]
