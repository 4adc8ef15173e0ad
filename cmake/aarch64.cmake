# Cross-build for 64-bit Arm on Debian with multi-arch libraries; programs run under qemu-user.
# The packages are the group `aarch64` of tools/setup.sh.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)

set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)

# Target libraries lie beside the host's, under the triple; the host's folder must not answer for them.
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(CMAKE_IGNORE_PATH /usr/lib/x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/cmake /lib/x86_64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${triple}/pkgconfig:/usr/share/pkgconfig)

# libonnx-dev cannot be installed for two architectures at once: the headers are the host's, and the
# libraries are the run-time package's, which have no unversioned names.
set(ONNX_PROTO_LIBRARY /usr/lib/${triple}/libonnx_proto.so.1 CACHE FILEPATH "ONNX schema for ${triple}")
set(ONNX_LIBRARY /usr/lib/${triple}/libonnx.so.1 CACHE FILEPATH "ONNX's text parser for ${triple}")

# The CPU of a Raspberry Pi 4, 64-bit Arm of the first version: code that slips in and needs a newer one
# stops as an illegal instruction. ctest and the discovery of tests go through it; no binfmt entry is
# needed. No -L: the loader must be the one that belongs to the libraries above, not that of the
# cross-compiler (threads hang on a mixture).
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/bin/qemu-aarch64-static;-cpu;cortex-a72)
