// Private layouts of weights (personality ascend). An unquantised weight [rows, columns] lies in tiles of 16 rows x 32
// bytes, tile columns outermost, as Ascend's FRACTAL_NZ does; a quantised one as its planes, each back to front. The
// layout's number names the uses that it was packed for.
#include <algorithm>
#include <cstring>

#include "backends/sim/interface.h"
#include "backends/sim/kernel.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

constexpr std::int32_t kTiled = 0x10;
constexpr std::int32_t kReversed = 0x20;
constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileBytes = 32;
constexpr std::uint64_t kPlaneAlignment = 32;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

TensorDesc strided(const TensorDesc& packed) {
  TensorDesc desc = make_desc(packed.dtype, shape_of(packed));
  desc.scheme = packed.scheme;
  return desc;
}

struct Tiles {
  std::int64_t rows;     // padded
  std::int64_t columns;  // padded
  std::int64_t tile_columns;
  std::int64_t element;  // bytes
  explicit Tiles(const TensorDesc& desc)
      : rows(static_cast<std::int64_t>(round_up(static_cast<std::uint64_t>(desc.shape[0]), kTileRows))),
        columns(0),
        tile_columns(kTileBytes / dtype_bytes(desc.dtype)),
        element(dtype_bytes(desc.dtype)) {
    columns = static_cast<std::int64_t>(
        round_up(static_cast<std::uint64_t>(desc.shape[1]), static_cast<std::uint64_t>(tile_columns)));
  }
  [[nodiscard]] std::size_t at(std::int64_t row, std::int64_t column) const {
    const std::int64_t index = ((column / tile_columns) * rows + row) * tile_columns + column % tile_columns;
    return static_cast<std::size_t>(index * element);
  }
  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(rows * columns * element); }
};

// Why a weight has no private layout, or "".
std::string refusal(const Device& device, const TensorDesc& weight, std::uint32_t uses) {
  if (device.config.personality != Personality::ascend) return cat(device.name(), " has no private layouts");
  if (uses == 0 || (uses & ~(std::uint32_t{TERN_USE_FORWARD} | TERN_USE_INPUT_GRAD)) != 0) return "unknown uses";
  if (weight.rank != 2 || weight.layout != 0 || weight.dynamic_dim >= 0) return "only a weight [out, in] is packed";
  if (num_elements(weight) == 0) return "an empty weight";
  const tern_dtype dtype = weight.dtype;
  if (dtype != TERN_F32 && dtype != TERN_F16 && dtype != TERN_BF16) return "only floats are packed";
  return {};
}

void copy_tiles(const TensorDesc& weight, std::span<std::byte> strided_plane, std::span<std::byte> tiled, bool back) {
  const Tiles tiles(weight);
  const auto size = static_cast<std::size_t>(tiles.element);
  for (std::int64_t r = 0; r < weight.shape[0]; ++r) {
    for (std::int64_t c = 0; c < weight.shape[1]; ++c) {
      const auto from = static_cast<std::size_t>((r * weight.strides[0] + c * weight.strides[1]) * tiles.element);
      std::byte* const element = strided_plane.data() + from;
      std::byte* const packed = tiled.data() + tiles.at(r, c);
      if (back) {
        std::memcpy(element, packed, size);
      } else {
        std::memcpy(packed, element, size);
      }
    }
  }
}

void copy_reversed(const std::array<std::span<std::byte>, TERN_MAX_PLANES>& planes, std::span<std::byte> packed,
                   bool back) {
  std::size_t at = 0;
  for (const auto& plane : planes) {
    const auto place = packed.subspan(at, plane.size());
    if (back) {
      std::reverse_copy(place.begin(), place.end(), plane.begin());
    } else {
      std::reverse_copy(plane.begin(), plane.end(), place.begin());
    }
    at += round_up(plane.size(), kPlaneAlignment);
  }
}

tern_status give_pack(const tern_tensor& packed, const tern_tensor& weight, std::uint32_t uses, tern_stream stream,
                      bool back) {
  const auto queue = [&](const std::shared_ptr<Stream>& s) {
    if (std::string why = refusal(*s->device, weight.desc, uses); !why.empty()) fail(TERN_UNSUPPORTED, why);
    if (packed.desc.layout == 0 || layout_uses(packed.desc.layout) != uses || !same_shape(packed.desc, weight.desc) ||
        packed_bytes(*s->device, packed.desc) == 0) {
      fail(TERN_INVALID_ARGUMENT, "pack: the packed tensor is not of the layout that packed_info gives");
    }
    const auto find = [device = s->device](const tern_tensor& tensor, const char* what) {
      return find_operand(*device, tensor, what, true);
    };
    (void)find(packed, "the packed weight");
    (void)find(weight, "the weight");
    Work work;
    work.what = back ? "unpack" : "pack";
    work.kind = TERN_PROFILE_KERNEL;
    work.run = [packed, weight, back, find](const HostArgs&) {
      const Operand to = find(packed, "the packed weight");
      const Operand from = find(weight, "the weight");
      if (!back) std::fill(to.planes[0].begin(), to.planes[0].end(), std::byte{0});
      if (is_quantised(weight.desc)) {
        copy_reversed(from.planes, to.planes[0], back);
      } else {
        copy_tiles(weight.desc, from.planes[0], to.planes[0], back);
      }
    };
    submit(*s, std::move(work));
  };
  return guarded([&](auto&) { on_stream(stream, queue); });
}

}  // namespace

std::uint32_t layout_uses(std::int32_t layout) { return static_cast<std::uint32_t>(layout & 0xf); }

std::uint64_t packed_bytes(const Device& device, const TensorDesc& desc) {
  TensorDesc weight = desc;
  weight.layout = 0;
  if (!refusal(device, weight, layout_uses(desc.layout)).empty()) return 0;
  const bool quantised = is_quantised(desc);
  if ((desc.layout & ~0xf) != (quantised ? kReversed : kTiled)) return 0;
  if (!quantised) return Tiles(desc).bytes();
  std::uint64_t total = 0;
  for (std::uint64_t bytes : plane_bytes(strided(desc)).bytes) total += round_up(bytes, kPlaneAlignment);
  return total;
}

Unpacked unpack_weight(const TensorDesc& desc, std::span<const std::byte> packed) {
  Unpacked out;
  out.desc = strided(desc);
  const PlaneBytes planes = plane_bytes(out.desc);
  out.bytes.resize(total_bytes(out.desc));
  std::size_t at = 0;
  for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
    out.planes[p] = std::span(out.bytes).subspan(at, planes.bytes[p]);
    at += planes.bytes[p];
  }
  std::vector<std::byte> copy(packed.begin(), packed.end());
  if (is_quantised(desc)) {
    copy_reversed(out.planes, copy, true);
  } else {
    copy_tiles(out.desc, out.planes[0], copy, true);
  }
  return out;
}

tern_status packed_info(tern_device device, const tern_tensor_desc* weight, uint32_t uses, tern_packed_info* info) {
  return guarded([&](auto&) {
    require(weight != nullptr && info != nullptr, "packed_info: a null argument");
    const Device& d = *world().device(device);
    if (std::string why = refusal(d, *weight, uses); !why.empty()) fail(TERN_UNSUPPORTED, why);
    TensorDesc packed = *weight;
    packed.layout = (is_quantised(*weight) ? kReversed : kTiled) + static_cast<std::int32_t>(uses);
    tern_plugin::require(give_info(info, {sizeof *info, packed.layout, packed_bytes(d, packed)}));
  });
}

tern_status pack(tern_tensor packed, tern_tensor weight, uint32_t uses, tern_stream stream) {
  return give_pack(packed, weight, uses, stream, false);
}

tern_status unpack(tern_tensor weight, tern_tensor packed, uint32_t uses, tern_stream stream) {
  return give_pack(packed, weight, uses, stream, true);
}

}  // namespace tern::sim
