#include "graph/gradient_sums.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/strings.h"
#include "graph/unbroadcast.h"
#include "ops/axpby.h"
#include "ops/cast_copy.h"
#include "ops/fill.h"

namespace tern::graph {
namespace {

// `desc` in another dtype.
TensorDesc in_dtype(TensorDesc desc, tern_dtype dtype) {
  desc.dtype = dtype;
  return desc;
}

// Whether elements follow each other alike; strides of dimensions with one entry mean nothing.
bool same_strides(const TensorDesc& a, const TensorDesc& b) {
  for (int d = 0; d < a.rank; ++d) {
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

// Devices ask of a view that it begins at a multiple of theirs. The graph's own slices do; what is between them may
// not.
constexpr std::int64_t kAlignment = 512;
bool are_aligned(const std::vector<Region>& regions, tern_dtype dtype) {
  const auto size = static_cast<std::int64_t>(total_bytes(make_desc(dtype, {1})));
  return std::all_of(regions.begin(), regions.end(),
                     [&](const Region& region) { return region.offset * size % kAlignment == 0; });
}

Region all_of(const Storage& storage) { return region_of(storage.desc, 0); }

}  // namespace

Region GradientSums::region(Value value) const { return region_of(graph_.desc(value), graph_.info(value).offset); }

void GradientSums::begin_at(Value value, Value into) {
  Sum& sum = sum_of(value);
  sum.whole = sum.into = into;
  sum.written = {all_of(storage_of(value))};
}

bool GradientSums::is_at(Value value, Value into) const {
  const Sum& sum = sums_[static_cast<std::size_t>(memory_of(value))];
  return sum.into == into && sum.whole.present() && memory_of(sum.whole) == memory_of(into);
}

// Adding in place would change what others hold: a rule may give one gradient to several inputs (rms_norm's x and
// residual), or an output's own.
bool GradientSums::is_exclusive(const Sum& sum) const {
  const std::int32_t memory = memory_of(sum.whole);
  const Storage& storage = storage_of(sum.whole);
  if (sum.into.present() && memory == memory_of(sum.into)) return true;
  const bool may_write = storage.kind == StorageKind::intermediate || storage.kind == StorageKind::resource;
  if (!may_write || storage.is_output || kept_.contains(memory)) return false;
  return std::count_if(sums_.begin(), sums_.end(), [&](const Sum& other) {
           return other.whole.present() && memory_of(other.whole) == memory;
         }) <= 1;
}

Value GradientSums::part(Sum& sum, const TensorDesc& desc, std::int64_t offset) {
  sum.whole = graph_.latest(sum.whole);
  const TensorDesc& whole = graph_.desc(sum.whole);
  const TensorDesc wanted = in_dtype(desc, whole.dtype);
  const bool is_all = offset == 0 && same_shape(wanted, whole) && same_strides(wanted, whole);
  return is_all ? sum.whole : graph_.view(sum.whole, wanted, offset);
}

Value GradientSums::part(Sum& sum, const Region& region, const Storage& storage) {
  return part(sum, desc_of(region, storage.desc, graph_.desc(sum.whole).dtype), region.offset);
}

// What is not written of a region. Where boxes cannot say it, or no view may name it, everything is filled in.
std::vector<Region> GradientSums::missing(Sum& sum, const Region& region, const Storage& storage) {
  if (is_complete(sum, storage)) return {};
  auto rest = subtract(region, sum.written);
  const bool is_all = rest && *rest == std::vector<Region>{region};
  if (is_all || (rest && are_aligned(*rest, graph_.desc(sum.whole).dtype))) return *std::move(rest);
  move_out(sum, storage, true);
  return {};
}

bool GradientSums::is_complete(const Sum& sum, const Storage& storage) {
  return sum.written == std::vector<Region>{region_of(storage.desc, 0)};
}

void GradientSums::mark_written(Sum& sum, const Region& region, const Storage& storage) {
  sum.written.push_back(region);
  const auto rest = subtract(all_of(storage), sum.written);
  if (rest && rest->empty()) sum.written = {all_of(storage)};
}

void GradientSums::fill_with_zeros(Sum& sum, const std::vector<Region>& parts, const Storage& storage) {
  for (const Region& region : parts) {
    const Value at = part(sum, region, storage);
    (void)ops::fill(graph_, graph_.desc(at), 0.0F, {.at = at});
    mark_written(sum, region, storage);
  }
}

// What was given so far goes to memory of its own.
void GradientSums::move_out(Sum& sum, const Storage& storage, bool with_zeros) {
  Sum from = sum;
  sum.whole = graph_.buffer(in_dtype(storage.desc, graph_.desc(from.whole).dtype));
  sum.written.clear();
  if (with_zeros) fill_with_zeros(sum, {all_of(storage)}, storage);
  for (const Region& region : from.written) {
    const Value x = part(from, region, storage);
    (void)ops::cast_copy(graph_, x, {.out = graph_.desc(x).dtype, .at = part(sum, region, storage)});
    if (!with_zeros) mark_written(sum, region, storage);
  }
}

// A first gradient of the whole storage is its gradient.
bool GradientSums::take_whole(Sum& sum, Value gradient, const TensorDesc& desc, const Region& at,
                              const Storage& storage) {
  if (at != all_of(storage) || !same_strides(graph_.desc(gradient), desc)) return false;
  const TensorDesc layout = in_dtype(storage.desc, graph_.desc(gradient).dtype);
  const TensorDesc& given = graph_.desc(gradient);
  sum.whole = same_shape(given, layout) && same_strides(given, layout) ? gradient : graph_.view(gradient, layout, 0);
  sum.written = {at};
  return true;
}

void GradientSums::add(Value value, Value gradient, bool is_sole) {
  Sum& sum = sum_of(value);
  const Storage storage = storage_of(value);
  const std::int64_t offset = graph_.info(value).offset;
  const bool is_broadcast_here = is_broadcast(graph_.desc(value));
  const TensorDesc desc = unbroadcast(graph_.desc(value));
  if (is_broadcast_here) gradient = sum_over_broadcast(graph_, gradient, graph_.desc(value));
  const Region at = region_of(desc, offset);
  sum.is_given = true;
  if (!sum.whole.present()) {
    if (take_whole(sum, gradient, desc, at, storage)) return;
    sum.whole = graph_.buffer(in_dtype(storage.desc, graph_.desc(gradient).dtype));
  }
  std::vector<Region> rest = missing(sum, at, storage);
  const bool is_new = !at.is_empty && rest == std::vector<Region>{at};
  if (!is_exclusive(sum)) {
    if (rest.empty() && at == all_of(storage)) {
      const Value held = part(sum, desc, offset);
      const Value total = ops::axpby(graph_, gradient, held, {.out = graph_.desc(held).dtype});
      sum.whole = {};
      if (take_whole(sum, total, desc, at, storage)) return;
      sum.whole = graph_.buffer(in_dtype(storage.desc, graph_.desc(total).dtype));
      sum.written.clear();
      return add(value, total, true);
    }
    move_out(sum, storage, false);
  }
  if (is_new) {
    const Value place = part(sum, desc, offset);
    if (!(is_sole || is_broadcast_here) || !graph_.write_at(gradient, place)) {
      (void)ops::cast_copy(graph_, gradient, {.out = graph_.desc(place).dtype, .at = place});
    }
    mark_written(sum, at, storage);
    return;
  }
  fill_with_zeros(sum, rest, storage);
  (void)ops::axpby(graph_, gradient, {}, {.a = 1.0F, .b = 0.0F, .into = part(sum, desc, offset)});
}

void GradientSums::absorb(Value value, Value gradient, bool is_sole) {
  Sum& sum = sum_of(value);
  sum.is_given = true;
  if (memory_of(gradient) == memory_of(sum.whole)) return;
  begins_here(value, true);
  add(value, gradient, is_sole);
}

void GradientSums::add_one(Value value) {
  if (num_elements(graph_.desc(value)) != 1) throw std::logic_error("differentiate: the loss is one number");
  Sum& sum = sum_of(value);
  if (num_elements(storage_of(value).desc) == 1) {
    ++sum.ones;
    sum.is_given = true;
    return;
  }
  const TensorDesc one = make_desc(TERN_F32, shape_of(graph_.desc(value)));
  add(value, ops::fill(graph_, one, 1.0F, {}), true);
}

void GradientSums::spend_ones(Sum& sum, Value value) {
  const auto ones = static_cast<float>(std::exchange(sum.ones, 0));
  const TensorDesc one = make_desc(TERN_F32, shape_of(graph_.desc(value)));
  add(value, ops::fill(graph_, one, ones, {}), true);
}

Value GradientSums::of(Value value) {
  Sum& sum = sum_of(value);
  if (sum.ones == 1 && !sum.whole.present()) return ops::kUnitGradient;
  if (sum.ones > 0) spend_ones(sum, value);
  if (!sum.whole.present()) return {};
  const Storage storage = storage_of(value);
  const Region at = region(value);
  std::vector<Region> rest = missing(sum, at, storage);
  if (!at.is_empty && rest == std::vector<Region>{at}) return {};
  if (!rest.empty()) {
    if (!is_exclusive(sum)) move_out(sum, storage, false);
    fill_with_zeros(sum, rest, storage);
  }
  return part(sum, graph_.desc(value), graph_.info(value).offset);
}

Value GradientSums::into(Value value) {
  Sum& sum = sum_of(value);
  if (!sum.whole.present() || is_broadcast(graph_.desc(value)) || !is_exclusive(sum)) return {};
  if (!is_complete(sum, storage_of(value))) {
    const auto rest = subtract(region(value), sum.written);
    if (!rest || !rest->empty()) return {};
  }
  return part(sum, graph_.desc(value), graph_.info(value).offset);
}

void GradientSums::begins_here(Value value, bool is_placed) {
  Sum& sum = sum_of(value);
  const Storage storage = storage_of(value);
  std::vector<Region> left;
  if (is_placed && sum.whole.present()) {
    const Region at = region(value);
    for (const Region& region : sum.written) {
      const auto rest = subtract(region, std::span(&at, 1));
      if (!rest || !are_aligned(*rest, graph_.desc(sum.whole).dtype)) {  // zeros say the same as nothing
        if (!is_exclusive(sum)) move_out(sum, storage, false);
        const Value zeros = part(sum, graph_.desc(value), graph_.info(value).offset);
        (void)ops::fill(graph_, graph_.desc(zeros), 0.0F, {.at = zeros});
        return;
      }
      left.insert(left.end(), rest->begin(), rest->end());
    }
  }
  sum.written = std::move(left);
  sum.ones = 0;
  if (sum.written.empty() && !sum.into.present()) sum.whole = {};
}

}  // namespace tern::graph
