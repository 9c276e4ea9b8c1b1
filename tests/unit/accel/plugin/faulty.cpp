// A plugin whose table is as the variable TERN_TEST_PLUGIN says: each value is one way to be no backend, or a bad one.
// `wrong=FILE` is the backend of FILE with tensors that are wrong in their last byte, `sick=FILE` one whose doctor has
// something to say, `crashes=FILE` and `hangs=FILE` ones whose doctor does that after its first check, `ends=FILE` one
// that tells when it is finalized.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tern/accel.h"

namespace {

tern_backend sound;  // what is spoiled

// Whole tensors come out wrong; ids and lengths, which are short, do not: what they lead to is another mistake.
tern_status wrong_copy(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  tern_status status = sound.copy_to_host(dst, src, bytes, stream);
  if (status == TERN_OK) status = sound.stream_synchronize(stream);
  if (bytes >= 512) static_cast<unsigned char*>(dst)[bytes - 1] ^= 0x40;
  return status;
}

tern_status sick(uint32_t check, int32_t* level, tern_text line) {
  if (check > 0) return TERN_UNSUPPORTED;
  *level = TERN_LOG_ERROR;
  std::strncpy(line.data, "a driver that is too old", line.capacity - 1);
  return TERN_OK;
}

tern_status crashes(uint32_t check, int32_t* level, tern_text line) {
  if (check > 0) std::abort();
  return sick(check, level, line);
}

tern_status hangs(uint32_t check, int32_t* level, tern_text line) {
  while (check > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  return sick(check, level, line);
}

const tern_host* listener = nullptr;

tern_status ends() {
  listener->log(TERN_LOG_WARN, "the plugin was finalized");
  return TERN_OK;
}

const tern_backend* spoiled(const std::string& fault, const std::string& file, const tern_host* host) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<tern_backend_entry_fn>(dlsym(library, "tern_backend_entry"));
  const tern_backend* real = entry == nullptr ? nullptr : entry(host);
  if (real == nullptr) return nullptr;
  static tern_backend table;
  std::memcpy(&sound, real, std::min<std::size_t>(real->size, sizeof(sound)));
  table = sound;
  if (fault == "wrong") table.copy_to_host = wrong_copy;
  if (fault == "sick") table.doctor = sick;
  if (fault == "crashes") table.doctor = crashes;
  if (fault == "hangs") table.doctor = hangs;
  if (fault == "ends") table.finalize = ends;
  listener = host;
  return &table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const tern_backend* tern_backend_entry(const tern_host* host) {
  const char* named = std::getenv("TERN_TEST_PLUGIN");
  const std::string fault = named == nullptr ? "" : named;
  if (const auto equals = fault.find('='); equals != std::string::npos) {
    return spoiled(fault.substr(0, equals), fault.substr(equals + 1), host);
  }
  if (fault == "refuses") return nullptr;
  static tern_backend table;
  table = {};
  table.size = sizeof(table);
  table.abi_major = fault == "other ABI" ? TERN_ABI_MAJOR + 1 : TERN_ABI_MAJOR;
  table.name = fault == "nameless" ? "" : "faulty";
  table.version = "1";
  return &table;
}
