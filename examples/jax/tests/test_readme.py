# SPDX-License-Identifier: Apache-2.0
"""The program of README.md does what it says."""

import pathlib

import fourscale_jax as fj


def test_readme_trains_a_layer():
    text = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
    names = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    start, end = (float(names["loss"](w, 50)) for w in (0 * names["w"], names["w"]))
    assert end < start / 20
    assert all(f"`{recipe}`" in text for recipe in fj.recipes())
