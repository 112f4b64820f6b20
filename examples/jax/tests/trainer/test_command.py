# SPDX-License-Identifier: Apache-2.0
"""The command line: what it prints, how it ends, and several processes, one for each host. Always on the CPU."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

import pytest
from fourscale_jax.trainer import parse
from fourscale_jax.trainer.metrics import read

COMMAND = [sys.executable, "-m", "fourscale_jax.trainer"]
OPTIONS = ("--quantization te_nvfp4 --layers 1 --width 128 --heads 2 --hidden 128 --sequence 32 --batch 4 --steps 4 "
           "--save-every 2 --eval-every 2 --eval-sequences 8").split()
SECONDS = 120  # until a process counts as hung

# A host that is interrupted after 3 steps, and goes on from the checkpoint of step 2. It has joined the others already.
HOST = """
import dataclasses, sys
from fourscale_jax.trainer import parse, train
config = parse(sys.argv[1:])
train(dataclasses.replace(config, stop=3))
train(dataclasses.replace(config, coordinator=""))
"""


# What the loader of glibc writes of a process, as LOADED.pid: libraries in their order, and whether it came to its end.
LOADED = pathlib.Path(tempfile.gettempdir()) / f"fourscale_loaded_{os.getpid()}"


def environment(devices):
    """That of this process, for one on the CPU, where a crash says where each thread was."""
    flags = f"--xla_backend_optimization_level=0 --xla_force_host_platform_device_count={devices}"
    return os.environ | dict(JAX_PLATFORMS="cpu", XLA_FLAGS=flags, PYTHONFAULTHANDLER="1", PYTHONUNBUFFERED="1",
                             LD_DEBUG="files", LD_DEBUG_OUTPUT=str(LOADED))


def start(command, devices):
    return subprocess.Popen(command, env=environment(devices), text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def crash(process, output, errors, loaded):
    """All that is known of a process that a signal ended."""
    settings = [f"{name}={value}" for name, value in environment("?").items()
                if re.match("LD_|PYTHON|JAX|XLA|TF_|CUDA|NVIDIA|NCCL|OMP|KMP|OPENBLAS|MKL|MALLOC|GLIBC", name)]
    calls = re.findall(r"calling (init|fini): (\S+)", loaded)
    return "\n".join([f"{signal.Signals(-process.returncode).name} in {process.args}", "stdout:", output, "stderr:",
                      errors, "environment:", *settings, "libraries, in the order of init and fini:",
                      *(f"{what} {path}" for what, path in calls)])


def ends_of(*processes):
    """Exit code, stdout and stderr of each; of one that crashed, what is known of it for stderr. Nothing that was
    started goes on."""
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        loaded = []
        for process in processes:
            process.kill()
            process.wait()
            file = LOADED.with_name(f"{LOADED.name}.{process.pid}")
            loaded.append(file.read_text(errors="replace") if file.exists() else "")
        for file in LOADED.parent.glob(f"{LOADED.name}.*"):
            file.unlink()
    return [(process.returncode, output,
             errors if process.returncode >= 0 else crash(process, output, errors, libraries))
            for process, (output, errors), libraries in zip(processes, outputs, loaded)]


def said(output):
    """What a run printed: (step, loss) of steps, ("eval", step, loss) of evaluations, other lines as they are. Those of
    Gloo, which joins processes, are left out."""
    found = []
    for text in (line for line in output.splitlines() if not line.startswith("[Gloo] ")):
        step = re.fullmatch(r"completed step: (\d+), seconds: .*, total_weights: 128, loss: (\d\.\d{3})", text)
        evaluation = re.fullmatch(r"(eval) after step: (\d+), loss: (\d\.\d{4})", text)
        found.append((step or evaluation or re.fullmatch("(.*)", text)).groups())
    return found


def what_follows_from_the_config(folder):
    """The records of a run without its times."""
    timed = "seconds", "tflops_per_device", "tokens_per_second_per_device"
    return [{name: value for name, value in record.items() if name not in timed}
            for record in read(folder / "metrics.jsonl")]


def lines_for(records):
    return [(str(r["step"]), f"{r['loss']:.3f}") if "loss" in r else
            ("eval", str(r["step"]), f"{r['validation_loss']:.4f}") for r in records]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """The command on two devices: its folder, and how it ended."""
    folder = tmp_path_factory.mktemp("one_process")
    return folder, ends_of(start(COMMAND + OPTIONS + ["--out", str(folder)], 2))[0]


def test_the_command_trains_evaluates_and_says_so(one_process):
    folder, (code, output, errors) = one_process
    assert code == 0, errors
    records = what_follows_from_the_config(folder)
    assert [(r["step"], "loss" in r) for r in records] == [
        (0, True), (1, True), (1, False), (2, True), (3, True), (3, False)]
    assert said(output) == lines_for(records)


def test_two_processes_have_the_bits_of_one_on_two_devices(one_process, tmp_path):
    """Each step is the same program on the same mesh, and a sum or maximum over two devices has one order. So losses,
    norms of gradients and evaluations are the same to the last bit, over an interruption, too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-c", HOST, *OPTIONS, "--out", str(tmp_path), "--coordinator", coordinator]
    hosts = [start(command + ["--processes", "2", "--process", str(i)], 1) for i in range(2)]
    (code, output, errors), (other_code, other_output, other_errors) = ends_of(*hosts)
    assert code == 0, errors
    assert other_code == 0, other_errors
    records = what_follows_from_the_config(tmp_path)
    assert records == what_follows_from_the_config(one_process[0])
    lines = lines_for(records)
    assert said(output) == lines[:4] + lines[3:] and said(other_output) == []  # step 2 twice; one of them speaks
    saved = tmp_path / "checkpoints"
    assert sorted(int(folder.name) for folder in saved.iterdir()) == [2, 4]
    for folder in saved.iterdir():  # both wrote what they hold
        assert sorted(f.name for f in folder.glob("default/ocdbt.process_*")) == ["ocdbt.process_0", "ocdbt.process_1"]


def test_a_config_that_is_refused_ends_with_a_sentence():
    (code, output, errors), = ends_of(start(COMMAND + ["--quantization", "fp3"], 1))
    assert code == 1 and output == "", errors
    assert errors.startswith('fourscale_jax.trainer: there is no recipe "fp3"') and errors.count("\n") == 1


def test_an_option_that_does_not_exist_ends_with_a_sentence(capsys):
    with pytest.raises(SystemExit) as end:
        parse(["--epochs", "3"])
    assert end.value.code == 2
    assert "fourscale_jax.trainer: error: unrecognized arguments: --epochs 3" in capsys.readouterr().err


def test_a_process_on_the_cpu_has_no_library_for_gpus():
    """Nor asks CUDA anything; and JAX comes before our libraries, whoever imports first."""
    program = "import fourscale_jax; print(fourscale_jax._library.cuda); print(open('/proc/self/maps').read())"
    (code, output, errors), = ends_of(start([sys.executable, "-c", program], 1))
    assert code == 0, errors
    assert output.startswith("None\n") and "fourscale_jax/_cpu." in output and "libfourscale_jax_cuda" not in output


def test_a_crash_is_told_with_its_threads_environment_and_libraries():
    program = "import fourscale_jax, os, signal; print('said', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
    (code, output, errors), = ends_of(start([sys.executable, "-c", program], 1))
    assert code == -signal.SIGSEGV and output == "said\n"
    for part in ("SIGSEGV in ", "Fatal Python error: Segmentation fault", "most recent call first",
                 "JAX_PLATFORMS=cpu"):
        assert part in errors
    at = [re.search(f"init .*/{name}", errors).start() for name in ("libjax_common", "fourscale_jax/_cpu")]
    assert at == sorted(at)
