// Linked into each library of the fake: when the library is loaded, it takes the symbols out of its own table that
// TERN_FAKE_CANN_WITHOUT names, and those that a CANN of TERN_FAKE_CANN_VERSION doesn't have yet. dlsym then doesn't
// find them.
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

// Absent in 8.1 (its headers): with the first phase, those of operators too.
constexpr std::array<std::string_view, 16> kNewerThan81 = {"aclnnNpuFormatCast",
                                                           "aclnnNpuFormatCastCalculateSizeAndFormat",
                                                           "aclnnMatmulWeightNz",
                                                           "aclnnRotaryPositionEmbedding",
                                                           "aclnnRotaryPositionEmbeddingGrad",
                                                           "aclnnApplyRotaryPosEmbV2",
                                                           "aclnnFusedInferAttentionScoreV4",
                                                           "aclnnFusedInferAttentionScoreV5",
                                                           "aclnnQuantMatmulV5",
                                                           "aclnnGroupedMatmulV5",
                                                           "aclnnMoeGatingTopK",
                                                           "aclnnScatterPaKvCache",
                                                           "aclnnChunkGatedDeltaRule",
                                                           "aclnnRecurrentGatedDeltaRule",
                                                           "aclnnCausalConv1dFn",
                                                           "aclnnCausalConv1dUpdate"};

bool named(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == name) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

struct Absent {
  std::string_view without;
  bool old = false;

  bool operator()(std::string_view name) const {
    constexpr std::string_view phase = "GetWorkspaceSize";
    if (named(without, name)) return true;
    if (name.ends_with(phase)) name.remove_suffix(phase.size());
    if (named(without, name)) return true;
    if (!old) return false;
    return name.starts_with("aclrtIpcMem") ||
           std::find(kNewerThan81.begin(), kNewerThan81.end(), name) != kNewerThan81.end();
  }
};

// The number of dynamic symbols, from the chains of the GNU hash table.
std::size_t count_symbols(const std::uint32_t* table) {
  const std::uint32_t buckets = table[0], first = table[1], bloom = table[2];
  const auto* bucket = table + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
  const auto* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

// The loader gives addresses as numbers.
template <typename Thing>
Thing* thing_at(std::uintptr_t address) {
  return reinterpret_cast<Thing*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void hide(const Absent& absent, const dl_phdr_info& info) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = thing_at<const ElfW(Dyn)>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const std::uint32_t* hash = nullptr;
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_SYMTAB) symbols = thing_at<ElfW(Sym)>(dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_STRTAB) names = thing_at<const char>(dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_GNU_HASH) hash = thing_at<const std::uint32_t>(dynamic->d_un.d_ptr);
  }
  if (symbols == nullptr || names == nullptr || hash == nullptr) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0, count = count_symbols(hash); i < count; ++i) {
    if (symbols[i].st_value == 0 || !absent(names + symbols[i].st_name)) continue;
    const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(&symbols[i]) / page * page;
    mprotect(thing_at<void>(start), 2 * page, PROT_READ | PROT_WRITE);
    symbols[i].st_value = 0;  // the loader passes over symbols without an address
  }
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  const auto here = reinterpret_cast<std::uintptr_t>(&visit);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || here < start || here >= start + part.p_memsz) continue;
    hide(*static_cast<const Absent*>(data), *info);
    return 1;
  }
  return 0;
}

__attribute__((constructor)) void hide_symbols() {
  const char* without = std::getenv("TERN_FAKE_CANN_WITHOUT");
  const char* version = std::getenv("TERN_FAKE_CANN_VERSION");
  Absent absent{without != nullptr ? without : "", version != nullptr && std::atoi(version) < 9};
  if (!absent.without.empty() || absent.old) dl_iterate_phdr(&visit, &absent);
}

}  // namespace
