"""Errors that a user can act on."""


class InputError(ValueError):
    """A value that a user gave cannot be used; the message says what would do."""
