// Mistakes in how a kernel is built rather than in one element: they show at sizes that real models have, and only
// there.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/dtype.h"
#include "mutant/attention_call.h"

namespace tern::mutant {
namespace {

using ops::ref::AttentionRow;
using ops::ref::Tensor;

constexpr std::int64_t kFewKeys = 64;  // rows that see no more are computed as they should be

// The numbers that a kernel without one key would have given are worked out from the call's result.
class WithoutKey : AttentionCall {
 public:
  using AttentionCall::AttentionCall;

  // `which`: the key left out of a row with more than kFewKeys, by its place among those that it sees.
  template <typename Which>
  bool run(const Which& which) {
    bool any = false;
    for_each_attention_row(inputs(), [&](const AttentionRow& row) {
      const std::int64_t key = which(row);
      const auto seen = static_cast<std::int64_t>(row.key.size());
      if (seen <= kFewKeys || key < 0 || key >= seen) return;
      any = true;
      op_ == TERN_OP_ATTENTION_BACKWARD ? add_gradient(row, static_cast<std::size_t>(key), -1.0)
                                        : without_value(row, static_cast<std::size_t>(key));
    });
    return any;
  }

 private:
  void without_value(const AttentionRow& row, std::size_t key) {
    const std::int64_t width = arg(at_.v).size(arg(at_.v).desc.rank - 1);
    const double p = std::exp(row.score[key] - row.lse);
    for (std::int64_t d = 0; d < width; ++d) {
      double& out = arg(at_.out).real[static_cast<std::size_t>(row.at * width + d)];
      out = (out - p * arg(at_.v).real[static_cast<std::size_t>(row.key[key] * width + d)]) / (1.0 - p);
    }
    if (arg(at_.lse).present()) arg(at_.lse).real[static_cast<std::size_t>(row.at)] = row.lse + std::log1p(-p);
  }
};

}  // namespace

std::vector<Tensor> Launch::decoded() const {
  std::vector<Tensor> out(bound_.args.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!present(i) || is_quantised(bound_.args[i].desc) || bound_.args[i].desc.layout != 0) continue;
    const Bytes bytes = whole(i);
    const std::span<const std::byte> plane(bytes);
    out[i] = ops::ref::decode(valid_part(bound_.args[i].desc, lengths_.counts.data()), std::span(&plane, 1));
  }
  return out;
}

// What differs in outputs; more than one element, so whole planes are read and written.
void Launch::store_changed(const std::vector<Tensor>& right, const std::vector<Tensor>& wrong) {
  bool any = false;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (!written(i) || wrong[i].real.empty()) continue;
    Bytes bytes = whole(i);
    bool changed = false;
    for (std::size_t n = 0; n < wrong[i].real.size(); ++n) {
      if (wrong[i].real[n] == right[i].real[n] || (std::isnan(wrong[i].real[n]) && std::isnan(right[i].real[n]))) {
        continue;
      }
      const Element at = element_at(bound_.args[i], lengths_.counts.data(), static_cast<std::int64_t>(n));
      const Bytes value = from_real(at, wrong[i].real[n]);
      std::copy(value.begin(), value.end(),
                bytes.begin() + static_cast<std::ptrdiff_t>(at.plane.offset - bound_.args[i].planes[0].offset));
      changed = true;
    }
    if (changed) memory_.write(bound_.args[i].planes[0], bytes);
    any = any || changed;
  }
  if (any) ++made_;
}

// Rewrites whole parts of the output `plan_.arg`: each element of its valid part by `value(index, found, held before)`.
void Launch::rewrite(const std::vector<Bytes>& before,
                     const std::function<double(const Element& at, double found, double held)>& value) {
  const auto arg = static_cast<std::size_t>(plan_.arg);
  const tern_tensor& tensor = bound_.args[arg];
  if (!dtype_info(tensor.desc.dtype).floating) return;
  const Bytes now = whole(arg);
  const std::int64_t count = size(arg);
  const auto bytes = static_cast<std::size_t>(dtype_bytes(tensor.desc.dtype));
  bool any = false;
  for (std::int64_t n = 0; n < count; ++n) {
    const Element at = element_at(tensor, lengths_.counts.data(), n);
    const auto offset = static_cast<std::ptrdiff_t>(at.plane.offset - tensor.planes[0].offset);
    const auto read = [&](const Bytes& from) {
      return to_value(at, Bytes(from.begin() + offset, from.begin() + offset + static_cast<std::ptrdiff_t>(bytes)))
          .real[0];
    };
    const double found = read(now);
    const double wrong = value(at, found, read(before[arg]));
    if (wrong == found || (std::isnan(wrong) && std::isnan(found))) continue;
    store(memory_, at, from_real(at, wrong));
    any = true;
  }
  if (any) ++made_;
}

std::int64_t Launch::first_judged(std::size_t arg) const {
  if (bound_.desc.op != TERN_OP_KV_WRITE || !written(arg)) return 0;
  const tern_tensor_desc& cache = bound_.args[arg].desc;  // or its scales
  return std::accumulate(cache.shape + 1, cache.shape + cache.rank, std::int64_t{1}, std::multiplies<>());
}

void Launch::spoil_structure(const std::vector<Bytes>& before) {
  const auto arg = static_cast<std::size_t>(std::max(plan_.arg, 0));
  const tern_tensor_desc& desc = bound_.args[arg].desc;
  const auto last = static_cast<std::size_t>(std::max(desc.rank - 1, 0));
  switch (plan_.mistake) {
    case Mistake::scaled_output:
      return rewrite(before, [](const Element&, double found, double) { return found * 0.7; });
    case Mistake::rows_past_256:
      if (desc.shape[0] <= 256) return;
      return rewrite(before,
                     [](const Element& at, double found, double held) { return at.index[0] < 256 ? found : held; });
    case Mistake::columns_past_1024:
      if (desc.rank < 2 || desc.shape[last] <= 1024) return;
      return rewrite(before, [last](const Element& at, double found, double held) {
        return at.index[last] < 1024 ? found : held;
      });
    case Mistake::features_past_64:
      if (desc.rank < 3 || desc.shape[last] <= 64) return;
      return rewrite(before,
                     [last](const Element& at, double found, double) { return at.index[last] < 64 ? found : 0.0; });
    case Mistake::count_tail: {
      if (desc.dynamic_dim < 0 || lengths_.counts[desc.count_slot] % 8 == 0) return;
      const auto dim = static_cast<std::size_t>(desc.dynamic_dim);
      const std::int64_t whole_blocks = lengths_.counts[desc.count_slot] / 8 * 8;
      return rewrite(before, [=](const Element& at, double found, double held) {
        return at.index[dim] < whole_blocks ? found : held;
      });
    }
    case Mistake::wrong_tile: {  // the last tile of 16 x 16 is that before it
      if (desc.rank != 2 || desc.shape[0] < 17 || desc.shape[1] < 17) return;
      const tern_tensor_desc valid = valid_part(desc, lengths_.counts.data());
      const Bytes now = whole(arg);
      const std::span<const std::byte> plane(now);
      const Tensor values = ops::ref::decode(valid, std::span(&plane, 1));
      const std::int64_t row = (valid.shape[0] - 1) / 16 * 16;
      const std::int64_t column = (valid.shape[1] - 1) / 16 * 16;
      if (row < 0 || column < 16) return;
      return rewrite(before, [&](const Element& at, double found, double) {
        if (at.index[0] < row || at.index[1] < column) return found;
        return values.real[static_cast<std::size_t>(at.index[0] * valid.shape[1] + at.index[1] - 16)];
      });
    }
    case Mistake::lost_gradient:
      if (bound_.args[TERN_LINEAR_CROSS_ENTROPY_W].desc.shape[0] < 4096) return;
      return rewrite(before, [](const Element&, double, double) { return 0.0; });
    case Mistake::forgotten_key:
    case Mistake::key_past_block:
      return forget_key();
    case Mistake::chunk_of_rows:
    case Mistake::late_chunk:
    case Mistake::window_from_end:
      return spoil_borders();
    default:
      return spoil_formula(before);
  }
}

// A row with more than 64 keys loses one: the last that it sees, or the first of a paged cache's second block.
void Launch::forget_key() {
  std::vector<Tensor> args = decoded();
  const std::vector<Tensor> right = args;
  WithoutKey without(bound_.desc, args);
  const std::int64_t block = bound_.args[TERN_ATTENTION_PAGED_K_CACHE].desc.shape[1];
  const bool last = plan_.mistake == Mistake::forgotten_key;
  const bool any = without.run([&](const AttentionRow& row) {
    const auto& keys = row.position;
    return (last ? keys.end() - 1 : std::find(keys.begin(), keys.end(), block)) - keys.begin();
  });
  if (any) store_changed(right, args);
}

// The mask of attention, read as a kernel with the mistake would.
tern_status Launch::spoil_mask(const Lengths& lengths) {
  const auto arg = static_cast<std::size_t>(plan_.arg);
  const tern_tensor& tensor = bound_.args[arg];
  const tern_tensor_desc desc = valid_part(tensor.desc, lengths.counts.data());
  const std::int64_t rows = desc.shape[0];
  const std::int64_t width = desc.shape[1];
  tern_attention_attrs attrs{};  // all three ops' are alike
  std::memcpy(&attrs, bound_.desc.attrs, sizeof(attrs));
  const Bytes right = whole(arg);
  const std::span<const std::byte> plane(right);
  const Tensor mask = ops::ref::decode(desc, std::span(&plane, 1));
  Tensor read = mask;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      std::int64_t from = i * width + j;
      if (plan_.mistake == Mistake::wrong_mask_row) from = (i + 1) % rows * width + j;
      if (plan_.mistake == Mistake::wrong_mask_stride) from = i * attrs.max_seqlen_k + j;
      const bool is_ignored = plan_.mistake == Mistake::ignored_mask;
      read.integer[static_cast<std::size_t>(i * width + j)] =
          is_ignored ? 1 : mask.integer[static_cast<std::size_t>(from)];
    }
  }
  Bytes wrong = right;
  ops::ref::encode(read, desc, wrong);
  tern_status status = TERN_OK;
  const auto put = [&](const Bytes& bytes) { return [&] { memory_.write(tensor.planes[0], bytes); }; };
  if (runs_differently(lengths, lengths, put(wrong), put(right), status)) ++made_;
  return status;
}

}  // namespace tern::mutant
