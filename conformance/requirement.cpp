#include "conformance/requirement.h"

#include <algorithm>
#include <cstring>

#include "base/dtype.h"

namespace tern::conformance {
namespace {

bool is_usual(const accel::Device& device, std::int32_t dtype) {
  return dtype == TERN_F32 || (dtype == TERN_BF16 && (device.info().storage_dtypes >> TERN_BF16 & 1U) != 0);
}

// What the products of the call are rounded to; f32 where it has no such attribute.
std::int32_t compute_of(const Case& c) {
  const auto attrs = c.spec().attrs;
  const auto at = std::find_if(attrs.begin(), attrs.end(), [](const auto& attr) { return attr.name == "compute"; });
  std::int32_t dtype = TERN_F32;
  if (at != attrs.end()) std::memcpy(&dtype, c.attrs.data() + 4 * (at - attrs.begin()), sizeof(dtype));
  return dtype;
}

// Few models cap their scores, cut their keys into chunks or see only some keys ahead, most have heads of whole
// sixteens, and none has values wider than its keys: a device may have no kernel for such, and binding says so when a
// model comes with one. No model has shown keys by a mask so far.
bool is_rare_attention(const Case& c, std::size_t q, std::size_t mask) {
  tern_attention_attrs attrs{};  // of all three ops
  std::memcpy(&attrs, c.attrs.data(), std::min(c.attrs.size(), sizeof(attrs)));
  const TensorDesc& queries = c.args[q].desc;
  const TensorDesc& values = c.args[q + 2].desc;
  const std::int64_t width = queries.shape[2];
  // Keys are narrower than queries in a cache alone.
  if (c.op == TERN_OP_ATTENTION && c.args[q + 1].desc.dtype != queries.dtype) return true;
  return attrs.softcap != 0.0F || attrs.chunk != 0 || attrs.window_right != 0 || is_present(c.args[mask].desc) ||
         width % 16 != 0 || values.shape[values.rank - 1] > width;
}

// A model hands a ready mask to a device that draws no random bits. No model has kept a latent cache so far.
bool is_never_asked(const accel::Device& device, const Case& c) {
  if (c.op == TERN_OP_ATTENTION) return is_rare_attention(c, TERN_ATTENTION_Q, TERN_ATTENTION_MASK);
  if (c.op == TERN_OP_ATTENTION_BACKWARD) {
    return is_rare_attention(c, TERN_ATTENTION_BACKWARD_Q, TERN_ATTENTION_BACKWARD_MASK);
  }
  if (c.op == TERN_OP_ATTENTION_PAGED) return is_rare_attention(c, TERN_ATTENTION_PAGED_Q, TERN_ATTENTION_PAGED_MASK);
  if (c.op == TERN_OP_KV_WRITE) return !is_present(c.args[TERN_KV_WRITE_V].desc);
  return c.op == TERN_OP_DROPOUT && !device.can(TERN_CAP_PHILOX) && !is_present(c.args[TERN_DROPOUT_MASK].desc);
}

}  // namespace

bool is_required_case(const accel::Device& device, const Variant& variant, const Case& c) {
  if (variant.needs != 0 || variant.layout != Layout::contiguous || variant.special != 0 || variant.alias) return false;
  if (variant.codes != TERN_F32) return false;  // a device without says so, and a cache has floats
  if (!is_usual(device, compute_of(c)) || is_never_asked(device, c)) return false;
  return std::all_of(c.args.begin(), c.args.end(), [&](const Argument& arg) {
    if (!is_present(arg.desc)) return true;
    const bool usual = !dtype_info(arg.desc.dtype).floating || is_usual(device, arg.desc.dtype);
    // Loading expands a weight of a packing that the device does not multiply by.
    return usual && !is_quantised(arg.desc) && !arg.packed && num_elements(arg.desc) > 0;
  });
}

}  // namespace tern::conformance
