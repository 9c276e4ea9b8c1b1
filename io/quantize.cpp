#include "io/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/strings.h"
#include "io/block_formats.h"

namespace tern::io {
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

// x ~ scale * q - minimum, q in [0, 15], scale and minimum >= 0.
struct Affine {
  float scale = 0;
  float minimum = 0;
  double error = 0;
};

int affine_code(float x, float minimum, float inverse_scale) {
  return clamp_code(std::nearbyint((x + minimum) * inverse_scale), 0, 15);
}

double affine_error(const float* x, float scale, float minimum) {
  const float is = inverse(scale);
  double error = 0;
  for (int i = 0; i < 32; ++i) {
    const double gap = static_cast<double>(scale * static_cast<float>(affine_code(x[i], minimum, is)) - minimum) -
                       static_cast<double>(x[i]);
    error += gap * gap;
  }
  return error;
}

// The least-squares line through the codes that a candidate gives; minimum held at 0 where it would turn negative.
Affine refit(const float* x, float scale, float minimum) {
  const float is = inverse(scale);
  double sum_q = 0;
  double sum_qq = 0;
  double sum_x = 0;
  double sum_qx = 0;
  for (int i = 0; i < 32; ++i) {
    const double q = affine_code(x[i], minimum, is);
    sum_q += q;
    sum_qq += q * q;
    sum_x += static_cast<double>(x[i]);
    sum_qx += q * static_cast<double>(x[i]);
  }
  const double determinant = 32 * sum_qq - sum_q * sum_q;
  Affine fit{scale, minimum, 0};
  if (determinant > 0) {
    const double slope = (32 * sum_qx - sum_q * sum_x) / determinant;
    const double offset = (sum_qq * sum_x - sum_q * sum_qx) / determinant;
    fit.scale = static_cast<float>(slope);
    fit.minimum = static_cast<float>(-offset);
    if (fit.minimum < 0) {
      fit.minimum = 0;
      fit.scale = sum_qq > 0 ? static_cast<float>(sum_qx / sum_qq) : 0;
    }
  }
  if (!(fit.scale > 0)) fit = {scale, minimum, 0};
  fit.error = affine_error(x, fit.scale, fit.minimum);
  return fit;
}

Affine fit_affine(const float* x) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float minimum = std::max(0.0F, -*least);
  const float range = *most + minimum;
  if (!(range > 0)) return {0, minimum, 0};
  Affine best{range / 15.0F, minimum, affine_error(x, range / 15.0F, minimum)};
  for (int step = -10; step <= 24; ++step) {
    const float scale = range / (15.0F + 0.1F * static_cast<float>(step));
    Affine fit = refit(x, scale, minimum);
    for (int round = 0; round < 2; ++round) {
      if (fit.error < best.error) best = fit;
      fit = refit(x, fit.scale, fit.minimum);
    }
    if (fit.error < best.error) best = fit;
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
      out[16 + group / 2 * 32 + i] |= static_cast<Byte>(affine_code(part[i], offset, is) << (4 * (group % 2)));
    }
  }
  pack_scale_min(scales, minima, out + 4);
}

// x ~ scale * q, q in [-32, 31].
int symmetric_code(float x, float inverse_scale) { return clamp_code(std::nearbyint(x * inverse_scale), -32, 31); }

double symmetric_error(const float* x, float scale) {
  const float is = inverse(scale);
  double error = 0;
  for (int i = 0; i < 16; ++i) {
    const double gap =
        static_cast<double>(scale * static_cast<float>(symmetric_code(x[i], is))) - static_cast<double>(x[i]);
    error += gap * gap;
  }
  return error;
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
      double sum_qx = 0;
      double sum_qq = 0;
      for (int i = 0; i < 16; ++i) {
        const double q = symmetric_code(x[i], is);
        sum_qx += q * static_cast<double>(x[i]);
        sum_qq += q * q;
      }
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
      const int q = symmetric_code(part[i], is) + 32;
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
    return usage_error(cat("type ", info.name), "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K or Q6_K",
                       "one that tern does not write");
  }
  const auto elements = static_cast<std::size_t>(info.block_elements);
  const auto size = static_cast<std::size_t>(info.block_bytes);
  if (values.size() % elements != 0 || bytes.size() != values.size() / elements * size) {
    return failed_error(cat("quantize ", info.name), "whole blocks and room for them",
                        cat(values.size(), " values and ", bytes.size(), " bytes"));
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

}  // namespace tern::io
