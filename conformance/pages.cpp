#include "conformance/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace tern::conformance {

void* Pages::put_bytes(std::span<const std::byte> from) {
  if (from.empty()) return nullptr;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t room = (from.size() + page - 1) / page * page;
  void* pages = mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  pieces_.emplace_back(pages, room + page);
  std::byte* end = static_cast<std::byte*>(pages) + room;
  mprotect(end, page, PROT_NONE);
  return std::memcpy(end - from.size(), from.data(), from.size());
}

void Pages::take_away() {
  for (const auto& [begin, bytes] : pieces_) mprotect(begin, bytes, PROT_NONE);
}

Pages::~Pages() {
  for (const auto& [begin, bytes] : pieces_) munmap(begin, bytes);
}

}  // namespace tern::conformance
