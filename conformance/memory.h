// A case's arguments in device memory, each between red zones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accel/device.h"
#include "conformance/case.h"

namespace tern::conformance {

// A piece of device memory with zones on both sides whose bytes nobody may change.
class Guarded {
 public:
  Guarded() = default;
  // `shift`: alignments to move the piece by, so that another run gets other addresses.
  Guarded(const accel::DevicePtr& device, std::uint64_t bytes, int shift, const std::string& what);
  [[nodiscard]] tern_plane plane() const { return buffer_.plane(begin_); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Zones and content, in stream order. Copied first and kept: the stream may be late.
  void upload(std::span<const std::byte> content, const accel::Stream& stream);
  // Zones and content as they are at this point of the stream; valid once it is idle.
  [[nodiscard]] Bytes fetch(const accel::Stream& stream) const;
  [[nodiscard]] std::span<const std::byte> content(const Bytes& image) const {
    return std::span(image).subspan(begin_, bytes_);
  }
  [[nodiscard]] bool zones_intact(const Bytes& image) const;

 private:
  accel::DevicePtr device_;
  accel::Buffer buffer_;
  std::uint64_t begin_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Bytes> uploads_;
};

// What a device made of a case.
struct Outputs {
  std::vector<std::array<Bytes, TERN_MAX_PLANES>> planes;  // per argument, as found after the run
  std::vector<bool> zones_intact;                          // per argument
};

struct Verdict {
  double worst = 0.0;
  std::string problem;  // "" where all is well
};

// The arguments' memory as a stream found it; valid once the stream is idle.
struct Snapshot {
  std::vector<std::array<Bytes, TERN_MAX_PLANES>> images;  // with red zones
  std::vector<Bytes> packed;
};

class CaseMemory {
 public:
  CaseMemory(const accel::DevicePtr& device, const Case& c, int shift);
  // Writes every argument's bytes: of `c`, which has the same descs; outputs are poisoned as the case says;
  // `keep_outputs` leaves what is written as it is.
  void upload(const Case& c, const accel::Stream& stream, bool keep_outputs = false);
  [[nodiscard]] Snapshot fetch(const accel::Stream& stream) const;
  [[nodiscard]] Outputs outputs(const Snapshot& snapshot) const;
  // Tensors for bind; packed arguments in the device's layout.
  [[nodiscard]] const std::vector<tern_tensor>& tensors() const { return tensors_; }
  // Unpacks every packed argument into memory of its own; "" or what came back otherwise.
  [[nodiscard]] std::string check_unpack(const Case& c, const accel::Stream& stream) const;
  // Descs as the device gets them: with private layouts.
  [[nodiscard]] accel::OpDesc op_desc() const { return desc_; }
  // The device has no private layout for an argument that asks for one.
  [[nodiscard]] bool lacks_layout() const { return lacks_layout_; }

 private:
  void place_packed(std::size_t arg, const Case& c, int shift);
  accel::DevicePtr device_;
  accel::OpDesc desc_;
  std::vector<std::array<std::shared_ptr<Guarded>, TERN_MAX_PLANES>> planes_;
  std::vector<std::shared_ptr<Guarded>> packed_;  // per argument
  std::vector<std::uint32_t> uses_;
  std::vector<tern_tensor> tensors_;
  bool lacks_layout_ = false;
};

// Judges what a run left: values against the oracle, zones, bytes between elements, inputs untouched, the part beyond a
// count finite.
[[nodiscard]] Verdict judge(const Case& c, const std::vector<ops::ref::Tensor>& expected, const Outputs& found);

// Whether both runs left the same bits in every output's valid elements, but those that the contract leaves open.
[[nodiscard]] bool same_bits(const Case& c, const Outputs& a, const Outputs& b);

}  // namespace tern::conformance
