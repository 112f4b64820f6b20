# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with Orbax. A run that goes on from one has the bits of a run that was never interrupted."""

import dataclasses
import json
import pathlib

import jax
import orbax.checkpoint as ocp

from .config import PLACES


class Checkpoints:
    """Of a run in a folder, the newest two; nothing without a folder. ValueError if the folder has another run."""

    def __init__(self, config):
        self.manager = None
        if not config.out:
            return
        folder = pathlib.Path(config.out).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        _claim(folder / "config.json", config)
        options = ocp.CheckpointManagerOptions(max_to_keep=2)
        self.manager = ocp.CheckpointManager(folder / "checkpoints", options=options)

    def restore(self, state):
        """The newest state, spread over devices as `state` is; or `state` itself."""
        if self.manager is None or (newest := self.manager.latest_step()) is None:
            return state
        like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
        return self.manager.restore(newest, args=ocp.args.StandardRestore(like))

    def save(self, state):
        self.manager.save(int(state.step), args=ocp.args.StandardSave(state))

    def close(self):
        if self.manager is not None:
            self.manager.wait_until_finished()
            self.manager.close()


def _claim(path, config):
    """Writes what the run depends on, or checks that it is the same."""
    ours = {name: value for name, value in dataclasses.asdict(config).items() if name not in PLACES}
    ours["devices"] = jax.device_count()  # random bits go by the place in a device's part
    if not path.exists():
        if config.process == 0:
            whole = path.with_suffix(".new")  # other processes see no part of it
            whole.write_text(json.dumps(ours, indent=1) + "\n")
            whole.replace(path)
        return
    theirs = json.loads(path.read_text())
    if other := [name for name in ours if ours[name] != theirs.get(name)]:
        raise ValueError(f"{path.parent} holds a run with another {', '.join(other)}; choose another folder")
