"""Errors that a user can act on."""


class InputError(ValueError):
    """Invalid input; the message names the argument, what is accepted and what was received.

    Example:
        >>> import gread
        >>> try:
        ...     gread.TrainConfig(epochs=0)
        ... except gread.InputError as error:
        ...     print(error)
        epochs must be a whole number of at least 1, got 0
    """
