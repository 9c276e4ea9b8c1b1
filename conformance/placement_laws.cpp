// Where arguments may lie: several in one buffer, and inputs in pages of the host.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/strings.h"
#include "conformance/law_tools.h"

namespace tern::conformance {
namespace {

constexpr std::byte kGap{0x6b};  // between arguments

// A plane of an argument, and where in one piece of memory it goes instead.
struct Piece {
  std::size_t arg;
  std::size_t plane;
  tern_plane from;
  std::uint64_t offset;
  std::uint64_t bytes;
};

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

bool is_same(const tern_plane& a, const tern_plane& b) { return a.buffer == b.buffer && a.offset == b.offset; }

// Every plane behind the one before, at multiples of `alignment` and not at the beginning. Packed weights stay where
// they are; what shares memory still does.
std::vector<Piece> pieces_of(const Case& c, const CaseMemory& memory, std::uint64_t alignment, bool inputs_only) {
  std::vector<Piece> out;
  std::uint64_t end = alignment;
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const tern_tensor& tensor = memory.tensors()[i];
    const bool is_shared =
        std::find(c.alias.begin(), c.alias.end(), static_cast<std::int8_t>(i)) != c.alias.end() || c.shares_memory(i);
    if (!is_present(tensor.desc) || tensor.desc.layout != 0) continue;
    if (inputs_only && (c.written(i) || is_shared)) continue;
    for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
      const std::uint64_t bytes = c.args[i].planes[p].size();
      if (bytes == 0) continue;
      const auto known = std::find_if(out.begin(), out.end(),
                                      [&](const Piece& piece) { return is_same(piece.from, tensor.planes[p]); });
      const std::uint64_t offset = known != out.end() ? known->offset : round_up(end, alignment);
      end = std::max(end, offset + bytes);
      out.push_back({i, p, tensor.planes[p], offset, bytes});
    }
  }
  return out;
}

std::uint64_t end_of(const std::vector<Piece>& pieces) {
  std::uint64_t end = 0;
  for (const Piece& piece : pieces) end = std::max(end, piece.offset + piece.bytes);
  return end;
}

std::vector<tern_tensor> moved(const CaseMemory& memory, const std::vector<Piece>& pieces,
                               const accel::Buffer& buffer) {
  std::vector<tern_tensor> out = memory.tensors();
  for (const Piece& piece : pieces) out[piece.arg].planes[piece.plane] = buffer.plane(piece.offset);
  return out;
}

// Pages of the host with the inputs in them; nobody may write to them.
class ImportedInputs {
 public:
  ImportedInputs(const Case& c, const std::vector<Piece>& pieces)
      : bytes_(round_up(end_of(pieces) + 1, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)))) {
    pages_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED) throw std::bad_alloc();
    for (const Piece& piece : pieces) {
      std::memcpy(static_cast<std::byte*>(pages_) + piece.offset, c.args[piece.arg].planes[piece.plane].data(),
                  piece.bytes);
    }
    mprotect(pages_, bytes_, PROT_READ);
  }
  ImportedInputs(const ImportedInputs&) = delete;
  ImportedInputs& operator=(const ImportedInputs&) = delete;
  ~ImportedInputs() { munmap(pages_, bytes_); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(pages_), bytes_}; }

 private:
  std::uint64_t bytes_;
  void* pages_ = nullptr;
};

}  // namespace

void check_one_buffer(Bench& bench, const CaseSource& source, LawResult& result) {
  constexpr const char* kLaw = "arguments in one buffer";
  const Case c = source.make(23);
  under(bench, result, kLaw, c, [&] {
    CaseMemory memory(bench.device, c, 0);
    const Kernel kernel(bench.device, memory.op_desc(), {});
    const std::uint64_t alignment = std::max<std::uint64_t>(1, bench.device->info().alignment);
    const std::vector<Piece> pieces = pieces_of(c, memory, alignment, false);
    const accel::Buffer whole = bench.device->allocate(end_of(pieces) + alignment, "all of a case's arguments");
    const auto instance = kernel.bind(moved(memory, pieces, whole), 0);
    memory.upload(c, bench.stream);
    Bytes image(whole.bytes(), kGap);
    bench.device->fill(whole.plane(), static_cast<std::uint8_t>(kGap), image.size(), bench.stream);
    for (const Piece& piece : pieces) {
      bench.device->copy(whole.plane(piece.offset), piece.from, piece.bytes, bench.stream);
    }
    launch(*instance, c, bench.stream, kPoison);
    for (const Piece& piece : pieces) {
      bench.device->copy(piece.from, whole.plane(piece.offset), piece.bytes, bench.stream);
    }
    bench.device->copy_to_host(image, whole.plane(), bench.stream);
    const Snapshot snapshot = memory.fetch(bench.stream);
    bench.stream.synchronize();
    note(result, kLaw, c, memory.outputs(snapshot));
    for (const Piece& piece : pieces) {
      std::fill_n(image.begin() + static_cast<std::ptrdiff_t>(piece.offset), piece.bytes, kGap);
    }
    const bool intact = std::all_of(image.begin(), image.end(), [](std::byte byte) { return byte == kGap; });
    note(result, kLaw, c, intact ? "" : "memory between two arguments was written");
  });
}

void check_imported(Bench& bench, const CaseSource& source, LawResult& result) {
  if (!bench.device->can(TERN_CAP_IMPORT_HOST)) return;
  constexpr const char* kLaw = "inputs in the host's pages";
  const Case c = source.make(24);
  under(bench, result, kLaw, c, [&] {
    CaseMemory memory(bench.device, c, 0);
    const Kernel kernel(bench.device, memory.op_desc(), {});
    const std::uint64_t alignment = std::max<std::uint64_t>(1, bench.device->info().import_alignment);
    const std::vector<Piece> pieces = pieces_of(c, memory, alignment, true);
    if (pieces.empty()) return;
    const ImportedInputs pages(c, pieces);
    const accel::Buffer imported = bench.device->import_host(pages.bytes()).value();
    const auto instance = kernel.bind(moved(memory, pieces, imported), 0);
    const Snapshot snapshot = queue(bench, memory, *instance, c, kPoison);
    bench.stream.synchronize();
    note(result, kLaw, c, memory.outputs(snapshot));
  });
}

}  // namespace tern::conformance
