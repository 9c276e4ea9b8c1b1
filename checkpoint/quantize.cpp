#include "checkpoint/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/half.h"
#include "base/strings.h"
#include "checkpoint/block_formats.h"

namespace tern::checkpoint {
namespace {

using blocks::Byte;

void put_u16(Byte* at, std::uint16_t bits) { std::memcpy(at, &bits, sizeof(bits)); }

// The fp16 that a block stores; a scale beyond its range would turn the block into infinities.
float put_half(Byte* at, float value) {
  const std::uint16_t bits = float_to_fp16(value);
  const float stored = fp16_to_float(bits);
  if (!std::isfinite(stored))
    throw Failure(data_error("a block's scale", "at most 65504", cat(static_cast<double>(value)), "use BF16"));
  put_u16(at, bits);
  return stored;
}

float inverse(float d) { return d == 0 ? 0.0F : 1.0F / d; }

void to_f32_block(const float* x, Byte* out) { std::memcpy(out, x, sizeof(float)); }
void to_f16_block(const float* x, Byte* out) {
  if (std::isfinite(*x)) {
    put_half(out, *x);
  } else {
    put_u16(out, float_to_fp16(*x));
  }
}
void to_bf16_block(const float* x, Byte* out) { put_u16(out, float_to_bf16(*x)); }

// Truncated into [least, most]; what is no number (0 times an infinite inverse) becomes 0.
int clamp_code(float value, int least, int most) {
  if (!(value > static_cast<float>(least))) return value == value ? least : 0;
  return value < static_cast<float>(most) ? static_cast<int>(value) : most;
}

void to_q8_0(const float* x, Byte* out) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float d = largest / 127.0F;
  const float id = inverse(d);
  put_half(out, d);
  for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<Byte>(clamp_code(std::round(x[i] * id), -127, 127));
}

void to_q4_0(const float* x, Byte* out) {
  float extreme = x[0];
  for (int i = 1; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  const float d = extreme / -8.0F;
  const float id = inverse(d);
  put_half(out, d);
  for (int i = 0; i < 16; ++i) {
    const int low = clamp_code(x[i] * id + 8.5F, 0, 15);
    const int high = clamp_code(x[i + 16] * id + 8.5F, 0, 15);
    out[2 + i] = static_cast<Byte>(low | (high << 4));
  }
}

void to_q4_1(const float* x, Byte* out) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float minimum = *least;
  const float d = (*most - minimum) / 15.0F;
  const float id = inverse(d);
  put_half(out, d);
  put_half(out + 2, minimum);
  for (int i = 0; i < 16; ++i) {
    const int low = clamp_code((x[i] - minimum) * id + 0.5F, 0, 15);
    const int high = clamp_code((x[i + 16] - minimum) * id + 0.5F, 0, 15);
    out[4 + i] = static_cast<Byte>(low | (high << 4));
  }
}

// Four lanes, as every CPU that tern runs on has: the searches below spend all their time in these.
using Lanes = float __attribute__((vector_size(16)));

Lanes spread(float value) { return Lanes{value, value, value, value}; }
Lanes load(const float* from) {
  Lanes out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}
double sum(Lanes v) {
  return static_cast<double>(v[0]) + static_cast<double>(v[1]) + static_cast<double>(v[2]) + static_cast<double>(v[3]);
}

// Nearest integers in [least, most], ties to even; what is no number becomes `least`. Adding 1.5 * 2^23 rounds.
Lanes round_codes(Lanes value, float least, float most) {
  const Lanes low = spread(least);
  const Lanes high = spread(most);
  value = value > low ? value : low;
  value = value < high ? value : high;
  const Lanes magic = spread(0x1.8p23F);
  return (value + magic) - magic;
}

// x ~ scale * q - minimum, q in [0, 15], scale and minimum >= 0.
struct Affine {
  float scale = 0;
  float minimum = 0;
  double error = 0;
};

Lanes affine_codes(Lanes x, float minimum, float inverse_scale) {
  return round_codes((x + spread(minimum)) * spread(inverse_scale), 0.0F, 15.0F);
}

double affine_error(const float* x, float scale, float minimum) {
  const float is = inverse(scale);
  Lanes error = spread(0);
  for (int i = 0; i < 32; i += 4) {
    const Lanes part = load(x + i);
    const Lanes gap = spread(scale) * affine_codes(part, minimum, is) - spread(minimum) - part;
    error += gap * gap;
  }
  return sum(error);
}

struct Moments {
  double x = 0;
  double xx = 0;
};

// The least-squares line through the codes that a candidate gives, and its error with those codes; the minimum is held
// at 0 where it would turn negative.
Affine refit(const float* x, const Moments& of_x, float scale, float minimum) {
  const float is = inverse(scale);
  Lanes sums = spread(0);
  Lanes squares = spread(0);
  Lanes products = spread(0);
  for (int i = 0; i < 32; i += 4) {
    const Lanes part = load(x + i);
    const Lanes q = affine_codes(part, minimum, is);
    sums += q;
    squares += q * q;
    products += q * part;
  }
  const double sum_q = sum(sums);
  const double sum_qq = sum(squares);
  const double sum_qx = sum(products);
  const double determinant = 32 * sum_qq - sum_q * sum_q;
  double slope = static_cast<double>(scale);
  double offset = static_cast<double>(minimum);
  if (determinant > 0) {
    slope = (32 * sum_qx - sum_q * of_x.x) / determinant;
    offset = -(sum_qq * of_x.x - sum_q * sum_qx) / determinant;
    if (offset < 0) {
      offset = 0;
      slope = sum_qx / sum_qq;
    }
  }
  if (!(slope > 0)) {
    slope = static_cast<double>(scale);
    offset = static_cast<double>(minimum);
  }
  const double error = slope * slope * sum_qq + 32 * offset * offset + of_x.xx - 2 * slope * offset * sum_q -
                       2 * slope * sum_qx + 2 * offset * of_x.x;
  return {static_cast<float>(slope), static_cast<float>(offset), error};
}

Affine fit_affine(const float* x) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float minimum = std::max(0.0F, -*least);
  const float range = *most + minimum;
  if (!(range > 0)) return {0, minimum, 0};
  Moments of_x;
  for (int i = 0; i < 32; ++i) {
    of_x.x += static_cast<double>(x[i]);
    of_x.xx += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  Affine best{range / 15.0F, minimum, affine_error(x, range / 15.0F, minimum)};
  for (int step = -10; step <= 24; ++step) {
    const Affine once = refit(x, of_x, range / (15.0F + 0.1F * static_cast<float>(step)), minimum);
    if (once.error < best.error) best = once;
    const Affine twice = refit(x, of_x, once.scale, once.minimum);
    if (twice.error < best.error) best = twice;
  }
  return best;
}

// Inverse of blocks::unpack_scale_min.
void pack_scale_min(const int* scale, const int* minimum, Byte* out) {
  for (int i = 0; i < 4; ++i) {
    out[i] = static_cast<Byte>(scale[i] | ((scale[4 + i] >> 4) << 6));
    out[4 + i] = static_cast<Byte>(minimum[i] | ((minimum[4 + i] >> 4) << 6));
    out[8 + i] = static_cast<Byte>((scale[4 + i] & 15) | ((minimum[4 + i] & 15) << 4));
  }
}

void to_q4_k(const float* x, Byte* out) {
  Affine fits[8];
  float largest_scale = 0;
  float largest_minimum = 0;
  for (int group = 0; group < 8; ++group) {
    fits[group] = fit_affine(x + group * 32);
    largest_scale = std::max(largest_scale, fits[group].scale);
    largest_minimum = std::max(largest_minimum, fits[group].minimum);
  }
  const float d = put_half(out, largest_scale / 63.0F);
  const float dmin = put_half(out + 2, largest_minimum / 63.0F);
  int scales[8] = {};
  int minima[8] = {};
  std::memset(out + 16, 0, 128);
  for (int group = 0; group < 8; ++group) {
    const float* part = x + group * 32;
    const int scale = clamp_code(std::nearbyint(fits[group].scale * inverse(d)), 0, 63);
    const int minimum = clamp_code(std::nearbyint(fits[group].minimum * inverse(dmin)), 0, 63);
    double best = INFINITY;
    for (int s = std::max(0, scale - 2); s <= std::min(63, scale + 2); ++s) {
      for (int m = std::max(0, minimum - 2); m <= std::min(63, minimum + 2); ++m) {
        const double error = affine_error(part, d * static_cast<float>(s), dmin * static_cast<float>(m));
        if (!(error < best)) continue;
        best = error;
        scales[group] = s;
        minima[group] = m;
      }
    }
    const float is = inverse(d * static_cast<float>(scales[group]));
    const float offset = dmin * static_cast<float>(minima[group]);
    for (int i = 0; i < 32; ++i) {
      const Lanes codes = affine_codes(load(part + i / 4 * 4), offset, is);
      out[16 + group / 2 * 32 + i] |= static_cast<Byte>(static_cast<int>(codes[i % 4]) << (4 * (group % 2)));
    }
  }
  pack_scale_min(scales, minima, out + 4);
}

// x ~ scale * q, q in [-32, 31].
Lanes symmetric_codes(Lanes x, float inverse_scale) {
  const Lanes value = x * spread(inverse_scale);
  return round_codes(value == value ? value : spread(0), -32.0F, 31.0F);
}

double symmetric_error(const float* x, float scale) {
  const float is = inverse(scale);
  Lanes error = spread(0);
  for (int i = 0; i < 16; i += 4) {
    const Lanes part = load(x + i);
    const Lanes gap = spread(scale) * symmetric_codes(part, is) - part;
    error += gap * gap;
  }
  return sum(error);
}

// The signed scale with the least squared error; the extreme value may take either end of the codes.
float fit_symmetric(const float* x) {
  float extreme = x[0];
  for (int i = 1; i < 16; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (extreme == 0) return 0;
  float best = extreme / -32.0F;
  double best_error = symmetric_error(x, best);
  for (int step = -12; step <= 12; ++step) {
    for (const float sign : {-1.0F, 1.0F}) {
      float scale = sign * extreme / (32.0F + 0.1F * static_cast<float>(step));
      const float is = inverse(scale);
      Lanes products = spread(0);
      Lanes squares = spread(0);
      for (int i = 0; i < 16; i += 4) {
        const Lanes part = load(x + i);
        const Lanes q = symmetric_codes(part, is);
        products += q * part;
        squares += q * q;
      }
      const double sum_qx = sum(products);
      const double sum_qq = sum(squares);
      if (sum_qq > 0) scale = static_cast<float>(sum_qx / sum_qq);
      const double error = symmetric_error(x, scale);
      if (error < best_error) best = scale, best_error = error;
    }
  }
  return best;
}

void to_q6_k(const float* x, Byte* out) {
  float scales[16];
  float extreme = 0;
  for (int group = 0; group < 16; ++group) {
    scales[group] = fit_symmetric(x + group * 16);
    if (std::fabs(scales[group]) > std::fabs(extreme)) extreme = scales[group];
  }
  const float d = put_half(out + 208, extreme / -128.0F);
  std::memset(out, 0, 192);
  for (int group = 0; group < 16; ++group) {
    const float* part = x + group * 16;
    const int code = clamp_code(std::nearbyint(scales[group] * inverse(d)), -128, 127);
    int chosen = 0;
    double best = INFINITY;
    for (int s = std::max(-128, code - 2); s <= std::min(127, code + 2); ++s) {
      const double error = symmetric_error(part, d * static_cast<float>(s));
      if (error < best) best = error, chosen = s;
    }
    out[192 + group] = static_cast<Byte>(static_cast<std::int8_t>(chosen));
    const float is = inverse(d * static_cast<float>(chosen));
    for (int i = 0; i < 16; ++i) {
      const int e = group * 16 + i;
      const int q = static_cast<int>(symmetric_codes(load(part + i / 4 * 4), is)[i % 4]) + 32;
      out[e / 128 * 64 + e % 64] |= static_cast<Byte>((q & 15) << (4 * (e % 128 / 64)));
      out[128 + e / 128 * 32 + e % 32] |= static_cast<Byte>((q >> 4) << (2 * (e % 128 / 32)));
    }
  }
}

using Pack = void (*)(const float* values, Byte* block);

Pack packer(GgmlType type) {
  switch (type) {
    case GgmlType::f32:
      return to_f32_block;
    case GgmlType::f16:
      return to_f16_block;
    case GgmlType::bf16:
      return to_bf16_block;
    case GgmlType::q8_0:
      return to_q8_0;
    case GgmlType::q4_0:
      return to_q4_0;
    case GgmlType::q4_1:
      return to_q4_1;
    case GgmlType::q4_k:
      return to_q4_k;
    case GgmlType::q6_k:
      return to_q6_k;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_quantize(GgmlType type) { return packer(type) != nullptr; }

Status quantize(GgmlType type, std::span<const float> values, std::span<std::byte> bytes) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  const Pack pack = packer(type);
  if (pack == nullptr) {
    return usage_error(cat("tern does not write the type ", info.name),
                       "choose F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K or Q6_K");
  }
  const auto elements = static_cast<std::size_t>(info.block_elements);
  const auto size = static_cast<std::size_t>(info.block_bytes);
  if (values.size() % elements != 0 || bytes.size() != values.size() / elements * size) {
    throw std::logic_error(cat("quantize ", info.name, ": ", values.size(), " values, ", bytes.size(), " bytes"));
  }
  if (elements > 1) {  // plain floats keep what they hold
    const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    if (bad != values.end()) {
      return data_error(cat("value ", bad - values.begin()), "finite numbers", cat(static_cast<double>(*bad)),
                        "use F32 or BF16");
    }
  }
  return catching([&] {
    auto* out = reinterpret_cast<Byte*>(bytes.data());
    for (std::size_t i = 0; i < values.size(); i += elements, out += size) pack(values.data() + i, out);
    return Unit{};
  });
}

}  // namespace tern::checkpoint
