#include "conformance/case_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "base/half.h"
#include "base/nf4.h"
#include "base/strings.h"
#include "ops/ref/cache_codes.h"
#include "ops/ref/packing_blocks.h"

namespace tern::conformance {
namespace {

Bytes blank(const TensorDesc& desc) {
  return Bytes(static_cast<std::size_t>(plane_bytes(desc).bytes[0]), std::byte{0xff});
}

// A tensor of `desc` at capacity whose first elements of the dynamic dimension are `valid`'s, the rest `tail` or 0.
ops::ref::Tensor at_capacity(const TensorDesc& desc, const ops::ref::Tensor& valid, double tail) {
  ops::ref::Tensor whole;
  whole.desc = desc;
  const auto count = static_cast<std::size_t>(num_elements(desc));
  const bool real = dtype_info(desc.dtype).floating;
  if (real) whole.real.assign(count, tail);
  if (!real) whole.integer.assign(count, 0);
  const std::int64_t have = valid.desc.rank == 0 ? 0 : num_elements(valid.desc);
  std::int64_t index[TERN_MAX_RANK] = {};
  for (std::int64_t i = 0; i < have; ++i) {
    std::int64_t to = 0;
    for (int d = 0; d < desc.rank; ++d) to = to * desc.shape[d] + index[d];
    const auto from = static_cast<std::size_t>(i);
    if (real) {
      whole.real[static_cast<std::size_t>(to)] = valid.real[from];
    } else {
      whole.integer[static_cast<std::size_t>(to)] = valid.integer[from];
    }
    for (int d = desc.rank - 1; d >= 0 && ++index[d] == valid.desc.shape[d]; --d) index[d] = 0;
  }
  return whole;
}

}  // namespace

std::string label_of(const Variant& v) {
  std::string out = v.split == 0 ? cat("size ", v.size, ", option ", v.option) : cat("split decode ", v.split);
  out += cat(", ", dtype_name(v.in));
  if (v.out != v.in) out += cat(" to ", dtype_name(v.out));
  if (v.codes != TERN_F32) out += cat(", a cache in ", dtype_name(v.codes));
  if (v.narrow_keys) out += ", keys and values in bf16";
  if (v.layout == Layout::padded_rows) out += ", padded rows";
  if (v.layout == Layout::inner_stride) out += ", inner stride";
  if (v.accumulate) out += ", accumulate";
  if (v.accumulate && v.which == Accumulate::first) out += " in the first output alone";
  if (v.accumulate && v.which == Accumulate::others) out += " but for the first output";
  if (v.alias) out += ", alias";
  if (v.dynamic) out += ", dynamic";
  if (v.counts == Counts::none) out += ", counts of 0";
  if (v.counts == Counts::all) out += ", full counts";
  if (v.high_slots) out += ", counts in slots 5 and 7";
  if (v.packed) out += v.both_uses ? ", packed for both uses" : ", packed";
  if (v.short_keys) out += ", few keys";
  if (v.special == 1) out += ", NaN";
  if (v.special == 2) out += ", infinity";
  if ((v.needs & TERN_NEED_DETERMINISTIC) != 0) out += ", deterministic";
  if ((v.needs & TERN_NEED_ROW_INVARIANT) != 0) out += ", row invariant";
  return out;
}

CaseBuilder::CaseBuilder(std::uint32_t op, const Variant& variant, std::uint64_t seed)
    : variant_(variant), random_(mix_key(seed, op)), special_pending_(variant.special != 0) {
  case_.op = op;
  case_.label = label_of(variant);
  case_.needs = variant.needs;
  case_.special = variant.special != 0;
  case_.any_tails = variant.any_tails;
  case_.args.resize(case_.spec().args.size());
  case_.alias.assign(case_.args.size(), -1);
}

ops::ref::Tensor CaseBuilder::decoded(int arg) { return decode(at(arg).desc, at(arg).planes, case_.counts); }

std::int64_t CaseBuilder::count_for(std::int64_t capacity, int slot, std::int64_t least) {
  const bool some = variant_.dynamic && variant_.counts == Counts::some;
  std::int64_t count = some ? 1 + random_.below(std::max<std::int64_t>(1, capacity - 1)) : capacity;
  if (variant_.dynamic && variant_.counts == Counts::none) count = 0;
  count = std::max(count, least);
  std::int64_t& place = case_.counts[static_cast<std::size_t>(slot_of(slot))];
  return place = std::min(count, capacity);
}

TensorDesc CaseBuilder::lay_out(tern_dtype dtype, const Shape& shape, int dynamic_dim, int slot, bool plain) const {
  TensorDesc desc = make_desc(dtype, shape);
  if (!plain && variant_.layout == Layout::padded_rows && desc.rank >= 2) {
    // one more element than the row needs, rounded up so that rows of 2-byte elements stay 4-byte aligned
    for (int d = desc.rank - 2; d >= 0; --d)
      desc.strides[d] =
          (d == desc.rank - 2 ? desc.shape[d + 1] + 6 : desc.strides[d + 1] * desc.shape[d + 1]) & ~std::int64_t{1};
  }
  if (!plain && variant_.layout == Layout::inner_stride) {
    for (int d = 0; d < desc.rank; ++d) desc.strides[d] *= 3;
  }
  return variant_.dynamic && dynamic_dim >= 0 ? with_dynamic(desc, dynamic_dim, slot_of(slot)) : desc;
}

void CaseBuilder::fill(Argument& arg, const ops::ref::Tensor& valid, double tail) {
  arg.planes[0] = blank(arg.desc);
  const double beyond = variant_.any_tails ? std::nan("") : tail;
  ops::ref::encode(at_capacity(arg.desc, valid, beyond), arg.desc, arg.planes[0]);
}

void CaseBuilder::real(int arg, tern_dtype dtype, const Shape& shape, int dynamic_dim, int slot) {
  const TensorDesc desc = lay_out(dtype, shape, dynamic_dim, slot, false);
  std::vector<double> elements(static_cast<std::size_t>(num_elements(cut(desc, case_.counts))));
  for (double& x : elements) x = random_.term();
  if (special_pending_ && !elements.empty()) {
    special_pending_ = false;
    if (random_.below(6) == 0) return values(arg, dtype, shape, elements, dynamic_dim, slot);  // and sometimes none
    elements[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(elements.size())))] =
        variant_.special == 1 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  values(arg, dtype, shape, elements, dynamic_dim, slot);
}

void CaseBuilder::values(int arg, tern_dtype dtype, const Shape& shape, const std::vector<double>& elements,
                         int dynamic_dim, int slot, double tail) {
  at(arg).desc = lay_out(dtype, shape, dynamic_dim, slot, false);
  ops::ref::Tensor valid;
  valid.desc = cut(at(arg).desc, case_.counts);
  valid.real = elements;
  fill(at(arg), valid, tail);
}

std::vector<double> CaseBuilder::wide_terms(const Shape& shape) {
  const auto dim = static_cast<std::size_t>(std::max<std::int64_t>(shape.back(), 1));
  std::vector<double> out(static_cast<std::size_t>(num_elements(make_desc(TERN_F32, shape))));
  double size = 1.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % dim == 0) size = random_.below(8) == 0 ? 0.0 : std::ldexp(1.0, static_cast<int>(random_.below(12)) - 8);
    out[i] = random_.term() * size * std::ldexp(1.0, -static_cast<int>(random_.below(4) * random_.below(4)));
  }
  return out;
}

void CaseBuilder::cached(int arg, int scale, tern_dtype dtype, const Shape& shape) {
  if (!has_codes()) return real(arg, dtype, shape);
  cached(arg, scale, dtype, shape, wide_terms(shape));
}

void CaseBuilder::cached(int arg, int scale, tern_dtype dtype, const Shape& shape,
                         const std::vector<double>& elements) {
  if (!has_codes()) return values(arg, dtype, shape, elements);
  ops::ref::Tensor codes;
  codes.desc = at(arg).desc = lay_out(variant_.codes, shape, -1, 0, false);
  std::vector<double> scales;
  const auto dim = static_cast<std::size_t>(shape.back());
  for (std::size_t row = 0; row < elements.size(); row += dim) {
    scales.push_back(ops::ref::row_scale(variant_.codes, std::span(elements).subspan(row, dim)));
    for (std::size_t i = row; i < row + dim; ++i) {
      const double code = ops::ref::row_code(variant_.codes, elements[i], scales.back());
      if (variant_.codes == TERN_I8) codes.integer.push_back(static_cast<std::int64_t>(code));
      if (variant_.codes != TERN_I8) codes.real.push_back(code);
    }
  }
  if (variant_.special != 0 && !scales.empty()) {
    scales[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(scales.size())))] = std::nan("");
  }
  fill(at(arg), codes);
  values(scale, TERN_F32, Shape(shape.begin(), shape.end() - 1), scales);
}

void CaseBuilder::integers(int arg, tern_dtype dtype, const Shape& shape, const std::vector<std::int64_t>& elements,
                           int dynamic_dim, int slot) {
  at(arg).desc = lay_out(dtype, shape, dynamic_dim, slot, true);
  ops::ref::Tensor valid;
  valid.desc = cut(at(arg).desc, case_.counts);
  valid.integer = elements;
  fill(at(arg), valid);
}

void CaseBuilder::counted(int arg, const std::vector<std::int64_t>& elements, int slot, std::int64_t tail,
                          std::int64_t width) {
  const std::int64_t columns = std::max<std::int64_t>(width, 1);
  const std::int64_t count = static_cast<std::int64_t>(elements.size()) / columns;
  const std::int64_t rows = variant_.dynamic ? count + 2 : count;
  case_.counts[static_cast<std::size_t>(slot_of(slot))] = count;
  at(arg).desc = lay_out(TERN_I32, width > 0 ? Shape{rows, width} : Shape{rows}, 0, slot, true);
  constexpr std::int64_t kJunk = -77'777;
  std::vector<std::int64_t> whole = elements;
  whole.resize(static_cast<std::size_t>(rows * columns), variant_.any_tails ? kJunk : tail);
  ops::ref::Tensor all;
  all.desc = at(arg).desc;
  all.desc.dynamic_dim = -1;
  all.integer = whole;
  at(arg).planes[0] = blank(at(arg).desc);
  ops::ref::encode(all, all.desc, at(arg).planes[0]);
}

void CaseBuilder::booleans(int arg, const Shape& shape, const std::vector<std::int64_t>& elements, int dynamic_dim,
                           int slot) {
  at(arg).desc = lay_out(TERN_BOOL, shape, dynamic_dim, slot, false);
  ops::ref::Tensor valid;
  valid.desc = cut(at(arg).desc, case_.counts);
  valid.integer = elements;
  fill(at(arg), valid);
}

// A scheme of planes: groups of any size that devices have, scales of any dtype; the same for every seed, as a plan
// serves cases of several.
tern_scheme CaseBuilder::scheme(tern_packing packing, std::int64_t columns) const {
  Random random(
      mix_key(static_cast<std::uint64_t>(variant_.size), static_cast<std::uint64_t>(10 * packing + variant_.in)));
  constexpr tern_dtype kScales[] = {TERN_F32, TERN_F16, TERN_BF16};
  const auto group = static_cast<std::int32_t>(random.below(2) == 0 ? 32 : columns);
  const tern_dtype scale = kScales[random.below(3)];
  switch (packing) {
    case TERN_PACK_F8_BLOCK: {
      const bool blocks = random.below(2) == 0;
      return {packing, 8, blocks ? 128 : 1, blocks ? 128 : static_cast<std::int32_t>(columns), scale, 0};
    }
    case TERN_PACK_NF4:
    case TERN_PACK_FP4: {
      const bool twice = random.below(2) == 0;
      return {packing, 4, 1, 64, twice ? TERN_U8 : TERN_F32, twice ? TERN_SCHEME_DOUBLE_QUANT : 0};
    }
    case TERN_PACK_GPTQ_INT4: {
      const int less = random.below(2) == 0 ? TERN_SCHEME_ZERO_LESS_ONE : 0;
      const int in_order = random.below(2) == 0 ? TERN_SCHEME_IN_ORDER : 0;
      constexpr int kBits[] = {2, 3, 4, 8};
      return {packing, kBits[random.below(4)], 1, group, scale, in_order | less};
    }
    default:
      return {packing, packing == TERN_PACK_ROW_INT8 ? 8 : 4, 1, group, scale, 0};
  }
}

// Random codes and zero points, and scales that are small normal numbers.
void CaseBuilder::planes(int arg, tern_packing packing, std::int64_t rows, std::int64_t columns) {
  const TensorDesc desc = make_quantised_desc(TERN_F32, scheme(packing, columns), rows, columns);
  at(arg).desc = desc;
  const PlaneBytes sizes = plane_bytes(desc);
  for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
    Bytes& bytes = at(arg).planes[p];
    bytes.resize(static_cast<std::size_t>(sizes.bytes[p]));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.bits());
  }
  for (std::byte& byte : at(arg).planes[0]) {
    const bool nan = packing == TERN_PACK_F8_BLOCK && (byte & std::byte{0x7f}) == std::byte{0x7f};
    if (nan) byte = std::byte{0};
  }
  const auto fill_scales = [&](std::size_t plane, tern_dtype dtype) {
    Bytes& bytes = at(arg).planes[plane];
    ops::ref::Tensor scales;
    scales.desc = make_desc(dtype, {static_cast<std::int64_t>(bytes.size()) / dtype_bytes(dtype)});
    for (std::int64_t i = 0; i < scales.desc.shape[0]; ++i) scales.real.push_back(random_.term() / 64.0);
    ops::ref::encode(scales, scales.desc, bytes);
  };
  if (desc.scheme.scale_dtype != TERN_U8) fill_scales(1, desc.scheme.scale_dtype);
  if (is_levels4(packing)) fill_scales(2, TERN_F32);
  if (at(arg).planes[3].empty()) return;
  std::vector<std::int32_t> order(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < order.size(); ++i) {  // each shuffle of those before
    const auto j = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i) + 1));
    order[i] = order[j];
    order[j] = static_cast<std::int32_t>(i);
  }
  std::memcpy(at(arg).planes[3].data(), order.data(), order.size() * sizeof(std::int32_t));
}

void CaseBuilder::quantised(int arg, tern_packing packing, std::int64_t rows, std::int64_t columns) {
  if (packing_block(packing).elements == 0) return planes(arg, packing, rows, columns);
  at(arg).desc = make_quantised_desc(TERN_F32, gguf_scheme(packing), rows, columns);
  Bytes& data = at(arg).planes[0];
  data.resize(static_cast<std::size_t>(plane_bytes(at(arg).desc).bytes[0]));
  for (std::byte& byte : data) byte = static_cast<std::byte>(random_.bits());
  // The scales of a block are fp16: small normal numbers in place of random bits. MXFP4's is a power of two.
  const auto block = static_cast<std::size_t>(packing_block(packing).bytes);
  for (std::size_t from = 0; from < data.size(); from += block) {
    for (const int half : ops::ref::block_halves(packing)) {
      const std::uint16_t bits = float_to_fp16(static_cast<float>(random_.term() / 16.0));
      data[from + static_cast<std::size_t>(half)] = static_cast<std::byte>(bits & 0xff);
      data[from + static_cast<std::size_t>(half) + 1] = static_cast<std::byte>(bits >> 8);
    }
    if (packing == TERN_PACK_GGUF_MXFP4) data[from] = static_cast<std::byte>(124 + random_.below(6));
  }
}

void CaseBuilder::out(int arg, tern_dtype dtype, const Shape& shape, int dynamic_dim, int slot) {
  const ops::ArgSpec& spec = case_.spec().args[static_cast<std::size_t>(arg)];
  const bool may = (spec.flags & ops::kAccumulate) != 0;
  const bool is_first = may && num_accumulating_++ == 0;
  const bool chosen = variant_.which == Accumulate::all || is_first == (variant_.which == Accumulate::first);
  if (variant_.accumulate && may && chosen) {
    case_.accumulate |= 1U << arg;
    if (dtype_info(dtype).floating) {
      real(arg, dtype, shape, dynamic_dim, slot);
    } else {
      integers(arg, dtype, shape, {random_.below(2)}, dynamic_dim, slot);  // all_finite's
    }
    return;
  }
  at(arg).desc = lay_out(dtype, shape, dynamic_dim, slot, !dtype_info(dtype).floating);
  at(arg).planes[0] = blank(at(arg).desc);
  if (variant_.dynamic && dynamic_dim >= 0 && dtype_info(dtype).floating) {
    // what stays untouched beyond the count is as in inputs; the valid part is poisoned
    ops::ref::Tensor poison;
    poison.desc = cut(at(arg).desc, case_.counts);
    poison.real.assign(static_cast<std::size_t>(num_elements(poison.desc)), std::numeric_limits<double>::quiet_NaN());
    fill(at(arg), poison);
  }
}

void CaseBuilder::make_unreadable(int arg, std::int64_t entry) {
  const TensorDesc& desc = at(arg).desc;
  Bytes& bytes = at(arg).planes[0];
  const auto size = static_cast<std::size_t>(desc.strides[0] * dtype_bytes(desc.dtype));
  const std::size_t begin = std::min(static_cast<std::size_t>(entry) * size, bytes.size());
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), std::min(size, bytes.size() - begin),
              std::byte{0xff});
}

void CaseBuilder::share(int out, int in) {
  case_.alias[static_cast<std::size_t>(out)] = static_cast<std::int8_t>(in);
  at(out).desc = at(in).desc;
  at(out).planes = at(in).planes;
}

void CaseBuilder::broadcast(int arg, int dim, std::int64_t size) {
  at(arg).desc.shape[dim] = size;
  at(arg).desc.strides[dim] = 0;
}

Case CaseBuilder::take() { return std::move(case_); }

}  // namespace tern::conformance
