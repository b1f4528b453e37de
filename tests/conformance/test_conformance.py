"""A fixed share of the conformance program; CONFORMANCE_SHARE=1/1 runs all of it."""

import os

import pytest

from . import run


@pytest.mark.timeout(2 * 3600)
def test_agrees_with_cpu():
    rows, wrong = run.run(run.parse(["--share", os.environ.get("CONFORMANCE_SHARE", "1/4"), "--quiet"]))
    assert len(rows) > 100
    assert not wrong, "\n".join([f"{len(wrong)} of {len(rows)} cases:", *wrong[:50]])
