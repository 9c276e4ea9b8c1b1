// GGUF's blocks: each is a few bytes of which views give the scales, the codes and their further bits.
#include <array>
#include <cmath>

#include "backends/npu/expand.h"

namespace tern::npu {
namespace {

struct Format {
  tern_packing packing;
  std::int64_t elements;
  std::int64_t bytes;
};
constexpr Format kFormats[] = {
    {TERN_PACK_GGUF_Q4_0, 32, 18},   {TERN_PACK_GGUF_Q4_1, 32, 20},   {TERN_PACK_GGUF_Q5_0, 32, 22},
    {TERN_PACK_GGUF_Q5_1, 32, 24},   {TERN_PACK_GGUF_Q8_0, 32, 34},   {TERN_PACK_GGUF_Q2_K, 256, 84},
    {TERN_PACK_GGUF_Q3_K, 256, 110}, {TERN_PACK_GGUF_Q4_K, 256, 144}, {TERN_PACK_GGUF_Q5_K, 256, 176},
    {TERN_PACK_GGUF_Q6_K, 256, 210}, {TERN_PACK_GGUF_IQ4_NL, 32, 18}, {TERN_PACK_GGUF_IQ4_XS, 256, 136},
    {TERN_PACK_GGUF_MXFP4, 32, 17},
};
const std::vector<float> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const std::vector<float> kE2m1 = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

// The blocks of some rows, and what is made of them.
class Blocks {
 public:
  Blocks(Composer& composer, const View& bytes, std::int64_t elements)
      : c_(composer), bytes_(bytes), count_(bytes.dim(0)), codes_(composer.temp(ACL_FLOAT, {count_, elements})) {}

  // Bytes [from, from + length) of each block.
  [[nodiscard]] View bytes(std::int64_t from, std::int64_t length) const { return bytes_.slice(1, from, length); }
  // The f16 at a byte of each block, as [blocks, 1] fp32.
  [[nodiscard]] View half(std::int64_t at) const {
    View view = bytes_.slice(1, at, 1);
    view.dtype = ACL_FLOAT16;
    view.strides[0] = bytes_.strides[0] / 2;
    view.strides[1] = 1;
    return c_.f32(view);
  }
  // Signed bytes as fp32.
  [[nodiscard]] View signed_bytes(std::int64_t from, std::int64_t length) const {
    return c_.f32(bytes(from, length).as(ACL_INT8));
  }
  [[nodiscard]] View codes(std::int64_t from, std::int64_t length) const { return codes_.slice(1, from, length); }
  [[nodiscard]] View codes() const { return codes_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] View temp(std::int64_t width) const { return c_.temp(ACL_FLOAT, {count_, width}); }

  // codes [to, to + length) = bits of the bytes from `from` on
  void take(std::int64_t to, std::int64_t from, std::int64_t length, int shift, int bits) {
    const std::int64_t mark = c_.mark();
    extract_bits(c_, bytes(from, length), shift, bits, codes(to, length));
    c_.rewind(mark);
  }
  // codes [to, ...) += factor times bits
  void add(std::int64_t to, std::int64_t from, std::int64_t length, int shift, int bits, double factor) {
    const std::int64_t mark = c_.mark();
    const View further = temp(length);
    extract_bits(c_, bytes(from, length), shift, bits, further);
    c_.add(codes(to, length), further, codes(to, length), factor);
    c_.rewind(mark);
  }
  // Of 32 elements: the low nibbles are the first 16.
  void nibbles(std::int64_t to, std::int64_t from) {
    take(to, from, 16, 0, 4);
    take(to + 16, from, 16, 4, 4);
  }
  // Bit j of four bytes is a fifth bit of element j.
  void fifth_bits(std::int64_t from) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::int64_t mark = c_.mark();
      const View further = temp(4);
      extract_bits(c_, bytes(from, 4), bit, 1, further);
      const View to = codes_.slice(1, bit, 4, 8);
      c_.add(to, further, to, 16.0);
      c_.rewind(mark);
    }
  }
  void levels(const char* key, const std::vector<float>& table) { look_up(c_, codes_, key, table, codes_); }

 private:
  Composer& c_;
  View bytes_;
  std::int64_t count_;
  View codes_;
};

// codes *= scales, a scale for each of `groups` neighbours' groups, then *= d: one rounding.
void apply_scales(Composer& c, Blocks& b, const View& scales, const View& d) {
  const std::int64_t groups = scales.dim(1);
  const View grouped = b.codes().reshaped({b.count(), groups, b.codes().dim(1) / groups});
  c.mul(grouped, scales.unsqueezed(2), grouped);
  c.mul(b.codes(), d, b.codes());
}

// codes -= minimums of groups
void subtract(Composer& c, Blocks& b, const View& minimums) {
  const std::int64_t groups = minimums.dim(1);
  const View grouped = b.codes().reshaped({b.count(), groups, b.codes().dim(1) / groups});
  c.add(grouped, minimums.unsqueezed(2), grouped, -1.0);
}

void small(Composer& c, Blocks& b, tern_packing packing) {
  switch (packing) {
    case TERN_PACK_GGUF_Q4_0:
      b.nibbles(0, 2);
      c.adds(b.codes(), -8.0, b.codes());
      break;
    case TERN_PACK_GGUF_Q4_1:
      b.nibbles(0, 4);
      break;
    case TERN_PACK_GGUF_Q5_0:
      b.nibbles(0, 6);
      b.fifth_bits(2);
      c.adds(b.codes(), -16.0, b.codes());
      break;
    case TERN_PACK_GGUF_Q5_1:
      b.nibbles(0, 8);
      b.fifth_bits(4);
      break;
    case TERN_PACK_GGUF_Q8_0:
      c.copy(b.codes(), b.signed_bytes(2, 32));
      break;
    case TERN_PACK_GGUF_IQ4_NL:
      b.nibbles(0, 2);
      b.levels("iq4", kIq4);
      break;
    default:
      break;
  }
  c.mul(b.codes(), b.half(0), b.codes());
  if (packing == TERN_PACK_GGUF_Q4_1 || packing == TERN_PACK_GGUF_Q5_1) c.add(b.codes(), b.half(2), b.codes());
}

// A power of two beside E2M1 numbers.
void mxfp4(Composer& c, Blocks& b) {
  std::vector<float> powers;
  for (int e = 0; e < 256; ++e) powers.push_back(static_cast<float>(std::ldexp(1.0, e - 127)));
  b.nibbles(0, 1);
  b.levels("e2m1", kE2m1);
  const View power = b.temp(1);
  look_up(c, c.f32(b.bytes(0, 1)), "e8m0", powers, power);
  c.mul(b.codes(), power, b.codes());
}

void q2_k(Composer& c, Blocks& b) {
  for (std::int64_t part = 0; part < 8; ++part) {
    b.take(part * 32, 16 + part / 4 * 32, 32, static_cast<int>(part % 4 * 2), 2);
  }
  const View scales = b.temp(16);
  const View minimums = b.temp(16);
  extract_bits(c, b.bytes(0, 16), 0, 4, scales);
  extract_bits(c, b.bytes(0, 16), 4, 4, minimums);
  apply_scales(c, b, scales, b.half(80));
  c.mul(minimums, b.half(82), minimums);
  subtract(c, b, minimums);
}

void q3_k(Composer& c, Blocks& b) {
  for (std::int64_t part = 0; part < 8; ++part) {
    b.take(part * 32, 32 + part / 4 * 32, 32, static_cast<int>(part % 4 * 2), 2);
    b.add(part * 32, 0, 32, static_cast<int>(part), 1, 4.0);
  }
  c.adds(b.codes(), -4.0, b.codes());
  const View scales = b.temp(16);
  const View high = b.temp(4);
  for (int i = 0; i < 2; ++i) extract_bits(c, b.bytes(96, 8), i * 4, 4, scales.slice(1, i * 8, 8));
  for (int i = 0; i < 4; ++i) {
    extract_bits(c, b.bytes(104, 4), i * 2, 2, high);
    const View to = scales.slice(1, i * 4, 4);
    c.add(to, high, to, 16.0);
  }
  c.adds(scales, -32.0, scales);
  apply_scales(c, b, scales, b.half(108));
}

// Six bits of 8 pairs in 12 bytes: the scales for `of` 0, the minimums for 4.
View six_bits(Composer& c, Blocks& b, std::int64_t from, std::int64_t of) {
  const View out = b.temp(8);
  const View high = b.temp(4);
  extract_bits(c, b.bytes(from + of, 4), 0, 6, out.slice(1, 0, 4));
  extract_bits(c, b.bytes(from + 8, 4), static_cast<int>(of), 4, out.slice(1, 4, 4));
  extract_bits(c, b.bytes(from + of, 4), 6, 2, high);
  c.add(out.slice(1, 4, 4), high, out.slice(1, 4, 4), 16.0);
  return out;
}

void q45_k(Composer& c, Blocks& b, bool fifth) {
  for (std::int64_t group = 0; group < 8; ++group) {
    b.take(group * 32, (fifth ? 48 : 16) + group / 2 * 32, 32, static_cast<int>(group % 2 * 4), 4);
    if (fifth) b.add(group * 32, 16, 32, static_cast<int>(group), 1, 16.0);
  }
  apply_scales(c, b, six_bits(c, b, 4, 0), b.half(0));
  const View minimums = six_bits(c, b, 4, 4);
  c.mul(minimums, b.half(2), minimums);
  subtract(c, b, minimums);
}

void q6_k(Composer& c, Blocks& b) {
  for (std::int64_t part = 0; part < 8; ++part) {
    const std::int64_t half = part / 4;
    const std::int64_t quarter = part % 4;
    b.take(part * 32, half * 64 + quarter % 2 * 32, 32, static_cast<int>(quarter / 2 * 4), 4);
    b.add(part * 32, 128 + half * 32, 32, static_cast<int>(quarter * 2), 2, 16.0);
  }
  c.adds(b.codes(), -32.0, b.codes());
  apply_scales(c, b, b.signed_bytes(192, 16), b.half(208));
}

void iq4_xs(Composer& c, Blocks& b) {
  for (std::int64_t group = 0; group < 8; ++group) b.nibbles(group * 32, 8 + group * 16);
  b.levels("iq4", kIq4);
  const View scales = b.temp(8);
  const View high = b.temp(2);
  for (int i = 0; i < 2; ++i) extract_bits(c, b.bytes(4, 4), i * 4, 4, scales.slice(1, i, 4, 2));
  for (int i = 0; i < 4; ++i) {
    extract_bits(c, b.bytes(2, 2), i * 2, 2, high);
    const View to = scales.slice(1, i, 2, 4);
    c.add(to, high, to, 16.0);
  }
  c.adds(scales, -32.0, scales);
  apply_scales(c, b, scales, b.half(0));
}

}  // namespace

bool is_block(tern_packing packing) {
  for (const Format& format : kFormats) {
    if (format.packing == packing) return true;
  }
  return false;
}

View expand_blocks(Composer& c, int arg, std::int64_t from, std::int64_t count) {
  const tern_tensor_desc& desc = c.desc(arg);
  const tern_packing packing = desc.scheme.packing;
  const Format* format = kFormats;
  while (format->packing != packing) ++format;
  const std::int64_t each = desc.shape[1] / format->elements;  // of a row
  if (each * format->elements != desc.shape[1]) c.refuse("its rows are no whole blocks");
  const View all = c.plane(arg, 0, ACL_UINT8, {desc.shape[0] * each, format->bytes});
  Blocks b(c, all.slice(0, from * each, count * each), format->elements);
  switch (packing) {
    case TERN_PACK_GGUF_Q2_K:
      q2_k(c, b);
      break;
    case TERN_PACK_GGUF_Q3_K:
      q3_k(c, b);
      break;
    case TERN_PACK_GGUF_Q4_K:
      q45_k(c, b, false);
      break;
    case TERN_PACK_GGUF_Q5_K:
      q45_k(c, b, true);
      break;
    case TERN_PACK_GGUF_Q6_K:
      q6_k(c, b);
      break;
    case TERN_PACK_GGUF_IQ4_XS:
      iq4_xs(c, b);
      break;
    case TERN_PACK_GGUF_MXFP4:
      mxfp4(c, b);
      break;
    default:
      small(c, b, packing);
      break;
  }
  return b.codes().reshaped({count, desc.shape[1]});
}

}  // namespace tern::npu
