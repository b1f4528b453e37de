"""The label of the graphs that are compiled next."""

_model_name = None


def set_model_name(name):
    """`name` is a str, or None for the default label."""
    global _model_name
    if name is not None and not isinstance(name, str):
        raise TypeError(f"model name: expected a str, but got {type(name).__name__}")
    _model_name = name


def get_model_name():
    return _model_name
