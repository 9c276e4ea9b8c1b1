#include "conformance/index_check.h"

#include <algorithm>

#include "base/strings.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

using Numbers = std::vector<std::int64_t>;

class IndexCheck {
 public:
  explicit IndexCheck(const Case& c) : case_(c) {}

  std::string run() {
    counts();
    if (!problem_.empty()) return problem_;
    const std::vector<TensorDesc> descs = descs_of(case_);
    const ops::Indices indices = ops::op_rules(case_.op).indices({case_.op, descs, case_.attrs, case_.accumulate});
    for (const auto& range : indices.ranges) {
      if (problem_.empty()) within(range);
    }
    if (problem_.empty()) lengths(indices);
    return problem_;
  }

 private:
  [[nodiscard]] const TensorDesc& desc(int arg) const { return case_.args[static_cast<std::size_t>(arg)].desc; }
  [[nodiscard]] std::string_view name(int arg) const { return case_.spec().args[static_cast<std::size_t>(arg)].name; }
  [[nodiscard]] Numbers values(int arg) const {
    const auto& argument = case_.args[static_cast<std::size_t>(arg)];
    return is_present(argument.desc) ? decode(argument.desc, argument.planes, case_.counts).integer : Numbers();
  }

  void note(std::string_view what, std::size_t at, const std::string& expected, std::int64_t found) {
    if (problem_.empty()) problem_ = cat(what, "[", at, "]: expected ", expected, ", found ", found);
  }

  void counts() {
    for (const Argument& arg : case_.args) {
      if (!is_present(arg.desc) || arg.desc.dynamic_dim < 0) continue;
      const std::int64_t most = arg.desc.shape[arg.desc.dynamic_dim];
      const std::int64_t count = case_.counts[arg.desc.count_slot];
      if (count < 0 || count > most) return note("counts", arg.desc.count_slot, cat("0 to ", most), count);
    }
  }

  void within(const ops::Indices::Range& range) {
    const Numbers all = values(range.arg);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] >= range.least && all[i] <= range.most) continue;
      return note(name(range.arg), i, cat(range.least, " to ", range.most), all[i]);
    }
  }

  // Gives the rows of each sequence.
  Numbers rows_of(const ops::Indices::Sequences& sequences) {
    const Numbers all = values(sequences.arg);
    const std::int64_t rows = cut(desc(sequences.rows_of), case_.counts).shape[0];
    Numbers steps;
    if (all.empty() || all[0] != 0) note(name(sequences.arg), 0, "0", all.empty() ? -1 : all[0]);
    for (std::size_t i = 1; i < all.size(); ++i) {
      const std::int64_t most = std::min(rows, all[i - 1] + sequences.longest);
      if (all[i] < all[i - 1] || all[i] > most) note(name(sequences.arg), i, cat(all[i - 1], " to ", most), all[i]);
      steps.push_back(all[i] - all[i - 1]);
    }
    return steps;
  }

  void lengths(const ops::Indices& indices) {
    Numbers queries;
    for (std::size_t i = 0; i < indices.sequences.size(); ++i) {
      const Numbers steps = rows_of(indices.sequences[i]);
      if (i == 0) queries = steps;
      if (steps.size() == queries.size()) continue;
      note(name(indices.sequences[i].arg), steps.size(), cat(queries.size() + 1, " entries"),
           static_cast<std::int64_t>(steps.size()) + 1);
    }
    if (indices.paged) paged(*indices.paged, queries);
  }

  // As many keys as rows at least, in blocks that there are.
  void paged(const ops::Indices::Paged& args, const Numbers& queries) {
    const Numbers kv_lens = values(args.kv_lens);
    const Numbers table = values(args.block_table);
    const std::int64_t blocks = desc(args.cache).shape[0];
    const std::int64_t block = desc(args.cache).shape[1];
    const std::int64_t width = desc(args.block_table).shape[1];
    const std::int64_t most = std::min(width * block, args.longest);
    if (kv_lens.size() != queries.size() || table.size() < queries.size() * static_cast<std::size_t>(width)) {
      return note(name(args.kv_lens), kv_lens.size(), cat(queries.size(), " entries"),
                  static_cast<std::int64_t>(kv_lens.size()));
    }
    for (std::size_t b = 0; b < kv_lens.size(); ++b) {
      if (kv_lens[b] < queries[b] || kv_lens[b] > most) {
        return note(name(args.kv_lens), b, cat(queries[b], " to ", most), kv_lens[b]);
      }
      for (std::int64_t i = 0; i * block < kv_lens[b]; ++i) {
        const std::size_t at = b * static_cast<std::size_t>(width) + static_cast<std::size_t>(i);
        if (table[at] >= 0 && table[at] < blocks) continue;
        return note(name(args.block_table), at, cat("0 to ", blocks - 1), table[at]);
      }
    }
  }

  const Case& case_;
  std::string problem_;
};

}  // namespace

std::string index_problem(const Case& c) { return IndexCheck(c).run(); }

}  // namespace tern::conformance
