#include "conformance/memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/strings.h"
#include "conformance/compare.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

constexpr std::uint64_t kZone = 512;
constexpr std::byte kZoneByte{0xa7};

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Which bytes of a plane are elements.
std::vector<bool> element_bytes(const TensorDesc& desc, std::size_t size) {
  std::vector<bool> mask(size, is_quantised(desc));
  if (is_quantised(desc)) return mask;
  const auto width = static_cast<std::size_t>(dtype_bytes(desc.dtype));
  std::int64_t index[TERN_MAX_RANK] = {};
  for (std::int64_t i = 0, count = num_elements(desc); i < count; ++i) {
    std::int64_t at = 0;
    for (int d = 0; d < desc.rank; ++d) at += index[d] * desc.strides[d];
    for (std::size_t b = 0; b < width; ++b) mask[static_cast<std::size_t>(at) * width + b] = true;
    for (int d = desc.rank - 1; d >= 0 && ++index[d] == desc.shape[d]; --d) index[d] = 0;
  }
  return mask;
}

std::string check_bytes(const Case& c, std::size_t i, const Outputs& found) {
  const Argument& arg = c.args[i];
  const std::string_view name = c.spec().args[i].name;
  if (!found.zones_intact[i]) return cat(name, ": memory before or after it was written");
  bool shared = c.written(i);
  for (std::size_t out = 0; out < c.args.size(); ++out) {
    shared = shared || (c.shares_memory(out) && static_cast<std::size_t>(c.alias[out]) == i);
  }
  for (std::size_t p = 0; p < arg.planes.size(); ++p) {
    const Bytes& before = arg.planes[p];
    const Bytes& after = found.planes[i][p];
    if (before == after) continue;
    if (!shared) return cat(name, ": an input was written");
    const std::vector<bool> mask = element_bytes(arg.desc, before.size());
    for (std::size_t b = 0; b < before.size(); ++b) {
      if (!mask[b] && before[b] != after[b]) return cat(name, ": byte ", b, " between its elements was written");
    }
  }
  return {};
}

std::string check_tail(const Case& c, std::size_t i, const Outputs& found) {
  const Argument& arg = c.args[i];
  if (c.any_tails || arg.desc.dynamic_dim < 0 || !dtype_info(arg.desc.dtype).floating) return {};
  std::array<std::int64_t, TERN_MAX_COUNTS> full{};
  full.fill(arg.desc.shape[arg.desc.dynamic_dim]);
  const ops::ref::Tensor all = decode(arg.desc, found.planes[i], full);
  const TensorDesc valid = cut(arg.desc, c.counts);
  std::int64_t index[TERN_MAX_RANK] = {};
  for (double x : all.real) {
    if (index[arg.desc.dynamic_dim] >= valid.shape[arg.desc.dynamic_dim] && !std::isfinite(x)) {
      return cat(c.spec().args[i].name, ": not finite beyond the actual count");
    }
    for (int d = arg.desc.rank - 1; d >= 0 && ++index[d] == arg.desc.shape[d]; --d) index[d] = 0;
  }
  return {};
}

// What a weight is packed for.
std::uint32_t uses_of(const Case& c, std::size_t arg) {
  const std::vector<TensorDesc> descs = descs_of(c);
  const std::uint32_t own = ops::op_rules(c.op).uses({c.op, descs, c.attrs, c.accumulate}, static_cast<int>(arg));
  return c.args[arg].both_uses ? TERN_USE_FORWARD | TERN_USE_INPUT_GRAD : own;
}

}  // namespace

Guarded::Guarded(const accel::DevicePtr& device, std::uint64_t bytes, int shift, const std::string& what)
    : device_(device), bytes_(bytes) {
  const std::uint64_t alignment = std::max<std::uint64_t>(1, device->info().alignment);
  begin_ = round_up(kZone, alignment) + static_cast<std::uint64_t>(shift) * alignment;
  buffer_ = device->allocate(begin_ + bytes + kZone, what);
}

void Guarded::upload(std::span<const std::byte> content, const accel::Stream& stream) {
  Bytes& image = uploads_.emplace_back(buffer_.bytes(), kZoneByte);
  std::copy(content.begin(), content.end(), image.begin() + static_cast<std::ptrdiff_t>(begin_));
  device_->copy_to_device(buffer_.plane(), image, stream);
}

Bytes Guarded::fetch(const accel::Stream& stream) const {
  Bytes image(buffer_.bytes());
  device_->copy_to_host(image, buffer_.plane(), stream);
  return image;
}

bool Guarded::zones_intact(const Bytes& image) const {
  const auto is_zone = [](std::byte byte) { return byte == kZoneByte; };
  const auto begin = image.begin() + static_cast<std::ptrdiff_t>(begin_);
  return std::all_of(image.begin(), begin, is_zone) &&
         std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), image.end(), is_zone);
}

CaseMemory::CaseMemory(const accel::DevicePtr& device, const Case& c, int shift)
    : device_(device),
      desc_(conformance::op_desc(c)),
      planes_(c.args.size()),
      packed_(c.args.size()),
      uses_(c.args.size()),
      tensors_(c.args.size()) {
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const Argument& arg = c.args[i];
    tensors_[i].desc = arg.desc;
    if (!is_present(arg.desc)) continue;
    for (std::size_t p = 0; p < arg.planes.size(); ++p) {
      if (c.shares_memory(i)) {
        planes_[i][p] = planes_[static_cast<std::size_t>(c.alias[i])][p];
      } else if (p == 0 || !arg.planes[p].empty()) {
        planes_[i][p] = std::make_shared<Guarded>(device, arg.planes[p].size(), shift, "a case's argument");
      }
      if (planes_[i][p] != nullptr) tensors_[i].planes[p] = planes_[i][p]->plane();
    }
    if (arg.packed) place_packed(i, c, shift);
  }
}

void CaseMemory::place_packed(std::size_t arg, const Case& c, int shift) {
  uses_[arg] = uses_of(c, arg);
  tern_packed_info info{};
  info.size = sizeof(info);
  const bool known = device_->backend().has(&tern_backend::packed_info) && device_->backend().has(&tern_backend::pack);
  const tern_status status =
      known ? device_->api().packed_info(device_->raw(), &c.args[arg].desc, uses_[arg], &info) : TERN_UNSUPPORTED;
  if (status == TERN_UNSUPPORTED) {
    lacks_layout_ = true;
    return;
  }
  accel::check(status, device_->backend(), "asking for a packed layout");
  packed_[arg] = std::make_shared<Guarded>(device_, info.bytes, shift, "a packed weight");
  tensors_[arg].desc.layout = info.layout;
  desc_.args[arg].layout = info.layout;
  std::fill(std::begin(tensors_[arg].planes), std::end(tensors_[arg].planes), tern_plane{});
  tensors_[arg].planes[0] = packed_[arg]->plane();
}

void CaseMemory::upload(const Case& c, const accel::Stream& stream, bool keep_outputs) {
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (!is_present(c.args[i].desc) || c.shares_memory(i) || (keep_outputs && c.written(i))) continue;
    for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
      if (planes_[i][p] != nullptr) planes_[i][p]->upload(c.args[i].planes[p], stream);
    }
    if (packed_[i] == nullptr) continue;
    packed_[i]->upload(Bytes(packed_[i]->bytes(), std::byte{0xff}), stream);
    tern_tensor plain{};
    plain.desc = c.args[i].desc;
    for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
      if (planes_[i][p] != nullptr) plain.planes[p] = planes_[i][p]->plane();
    }
    accel::check(device_->api().pack(tensors_[i], plain, uses_[i], stream.raw()), device_->backend(),
                 "packing a weight");
  }
}

std::string CaseMemory::check_unpack(const Case& c, const accel::Stream& stream) const {
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (packed_[i] == nullptr) continue;
    const Bytes& original = c.args[i].planes[0];
    Guarded plain(device_, original.size(), 2, "an unpacked weight");
    plain.upload(Bytes(original.size(), std::byte{0xff}), stream);
    tern_tensor tensor{};
    tensor.desc = c.args[i].desc;
    tensor.planes[0] = plain.plane();
    accel::check(device_->api().unpack(tensor, tensors_[i], uses_[i], stream.raw()), device_->backend(),
                 "unpacking a weight");
    const Bytes image = plain.fetch(stream);
    stream.synchronize();
    const auto content = plain.content(image);
    const std::string_view name = c.spec().args[i].name;
    if (!plain.zones_intact(image)) return cat(name, ": unpacking wrote before or after it");
    const std::vector<bool> mask = element_bytes(c.args[i].desc, original.size());
    for (std::size_t b = 0; b < original.size(); ++b) {
      if (mask[b] && content[b] != original[b]) return cat(name, ": unpacked, byte ", b, " is another");
    }
  }
  return {};
}

Snapshot CaseMemory::fetch(const accel::Stream& stream) const {
  Snapshot out;
  out.images.resize(planes_.size());
  out.packed.resize(planes_.size());
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
      if (planes_[i][p] != nullptr) out.images[i][p] = planes_[i][p]->fetch(stream);
    }
    if (packed_[i] != nullptr) out.packed[i] = packed_[i]->fetch(stream);
  }
  return out;
}

Outputs CaseMemory::outputs(const Snapshot& snapshot) const {
  Outputs out;
  out.planes.resize(planes_.size());
  out.zones_intact.assign(planes_.size(), true);
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
      if (planes_[i][p] == nullptr) continue;
      const Bytes& image = snapshot.images[i][p];
      const auto content = planes_[i][p]->content(image);
      out.planes[i][p].assign(content.begin(), content.end());
      out.zones_intact[i] = out.zones_intact[i] && planes_[i][p]->zones_intact(image);
    }
    if (packed_[i] != nullptr)
      out.zones_intact[i] = out.zones_intact[i] && packed_[i]->zones_intact(snapshot.packed[i]);
  }
  return out;
}

Verdict judge(const Case& c, const std::vector<ops::ref::Tensor>& expected, const Outputs& found) {
  Verdict out;
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (!is_present(c.args[i].desc)) continue;
    std::string problem = check_bytes(c, i, found);
    if (c.written(i) && problem.empty()) {
      const ops::ref::Tensor got = decode(c.args[i].desc, found.planes[i], c.counts);
      const Comparison comparison = compare(c, static_cast<int>(i), expected[i], got);
      out.worst = std::max(out.worst, comparison.worst);
      problem = comparison.problem.empty() ? check_tail(c, i, found) : comparison.problem;
    }
    if (out.problem.empty()) out.problem = problem;
  }
  return out;
}

bool same_bits(const Case& c, const Outputs& a, const Outputs& b) {
  const std::vector<ops::ref::Tensor> expected = run_oracle(c);  // says which elements the contract leaves open
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (!is_present(c.args[i].desc) || !c.written(i)) continue;
    ops::ref::Tensor left = decode(c.args[i].desc, a.planes[i], c.counts);
    ops::ref::Tensor right = decode(c.args[i].desc, b.planes[i], c.counts);
    for (std::size_t n = 0; n < std::min(left.real.size(), expected[i].slack.size()); ++n) {
      if (std::isinf(expected[i].slack[n])) left.real[n] = right.real[n] = 0.0;
    }
    if (left.integer != right.integer || left.real.size() != right.real.size()) return false;
    const std::size_t bytes = left.real.size() * sizeof(double);
    if (bytes > 0 && std::memcmp(left.real.data(), right.real.data(), bytes) != 0) return false;
  }
  return true;
}

}  // namespace tern::conformance
