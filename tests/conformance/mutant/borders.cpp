// Borders of what a row sees, drawn in the wrong place: they are right where rows and keys are as many, or no border is
// crossed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mutant/attention_call.h"

namespace tern::mutant {
namespace {

using ops::ref::AttentionInputs;
using ops::ref::AttentionRow;
using ops::ref::Tensor;

struct Place {
  std::int64_t row;   // of its sequence
  std::int64_t keys;  // of its sequence
  std::int64_t p;     // its own key
};

class WrongBorders : AttentionCall {
 public:
  WrongBorders(Mistake mistake, const tern_op_desc& desc, std::vector<Tensor>& args)
      : AttentionCall(desc, args), mistake_(mistake) {}

  void run() {
    AttentionInputs all = inputs();
    all.attrs.window = all.attrs.window_right = all.attrs.chunk = 0;
    for_each_attention_row(all, [&](const AttentionRow& row) {
      const Place place = place_of(all, row.at / arg(at_.q).size(1));
      std::vector<int> change;  // by key: 1 is seen wrongly, -1 is missed, 0 is as it should be
      std::vector<bool> seen;
      for (const std::int64_t j : row.position) {
        const bool right = sees(place, j, Mistake::none);
        seen.push_back(sees(place, j, mistake_));
        change.push_back(static_cast<int>(seen.back()) - static_cast<int>(right));
      }
      if (std::all_of(change.begin(), change.end(), [](int key) { return key == 0; })) return;
      op_ == TERN_OP_ATTENTION_BACKWARD ? change_gradient(row, change) : change_value(row, seen);
    });
  }

 private:
  [[nodiscard]] Place place_of(const AttentionInputs& in, std::int64_t row) {
    const std::vector<std::int64_t>& cu_q = in.cu_seqlens_q.integer;
    const auto end = std::upper_bound(cu_q.begin(), cu_q.end(), row);
    const std::int64_t keys = in.keys(end - cu_q.begin() - 1);
    const std::int64_t own = row - *(end - 1);
    return {own, keys, own + keys - (*end - *(end - 1))};
  }

  [[nodiscard]] bool sees(const Place& at, std::int64_t j, Mistake mistake) const {
    std::int64_t begin = 0;
    std::int64_t end = at.keys;
    if (attrs_.window > 0) begin = (mistake == Mistake::window_from_end ? at.keys : at.p + 1) - attrs_.window;
    if (attrs_.window_right > 0) end = std::min(end, at.p + attrs_.window_right);
    if (attrs_.chunk > 0) {
      std::int64_t from = mistake == Mistake::chunk_of_rows ? at.row : at.p;
      if (mistake == Mistake::late_chunk) from = std::max<std::int64_t>(0, from - 1);
      begin = std::max(begin, from / attrs_.chunk * attrs_.chunk);
      end = std::min(end, (at.p / attrs_.chunk + 1) * attrs_.chunk);
    }
    return begin <= j && j < end;
  }

  void change_value(const AttentionRow& row, const std::vector<bool>& seen) {
    const double sink = arg(at_.sinks).present() ? arg(at_.sinks).real[static_cast<std::size_t>(row.head)]
                                                 : -std::numeric_limits<double>::infinity();
    double largest = sink;
    for (std::size_t j = 0; j < seen.size(); ++j) largest = seen[j] ? std::max(largest, row.score[j]) : largest;
    double total = std::isfinite(sink) ? std::exp(sink - largest) : 0.0;
    for (std::size_t j = 0; j < seen.size(); ++j) total += seen[j] ? std::exp(row.score[j] - largest) : 0.0;
    const std::int64_t width = arg(at_.v).size(arg(at_.v).desc.rank - 1);
    for (std::int64_t d = 0; d < width; ++d) {
      double sum = 0.0;
      for (std::size_t j = 0; total > 0.0 && j < seen.size(); ++j) {
        const double value = arg(at_.v).real[static_cast<std::size_t>(row.key[j] * width + d)];
        sum += seen[j] ? std::exp(row.score[j] - largest) / total * value : 0.0;
      }
      arg(at_.out).real[static_cast<std::size_t>(row.at * width + d)] = sum;
    }
    if (arg(at_.lse).present()) arg(at_.lse).real[static_cast<std::size_t>(row.at)] = largest + std::log(total);
  }

  void change_gradient(const AttentionRow& row, const std::vector<int>& change) {
    for (std::size_t j = 0; j < change.size(); ++j) {
      if (change[j] != 0) add_gradient(row, j, change[j]);
    }
  }

  Mistake mistake_;
};

}  // namespace

void Launch::spoil_borders() {
  std::vector<Tensor> args = decoded();
  const std::vector<Tensor> right = args;
  WrongBorders(plan_.mistake, bound_.desc, args).run();
  store_changed(right, args);
}

}  // namespace tern::mutant
