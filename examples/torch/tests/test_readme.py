# SPDX-License-Identifier: Apache-2.0
"""The program of README.md does what it says."""

import pathlib

import fourscale_torch as ft


def test_readme_trains_a_layer():
    text = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
    names = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    x, w = names["x"], names["w"]
    assert ((x @ w - x)**2).mean() < (x**2).mean() / 20
