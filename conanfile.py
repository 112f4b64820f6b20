# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import valid_min_cppstd
from conan.tools.files import copy, load

required_conan_version = ">=2.0"


class Fourscale(ConanFile):
    name = "fourscale"
    description = "Microscaled 4- and 8-bit floating point: the same bits on every machine"
    license = "Apache-2.0"
    topics = "nvfp4", "mxfp4", "fp8", "quantization", "cuda", "header-only"
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "LICENSE", "cmake/fourscaleCuda.cmake", "include/*"
    no_copy_source = True

    def set_version(self):
        config = load(self, Path(self.recipe_folder) / "include/fourscale/config.hpp")
        self.version = ".".join(re.findall(r"#define FOURSCALE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", config))

    def validate(self):
        cppstd = self.settings.get_safe("compiler.cppstd")
        if cppstd and not valid_min_cppstd(self, 20):
            raise ConanInvalidConfiguration(
                f"fourscale needs C++20, and the profile says {cppstd}: pass -s compiler.cppstd=20")

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        copy(self, "include/*", self.source_folder, self.package_folder)
        copy(self, "cmake/*", self.source_folder, self.package_folder)

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_build_modules", ["cmake/fourscaleCuda.cmake"])
