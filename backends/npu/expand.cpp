#include "backends/npu/expand.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tern::npu {
namespace {

constexpr std::int64_t kPanelElements = std::int64_t{1} << 22;

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

}  // namespace

void extract_bits(Composer& c, const View& bytes, int shift, int count, const View& out) {
  const View whole = c.temp(ACL_FLOAT, bytes.shape);
  c.copy(whole, bytes);
  if (shift > 0) {
    c.muls(whole, std::ldexp(1.0, -shift), whole);
    c.call(TERN_NPU_OP(Floor), whole, whole);
  }
  if (shift + count >= 8) {
    c.copy(out, whole);
    return;
  }
  const View above = c.temp(ACL_FLOAT, bytes.shape);
  c.muls(whole, std::ldexp(1.0, -count), above);
  c.call(TERN_NPU_OP(Floor), above, above);
  c.add(whole, above, out, -std::ldexp(1.0, count));
}

void look_up(Composer& c, const View& codes, const char* key, const std::vector<float>& table, const View& out) {
  const View values =
      c.constant({key, [table] { return bytes_of(table); }}, ACL_FLOAT, {static_cast<std::int64_t>(table.size()), 1});
  const View places = c.temp(ACL_INT32, {codes.elements()});
  c.copy(places.reshaped(codes.shape), codes);
  const View found = c.temp(ACL_FLOAT, {codes.elements(), 1});
  c.call(TERN_NPU_OP(GatherV2), values, std::int64_t{0}, places, found);
  c.copy(out, found.reshaped(codes.shape));
}

View expand_rows(Composer& c, int arg, std::int64_t from, std::int64_t count) {
  const tern_tensor_desc& desc = c.desc(arg);
  if (desc.layout != 0) c.refuse("this device has no private layouts");
  if (desc.scheme.packing == TERN_PACK_NONE) return c.f32(c.arg(arg).slice(0, from, count));
  return is_block(desc.scheme.packing) ? expand_blocks(c, arg, from, count) : expand_planes(c, arg, from, count);
}

std::int64_t panel_rows(const Composer& c, int arg) {
  const tern_tensor_desc& desc = c.desc(arg);
  const std::int64_t rows = desc.shape[0];
  const std::int64_t columns = std::max<std::int64_t>(1, desc.shape[1]);
  const tern_packing packing = desc.scheme.packing;
  const bool by_row = packing == TERN_PACK_NONE || is_block(packing) || packing == TERN_PACK_ROW_INT8;
  if (!by_row) return std::max<std::int64_t>(1, rows);
  return std::clamp<std::int64_t>(kPanelElements / columns, 1, std::max<std::int64_t>(1, rows));
}

}  // namespace tern::npu
