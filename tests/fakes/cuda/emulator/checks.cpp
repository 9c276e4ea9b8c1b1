// What the compiler's checks in kernels call (-fsanitize=alignment,bounds), without its library: the launch fails, as
// it would on a device. The structs are the compiler's.
#include <cstdint>

#include "tests/fakes/cuda/emulator/block.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

struct Source {
  const char* file;
  std::uint32_t line;
  std::uint32_t column;
};
struct Type {
  std::uint16_t kind;
  std::uint16_t info;
  char name[1];
};
struct Mismatch {
  Source source;
  const Type* type;
  unsigned char log_alignment;
  unsigned char check;
};
struct OutOfBounds {
  Source source;
  const Type* array;
  const Type* index;
};

}  // namespace

extern "C" void __ubsan_handle_type_mismatch_v1(const Mismatch* what, std::uintptr_t address) {
  tern::cuda::emulated::fail("%s:%u: the address %p isn't aligned to %u bytes, as %s must be", what->source.file,
                             what->source.line, reinterpret_cast<void*>(address), 1U << what->log_alignment,
                             what->type->name);
}

extern "C" void __ubsan_handle_out_of_bounds(const OutOfBounds* what, std::uintptr_t index) {
  tern::cuda::emulated::fail("%s:%u: the index %ld is beyond %s", what->source.file, what->source.line,
                             static_cast<long>(index), what->array->name);
}

#endif
