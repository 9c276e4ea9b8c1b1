// Decoding in partitions of a row's keys, and what goes wrong in merging them. A kernel of prefill does no such thing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mutant/attention_call.h"

namespace tern::mutant {
namespace {

using ops::ref::AttentionInputs;
using ops::ref::AttentionRow;
using ops::ref::Tensor;

constexpr std::int32_t kMostRows = 4;  // of a sequence that is decoded
constexpr std::int64_t kPartition = 256;
constexpr std::int64_t kOddPartition = 200;  // its borders lie inside blocks
constexpr double kNothing = -std::numeric_limits<double>::infinity();

// A row's result before it's rounded.
struct Merged {
  std::vector<double> out;
  double lse = kNothing;
};

class SplitCall : AttentionCall {
 public:
  SplitCall(Mistake mistake, Bound& bound, std::vector<Tensor>& args)
      : AttentionCall(bound.desc, args), mistake_(mistake), bound_(bound) {}

  void run() {
    if (attrs_.max_seqlen_q > kMostRows) return;
    std::map<std::int64_t, std::vector<Partial>> now;
    AttentionInputs in = inputs();
    if (mistake_ == Mistake::split_window) in.attrs.window = 0;
    for_each_attention_row(in, [&](const AttentionRow& row) {
      const std::vector<double> right = shown(row, false);
      const std::vector<Partial> parts = partials(row, right);
      now[row.at] = parts;
      const Merged wrong = merge_wrongly(row, parts);
      if (!wrong.out.empty()) put(row.at, merge(parts, sink_of(row), 1.0), wrong);
    });
    bound_.partials = std::move(now);
  }

 private:
  [[nodiscard]] double sink_of(const AttentionRow& row) {
    return arg(at_.sinks).present() ? arg(at_.sinks).real[static_cast<std::size_t>(row.head)] : kNothing;
  }

  // How often each key counts.
  [[nodiscard]] std::vector<double> shown(const AttentionRow& row, bool wrongly) {
    std::vector<double> out(row.position.size(), 1.0);
    const std::int64_t length = row.position.back() + 1;
    const std::int64_t planned = (attrs_.max_seqlen_k + kPartition - 1) / kPartition;
    const std::int64_t each = std::max<std::int64_t>(1, length / planned);
    const std::int64_t block = op_ == TERN_OP_ATTENTION_PAGED ? arg(at_.k).size(1) : 1;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t j = row.position[i];
      if (mistake_ == Mistake::split_window && attrs_.window > 0) {
        const std::int64_t end = wrongly ? std::min(length, (j / kPartition + 1) * kPartition) : length;
        out[i] = j >= end - attrs_.window ? 1.0 : 0.0;
      }
      if (!wrongly) continue;
      if (mistake_ == Mistake::split_tail && length > kPartition && j >= length / kPartition * kPartition) out[i] = 0.0;
      if (mistake_ == Mistake::split_planned && length > planned && j >= each * planned) out[i] = 0.0;
      const std::int64_t border = (j / kOddPartition + 1) * kOddPartition;
      if (mistake_ == Mistake::split_border && border < length && j >= border / block * block) out[i] = 2.0;
    }
    return out;
  }

  [[nodiscard]] std::vector<Partial> partials(const AttentionRow& row, const std::vector<double>& count) {
    const std::int64_t width = arg(at_.v).size(arg(at_.v).desc.rank - 1);
    std::vector<Partial> out(static_cast<std::size_t>(row.position.back() / kPartition + 1),
                             {kNothing, 0.0, std::vector<double>(static_cast<std::size_t>(width), 0.0)});
    const auto part_of = [&](std::size_t i) -> Partial& {
      return out[static_cast<std::size_t>(row.position[i] / kPartition)];
    };
    for (std::size_t i = 0; i < count.size(); ++i) {
      if (count[i] > 0.0) part_of(i).max = std::max(part_of(i).max, row.score[i]);
    }
    for (std::size_t i = 0; i < count.size(); ++i) {
      if (count[i] == 0.0) continue;
      Partial& part = part_of(i);
      const double p = count[i] * std::exp(row.score[i] - part.max);
      part.sum += p;
      const double* value = arg(at_.v).real.data() + row.key[i] * width;
      for (std::size_t d = 0; d < part.out.size(); ++d) part.out[d] += p * value[d];
    }
    return out;
  }

  [[nodiscard]] Merged merge(const std::vector<Partial>& parts, double sink, double sinks, bool scaled = true) const {
    double largest = sink;
    for (const Partial& part : parts) largest = std::max(largest, part.max);
    double total = sink > kNothing ? sinks * std::exp(sink - largest) : 0.0;
    Merged out{std::vector<double>(parts.front().out.size(), 0.0)};
    for (const Partial& part : parts) {
      if (part.sum == 0.0) continue;
      const double factor = scaled ? std::exp(part.max - largest) : 1.0;
      total += factor * part.sum;
      for (std::size_t d = 0; d < out.out.size(); ++d) out.out[d] += factor * part.out[d];
    }
    for (double& x : out.out) x /= total;
    out.lse = largest + std::log(total);
    return out;
  }

  // Empty where the row is as it should be.
  [[nodiscard]] Merged merge_wrongly(const AttentionRow& row, const std::vector<Partial>& parts) {
    const double sink = sink_of(row);
    switch (mistake_) {
      case Mistake::split_unscaled:
        return merge(parts, sink, 1.0, false);
      case Mistake::split_sinks:
        return merge(parts, sink, static_cast<double>(parts.size()));
      case Mistake::split_empty: {
        const bool any = std::any_of(parts.begin(), parts.end(), [](const Partial& part) { return part.sum == 0.0; });
        if (!any) return {};
        return {std::vector<double>(parts.front().out.size(), std::nan("")), std::nan("")};
      }
      case Mistake::split_stale: {
        const auto before = bound_.partials.find(row.at);
        if (before == bound_.partials.end() || before->second.size() <= parts.size()) return {};
        std::vector<Partial> all = before->second;
        std::copy(parts.begin(), parts.end(), all.begin());
        return merge(all, sink, 1.0);
      }
      default:
        return merge(partials(row, shown(row, true)), sink, 1.0);
    }
  }

  void put(std::int64_t at, const Merged& right, const Merged& wrong) {
    if (right.out == wrong.out) return;
    const auto width = static_cast<std::int64_t>(right.out.size());
    for (std::int64_t d = 0; d < width; ++d) {
      arg(at_.out).real[static_cast<std::size_t>(at * width + d)] = wrong.out[static_cast<std::size_t>(d)];
    }
    if (arg(at_.lse).present()) arg(at_.lse).real[static_cast<std::size_t>(at)] = wrong.lse;
  }

  Mistake mistake_;
  Bound& bound_;
};

}  // namespace

void Launch::spoil_split() {
  std::vector<Tensor> args = decoded();
  const std::vector<Tensor> right = args;
  SplitCall(plan_.mistake, bound_, args).run();
  store_changed(right, args);
}

}  // namespace tern::mutant
