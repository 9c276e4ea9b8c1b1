#!/usr/bin/env bash
# llama.cpp's own benchmarks, built for this machine from the source that llama-cpp-python carries, once.
# TERN_BENCH_LLAMA names a folder that has them already.
set -euo pipefail
version=0.3.36
folder=$TERN_BENCH_DIR/llama.cpp-$version
if [ -n "${TERN_BENCH_LLAMA:-}" ] || { [ -x "$folder/bin/llama-batched-bench" ] && [ -x "$folder/bin/llama-completion" ]; }; then exit 0; fi
echo "bench: building llama.cpp of llama-cpp-python $version in $folder"
mkdir -p "$folder"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$folder" \
  "llama-cpp-python==$version"
tar -xzf "$folder/llama_cpp_python-$version.tar.gz" -C "$folder"
cmake -S "$folder/llama_cpp_python-$version/vendor/llama.cpp" -B "$folder" -G Ninja -Wno-dev \
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TOOLS=ON >/dev/null
ninja -C "$folder" llama-batched-bench llama-quantize llama-completion
