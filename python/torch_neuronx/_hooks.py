"""Runs a function when a module has been imported, at once if it already is. Keeps `import torch` free of the parts of
torch that most programs never use."""

import importlib.abc
import importlib.util
import sys

_waiting = {}


class _Loader(importlib.abc.Loader):
    """Another finder's loader, followed by the functions that wait for the module."""

    def __init__(self, loader, name):
        self._loader = loader
        self._name = name

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        # The module keeps what its own loader would have left: inspect and pickle look at it.
        module.__loader__ = module.__spec__.loader = self._loader
        for function in _waiting.pop(self._name, ()):
            function()

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, name)
                return spec
        return None


def when_imported(name, function):
    if name in sys.modules:
        function()
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(function)
