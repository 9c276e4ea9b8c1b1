#include "conformance/index_check.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace tern::conformance {
namespace {

class IndexCheck {
 public:
  explicit IndexCheck(const Case& c) : case_(c) {}

  std::string run() {
    counts();
    if (problem_.empty()) indices();
    if (problem_.empty()) lengths();
    return problem_;
  }

 private:
  // -1 where the op has no such argument, or the call leaves it out.
  [[nodiscard]] int find(std::string_view name) const {
    const int arg = case_.spec().arg_index(name);
    return arg >= 0 && is_present(desc(arg)) ? arg : -1;
  }
  [[nodiscard]] const TensorDesc& desc(int arg) const { return case_.args[static_cast<std::size_t>(arg)].desc; }
  [[nodiscard]] std::int64_t size(std::string_view name, int dim) const { return desc(find(name)).shape[dim]; }
  // Entries that count, along the first dimension.
  [[nodiscard]] std::int64_t rows(std::string_view name) const { return cut(desc(find(name)), case_.counts).shape[0]; }
  [[nodiscard]] std::vector<std::int64_t> values(int arg) const {
    const auto& argument = case_.args[static_cast<std::size_t>(arg)];
    return decode(argument.desc, argument.planes, case_.counts).integer;
  }

  void note(std::string_view name, std::size_t at, const std::string& expected, std::int64_t found) {
    if (problem_.empty()) problem_ = cat(name, "[", at, "]: expected ", expected, ", found ", found);
  }
  // Every entry of the argument, where the call has it, lies within [least, most].
  void within(std::string_view name, std::int64_t least, std::int64_t most) {
    const auto all = values(find(name));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] < least || all[i] > most) return note(name, i, cat(least, " to ", most), all[i]);
    }
  }

  void counts() {
    for (const Argument& arg : case_.args) {
      if (!is_present(arg.desc) || arg.desc.dynamic_dim < 0) continue;
      const std::int64_t most = arg.desc.shape[arg.desc.dynamic_dim];
      const std::int64_t count = case_.counts[arg.desc.count_slot];
      if (count < 0 || count > most) return note("counts", arg.desc.count_slot, cat("0 to ", most), count);
    }
  }

  void indices() {
    switch (case_.op) {
      case TERN_OP_GATHER_ROWS:
        return within("index", INT32_MIN, size("x", 0) - 1);
      case TERN_OP_SCATTER_ADD_ROWS:
        return within("index", INT32_MIN, size("y", 0) - 1);
      case TERN_OP_EMBEDDING:
        return within("ids", 0, size("table", 0) - 1);
      case TERN_OP_ROPE:
      case TERN_OP_QK_NORM_ROPE:
      case TERN_OP_QK_NORM_ROPE_BACKWARD:
        return within("positions", 0, size("cos", 0) - 1);
      case TERN_OP_KV_WRITE:
        return within("slots", -1, size("k_cache", 0) * size("k_cache", 1) - 1);
      case TERN_OP_LINEAR_CROSS_ENTROPY:
        return within("targets", -1, size("w", 0) - 1);
      case TERN_OP_SAMPLE:
        return within("history_len", 0, size("history", 1));
      default:
        return;
    }
  }

  // Rising from 0 to at most the rows there are; no step above `longest`. Gives the steps.
  std::vector<std::int64_t> bounds(std::string_view name, std::int64_t rows, std::int64_t longest) {
    const auto all = values(find(name));
    std::vector<std::int64_t> steps;
    if (all.empty() || all[0] != 0) note(name, 0, "0", all.empty() ? -1 : all[0]);
    for (std::size_t i = 1; i < all.size(); ++i) {
      const std::int64_t most = std::min(rows, all[i - 1] + longest);
      if (all[i] < all[i - 1] || all[i] > most) note(name, i, cat(all[i - 1], " to ", most), all[i]);
      steps.push_back(all[i] - all[i - 1]);
    }
    return steps;
  }
  // The attributes of all three attentions begin alike.
  [[nodiscard]] std::int32_t attribute(std::string_view name) const {
    const auto& attrs = case_.spec().attrs;
    const auto found = std::find_if(attrs.begin(), attrs.end(), [&](const auto& attr) { return attr.name == name; });
    std::int32_t value = 0;
    std::memcpy(&value, case_.attrs.data() + 4 * (found - attrs.begin()), sizeof(value));
    return value;
  }

  void lengths() {
    if (find("cu_seqlens_q") < 0) return;
    const auto queries = bounds("cu_seqlens_q", rows("q"), attribute("max_seqlen_q"));
    if (find("cu_seqlens_k") >= 0) {
      const auto keys = bounds("cu_seqlens_k", rows("k"), attribute("max_seqlen_k"));
      if (keys.size() != queries.size()) {
        note("cu_seqlens_k", keys.size(), cat(queries.size() + 1, " entries"),
             static_cast<std::int64_t>(keys.size()) + 1);
      }
      return;
    }
    paged(queries);
  }

  // As many keys as rows at least, in blocks that there are.
  void paged(const std::vector<std::int64_t>& queries) {
    const auto kv_lens = values(find("kv_lens"));
    const auto table = values(find("block_table"));
    const std::int64_t block = size("k_cache", 1);
    const std::int64_t width = size("block_table", 1);
    const std::int64_t most = std::min<std::int64_t>(width * block, attribute("max_seqlen_k"));
    if (kv_lens.size() != queries.size() || table.size() < queries.size() * static_cast<std::size_t>(width)) {
      return note("kv_lens", kv_lens.size(), cat(queries.size(), " entries"),
                  static_cast<std::int64_t>(kv_lens.size()));
    }
    for (std::size_t b = 0; b < kv_lens.size(); ++b) {
      if (kv_lens[b] < queries[b] || kv_lens[b] > most) {
        return note("kv_lens", b, cat(queries[b], " to ", most), kv_lens[b]);
      }
      for (std::int64_t i = 0; i * block < kv_lens[b]; ++i) {
        const std::size_t at = b * static_cast<std::size_t>(width) + static_cast<std::size_t>(i);
        if (table[at] < 0 || table[at] >= size("k_cache", 0)) {
          return note("block_table", at, cat("0 to ", size("k_cache", 0) - 1), table[at]);
        }
      }
    }
  }

  const Case& case_;
  std::string problem_;
};

}  // namespace

std::string index_problem(const Case& c) { return IndexCheck(c).run(); }

}  // namespace tern::conformance
