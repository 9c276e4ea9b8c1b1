#include "ops/index_check.h"

#include <algorithm>

#include "base/strings.h"
#include "ops/rules.h"

namespace tern::ops {
namespace {

using Numbers = std::vector<std::int64_t>;

class IndexCheck {
 public:
  IndexCheck(const CallDesc& call, std::span<const ref::Tensor> args) : call_(call), args_(args) {}

  std::string run() {
    const Indices indices = op_rules(call_.op).indices(call_);
    for (const auto& range : indices.ranges) {
      if (problem_.empty()) within(range);
    }
    if (problem_.empty()) lengths(indices);
    return problem_;
  }

 private:
  [[nodiscard]] std::string_view name(int arg) const {
    return op_spec(call_.op).args[static_cast<std::size_t>(arg)].name;
  }
  [[nodiscard]] const Numbers& values(int arg) const { return args_[static_cast<std::size_t>(arg)].integer; }

  void note(std::string_view what, std::size_t at, const std::string& expected, std::int64_t found) {
    if (problem_.empty()) problem_ = cat(what, "[", at, "]: expected ", expected, ", found ", found);
  }

  void within(const Indices::Range& range) {
    const Numbers all = values(range.arg);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] >= range.least && all[i] <= range.most) continue;
      return note(name(range.arg), i, cat(range.least, " to ", range.most), all[i]);
    }
  }

  // Gives the rows of each sequence.
  Numbers rows_of(const Indices::Sequences& sequences) {
    const Numbers all = values(sequences.arg);
    const std::int64_t rows = args_[static_cast<std::size_t>(sequences.rows_of)].desc.shape[0] * sequences.each;
    Numbers steps;
    if (all.empty() || all[0] != 0) note(name(sequences.arg), 0, "0", all.empty() ? -1 : all[0]);
    for (std::size_t i = 1; i < all.size(); ++i) {
      const std::int64_t most = std::min(rows, all[i - 1] + sequences.longest);
      if (all[i] < all[i - 1] || all[i] > most) note(name(sequences.arg), i, cat(all[i - 1], " to ", most), all[i]);
      steps.push_back(all[i] - all[i - 1]);
    }
    return steps;
  }

  void lengths(const Indices& indices) {
    Numbers queries;
    for (std::size_t i = 0; i < indices.sequences.size(); ++i) {
      const Numbers steps = rows_of(indices.sequences[i]);
      if (i == 0) queries = steps;
      if (steps.size() != queries.size()) {
        note(name(indices.sequences[i].arg), steps.size(), cat(queries.size() + 1, " entries"),
             static_cast<std::int64_t>(steps.size()) + 1);
      } else if (indices.sequences[i].covers) {
        covers(indices.sequences[i].arg, steps, queries);
      }
    }
    if (indices.paged && indices.sequences.empty()) queries.assign(values(indices.paged->kv_lens).size(), 0);
    if (indices.paged) paged(*indices.paged, queries);
  }

  void covers(int arg, const Numbers& steps, const Numbers& queries) {
    const Numbers bounds = values(arg);
    for (std::size_t b = 0; b < steps.size(); ++b) {
      if (steps[b] < queries[b]) note(name(arg), b + 1, cat("at least ", bounds[b] + queries[b]), bounds[b + 1]);
    }
  }

  // As many keys as rows at least, in blocks that there are; block 0 is nobody's.
  void paged(const Indices::Paged& args, const Numbers& queries) {
    const Numbers kv_lens = values(args.kv_lens);
    const Numbers table = values(args.block_table);
    const std::int64_t blocks = call_[args.cache].shape[0];
    const std::int64_t block = call_[args.cache].shape[1];
    const std::int64_t width = call_[args.block_table].shape[1];
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
        if (table[at] >= 1 && table[at] < blocks) continue;
        return note(name(args.block_table), at, cat("1 to ", blocks - 1), table[at]);
      }
    }
  }

  const CallDesc& call_;
  std::span<const ref::Tensor> args_;
  std::string problem_;
};

}  // namespace

std::string index_problem(const CallDesc& call, std::span<const ref::Tensor> args) {
  return IndexCheck(call, args).run();
}

}  // namespace tern::ops
