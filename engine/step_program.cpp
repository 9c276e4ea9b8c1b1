#include "engine/step_program.h"

#include <algorithm>

namespace tern::engine {

StepProgram::StepProgram(std::unique_ptr<graph::Program> program) : program_(std::move(program)) {
  for (const graph::Storage& storage : program_->graph().storages()) {
    if (storage.kind != graph::StorageKind::input) continue;
    names_.push_back(storage.name);
    descs_.push_back(storage.desc);
    inputs_.emplace_back(total_bytes(storage.desc));
  }
  for (const graph::Output& output : program_->graph().outputs()) outputs_.push_back(output.name);
}

InputId StepProgram::input_id(std::string_view name) const {
  return static_cast<InputId>(std::find(names_.begin(), names_.end(), name) - names_.begin());
}
OutputId StepProgram::output_id(std::string_view name) const {
  return static_cast<OutputId>(std::find(outputs_.begin(), outputs_.end(), name) - outputs_.begin());
}

void StepProgram::launch(const Counts& counts) {
  graph::RunInputs run;
  run.counts = counts;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    TensorDesc desc = descs_[i];
    if (desc.dynamic_dim == 0) desc.shape[0] = counts[desc.count_slot];
    run.inputs[names_[i]] = std::span<const std::byte>(inputs_[i]).first(total_bytes(desc));
  }
  program_->run(run);
}

}  // namespace tern::engine
