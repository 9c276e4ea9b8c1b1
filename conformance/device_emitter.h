// An emitter that runs each call on a device at once, decomposing what the device does not have: how a decomposition is
// tried on a device.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "conformance/laws.h"
#include "ops/emit.h"

namespace tern::conformance {

class DeviceEmitter : public ops::Emitter {
 public:
  explicit DeviceEmitter(Bench& bench, const Case& c);
  // The case's arguments as a call.
  [[nodiscard]] const ops::OpCall& call() const { return call_; }
  // True once some part had neither a kernel nor a decomposition: what follows was not run.
  [[nodiscard]] bool stuck() const { return stuck_; }
  [[nodiscard]] const std::string& stuck_on() const { return stuck_on_; }

  std::vector<ops::Value> emit(const ops::OpCall& call) override;
  [[nodiscard]] const TensorDesc& desc(ops::Value value) const override;
  ops::Value view(ops::Value value, const TensorDesc& desc, std::int64_t offset) override;
  // Elements of a value, dynamic dimensions cut.
  [[nodiscard]] ops::ref::Tensor read(ops::Value value);

 private:
  struct Entry {
    TensorDesc desc;
    std::shared_ptr<accel::Buffer> buffer;
    std::uint64_t offset = 0;                                          // bytes
    std::array<std::shared_ptr<accel::Buffer>, TERN_MAX_PLANES> more;  // planes from the second on, of a quantised one
  };
  ops::Value add(const TensorDesc& desc, std::shared_ptr<accel::Buffer> buffer);
  [[nodiscard]] tern_tensor tensor(ops::Value value) const;

  Bench& bench_;
  const Case& case_;
  std::deque<Entry> entries_;  // descs stay where they are
  std::vector<Bytes> uploads_;
  ops::OpCall call_;
  bool stuck_ = false;
  std::string stuck_on_;
};

}  // namespace tern::conformance
