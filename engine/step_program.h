// A program whose inputs the host writes in place, and which is launched and waited for apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace tern::engine {

using Counts = std::array<std::int64_t, TERN_MAX_COUNTS>;
using InputId = std::int32_t;
using OutputId = std::int32_t;

class StepProgram {
 public:
  explicit StepProgram(std::unique_ptr<graph::Program> program);
  [[nodiscard]] InputId input_id(std::string_view name) const;
  [[nodiscard]] OutputId output_id(std::string_view name) const;
  [[nodiscard]] std::span<std::byte> input(InputId id) { return inputs_[static_cast<std::size_t>(id)]; }
  void launch(const Counts& counts);
  void wait() {}
  [[nodiscard]] std::span<const std::byte> output(OutputId id) const {
    return program_->output(outputs_[static_cast<std::size_t>(id)]);
  }
  [[nodiscard]] const graph::Program& program() const { return *program_; }

 private:
  std::unique_ptr<graph::Program> program_;
  std::vector<std::string> names_;
  std::vector<TensorDesc> descs_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::string> outputs_;
};

}  // namespace tern::engine
