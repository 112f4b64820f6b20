#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/vendoring.md, run as printed: vendoring.py WAY WORK_DIR [NVCC] makes a project from the blocks of the page, gets
fourscale in that way and checks what comes of it. Exit status 77: skipped, and a sentence says why."""
import importlib.util
import itertools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PAGE = (SOURCE / "docs/vendoring.md").read_text()
LINE = "find_package(fourscale 0.1 REQUIRED)"  # what each way replaces
URL = "<URL of your copy>"
CPU, CUDA = 0, 1

work = pathlib.Path(sys.argv[2]).resolve()
app = work / "app"
nvcc = sys.argv[3] if len(sys.argv) > 3 else None

warnings = "-Wall -Wextra -Wconversion -Wsign-conversion -Wfloat-equal -Werror"  # ours must not reach a consumer
environment = {
    **os.environ,
    "HOME": str(work),
    "CMAKE_GENERATOR": "Ninja",
    "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
    "CXXFLAGS": warnings,
    "CUDAFLAGS": "-Xcompiler=" + warnings.replace(" ", ","),
    "PATH": os.pathsep.join(filter(None, [nvcc and os.path.dirname(nvcc), os.environ["PATH"]])),
}


def fail(sentence):
    sys.exit(f"vendoring.py {sys.argv[1]}: {sentence}")


def blocks(heading):
    """The code under a heading of the page."""
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(r"^```\w+\n(.*?)^```$", section[1], re.DOTALL | re.MULTILINE)


def sh(commands, cwd=app):
    """Runs them as a reader would, and returns what they print."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=cwd, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        fail(f"this failed:\n{commands}\n{done.stdout}")
    return done.stdout


def project(kind, way=LINE):
    """The project of the page, with one line replaced by that of a way."""
    text = blocks("The project")[kind]
    if LINE not in text:
        fail(f"docs/vendoring.md has no line {LINE}")
    (app / "CMakeLists.txt").write_text(re.sub(re.escape(LINE) + ".*\n", way, text))


def check_cuda(build, configure):
    """nvcc is asked for C++20. Nothing is compiled."""
    sh(configure)
    commands = (app / build / "compile_commands.json").read_text()
    if "-std=c++20" not in commands or "main.cu" not in commands:
        fail(f"nvcc is not asked for C++20:\n{commands}")


def cmake_version():
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", sh("cmake --version")).groups()))


def from_git(way):
    """The block of a way with what stands for the URL replaced, as a reader would: third_party/fourscale as a git
    repository."""
    config = (SOURCE / "include/fourscale/config.hpp").read_text()
    version = ".".join(re.findall(r"#define FOURSCALE_VERSION_\w+ (\d+)", config))
    git = "git -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false -c core.hooksPath=/dev/null"
    sh(f"git init -q && git add -A && {git} commit -q -m fourscale && git tag v{version}", app / "third_party/fourscale")
    block = blocks(way)[0]
    if URL not in block:
        fail(f"the block of docs/vendoring.md has no {URL}")
    return block.replace(URL, f"file://{app}/third_party/fourscale")


def in_tree(way):
    """A way that brings the source into the build."""
    project(CPU, way)
    sh("cmake -B build && cmake --build build && build/app")
    if nvcc:
        project(CUDA, way)
        check_cuda("build_cuda", "cmake -B build_cuda")


def install():
    return sh("\n".join(blocks("find_package")[0].splitlines()[:2]))


def find_package():
    project(CPU)
    sh(blocks("find_package")[0] + "build/app/app")
    if not (work / ".local/share/fourscale/LICENSE").exists():
        fail("LICENSE is not installed")
    if not nvcc:
        return
    for after, component in itertools.product((False, True), repeat=2):
        project(CUDA, LINE.replace(")", " COMPONENTS cuda)\n") if component else LINE + "\n")
        text = (app / "CMakeLists.txt").read_text()
        if after:
            text = text.replace("CXX CUDA)", "CXX)").replace("add_executable", "enable_language(CUDA)\nadd_executable")
            (app / "CMakeLists.txt").write_text(text)
        check_cuda("build/cuda", "cmake -B build/cuda -DCMAKE_PREFIX_PATH=$HOME/.local")
    # A C++ project that reads the toolkit's headers.
    project(CPU, LINE.replace(")", " COMPONENTS cuda)\n"))
    text = (app / "CMakeLists.txt").read_text()
    (app / "CMakeLists.txt").write_text(text.replace("fourscale::fourscale", "fourscale::cuda"))
    sh("cmake -B build/cpp -DCMAKE_PREFIX_PATH=$HOME/.local")
    folders = re.findall(r"-isystem (\S+)", (app / "build/cpp/compile_commands.json").read_text())
    if not any(pathlib.Path(folder, "cuda_fp4.h").exists() for folder in folders):
        fail(f"C++ sources under fourscale::cuda do not see the toolkit's headers: {folders}")


def add_subdirectory():
    in_tree(blocks("add_subdirectory")[0])
    if nvcc:  # once for all ways
        sh("cmake --build build_cuda && build_cuda/app")


def fetch_content():
    in_tree(from_git("FetchContent"))


def cpm():
    (app / "cmake").mkdir()
    shutil.copy(HERE / "CPM.cmake", app / "cmake")
    in_tree(from_git("CPM"))


def conan():
    environment["PATH"] = f"{SOURCE}/build/venv/bin{os.pathsep}{environment['PATH']}"
    environment["CONAN_HOME"] = str(work / "conan")
    if not shutil.which("conan", path=environment["PATH"]):
        print("skipped: conan is not installed; ./run test installs it in build/venv")
        sys.exit(77)
    sh("conan profile detect && conan remote remove '*'")
    (work / "conan/global.conf").write_text("tools.cmake.cmaketoolchain:generator=Ninja\n")
    conanfile, commands = blocks("Conan")
    (app / "conanfile.txt").write_text(conanfile)
    project(CPU)
    sh(commands + "build/Release/app")
    sentence = "fourscale needs C++20, and the profile says gnu17: pass -s compiler.cppstd=20"
    refused = sh("! conan install . -s compiler.cppstd=gnu17")
    if sentence not in refused:
        fail(f"a profile with gnu17 is not answered with `{sentence}`:\n{refused}")
    sh("conan install . -s compiler.cppstd=gnu20 -s build_type=Debug")  # one package serves all settings
    if nvcc and cmake_version() < (3, 26) and importlib.util.find_spec("cmake"):  # that of PyPI
        import cmake
        environment["PATH"] = f"{cmake.CMAKE_BIN_DIR}{os.pathsep}{environment['PATH']}"
    if nvcc and cmake_version() >= (3, 26):
        project(CUDA)
        check_cuda("build_cuda", "cmake -B build_cuda --toolchain build/Release/generators/conan_toolchain.cmake "
                                 "-DCMAKE_BUILD_TYPE=Release")
    elif nvcc:
        print("left out: kernels with Conan, which need CMake 3.26")


def vcpkg():
    """With stand-ins for vcpkg's functions: they do what its documentation says."""
    _, verb, name, ports = shlex.split(blocks("vcpkg")[0])
    assert verb == "install"
    port = app / ports.removeprefix("--overlay-ports=") / name
    sh(f"cmake -D port={port} -D prefix={work}/packages -P {HERE}/vcpkg.cmake")
    for file in ("copyright", "fourscaleConfig.cmake", "pkgconfig/fourscale.pc"):
        if not (work / "packages/share" / ("" if "/" in file else name) / file).exists():
            fail(f"vcpkg's package has no {file}")
    project(CPU)
    sh(f"cmake -B build -DCMAKE_PREFIX_PATH={work}/packages && cmake --build build && build/app")


def pkg_config():
    install()
    sh(blocks("pkg-config")[0] + "./app")
    (work / ".local").rename(work / "moved")
    if f"{work}/moved" not in sh("PKG_CONFIG_PATH=$HOME/moved/share/pkgconfig pkg-config --variable=includedir fourscale"):
        fail("the .pc file of a prefix that was moved names the old place")


def include_path():
    cpu, cuda = blocks("No build system")
    sh(cpu.replace("g++ ", f"g++ {warnings} ") + "./app")
    if nvcc:
        sh(cuda + "./app_cuda")


def export():
    """A library that has us as a subdirectory installs and exports itself; a project finds it and needs no source."""
    (app / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.24)
project(app LANGUAGES CXX)
add_subdirectory(third_party/fourscale)
add_library(app main.cpp)
target_link_libraries(app PUBLIC fourscale::fourscale)
install(TARGETS app EXPORT appTargets)
install(EXPORT appTargets DESTINATION lib/cmake/app)
install(FILES appConfig.cmake DESTINATION lib/cmake/app)
""")
    (app / "appConfig.cmake").write_text(blocks("A library that installs and exports itself")[0])
    (app / "user").mkdir()
    (app / "user/CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.24)
project(user LANGUAGES CXX)
find_package(app REQUIRED)
add_executable(user ../main.cpp)
target_link_libraries(user PRIVATE app)
""")
    sh("cmake -B build && cmake --build build && cmake --install build --prefix $HOME/.local")
    shutil.rmtree(app / "third_party")
    sh("cmake -S user -B build/user -DCMAKE_PREFIX_PATH=$HOME/.local && cmake --build build/user")


def top_level():
    """`cmake -B build` on a machine that has nothing but a compiler says what it leaves out."""
    missing = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON"
               for name in ("Catch2", "benchmark", "fmt", "nlohmann_json", "CLI11", "OpenMP", "Python3", "CUDAToolkit")]
    output = sh(f"cmake -B build {' '.join(missing)}", app / "third_party/fourscale")
    for what in ("The tests are", "The benchmarks are", "fourscale-inspect is"):
        if f"{what} left out" not in output:
            fail(f"nothing says `{what} left out`:\n{output}")


WAYS = (find_package, add_subdirectory, fetch_content, cpm, conan, vcpkg, pkg_config, include_path, export, top_level)


def main():
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(SOURCE, app / "third_party/fourscale", ignore=shutil.ignore_patterns(".*", "build", "__pycache__"))
    for file in ("main.cpp", "main.cu"):
        shutil.copy(HERE / file, app)
    {way.__name__: way for way in WAYS}[sys.argv[1]]()


if __name__ == "__main__":
    main()
