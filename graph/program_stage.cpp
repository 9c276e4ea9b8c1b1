// What the host gives a run: inputs padded to their capacity, and what each launch is told of counts and lengths.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/strings.h"
#include "graph/program_stage.h"

namespace tern::graph {
namespace {

// `dirty`: where what was written before ends.
void pad(const Field& field, std::span<std::byte> data, std::uint64_t used, std::uint64_t dirty) {
  switch (field.padding) {
    case Padding::zero:
      if (used < dirty) std::memset(data.data() + used, 0, dirty - used);
      break;
    case Padding::minus_one:
      if (used < dirty) std::memset(data.data() + used, 0xff, dirty - used);
      break;
    case Padding::repeat_last:
      for (std::uint64_t at = used; at < field.bytes && used >= field.entry_bytes; at += field.entry_bytes) {
        std::memcpy(data.data() + at, data.data() + used - field.entry_bytes, field.entry_bytes);
      }
      break;
  }
}

// Takes a run's inputs as launched: pads them, and notes which lengths differ from the launch before.
void stage_input(Program::Impl& program, std::size_t i) {
  const FieldPlace place = program.plan.inputs[i];
  const Field& field = program.plan.field(place);
  InputState& input = program.inputs[i];
  const std::span<std::byte> data = program.staging(place, program.turn);
  std::uint64_t& used_before = input.used_bytes[index(program.turn)];
  const std::uint64_t used = actual_bytes(field, program.counts);
  pad(field, data, used, used_before);
  used_before = used;
  if (input.launched.empty()) return;
  input.changed = std::memcmp(input.launched.data(), data.data(), data.size()) != 0;
  if (input.changed) std::memcpy(input.launched.data(), data.data(), data.size());
}

void fill_launch(Program::Impl& program, std::size_t l) {
  const LaunchArgs& told = program.plan.launch_args[l];
  LaunchState& launch = program.launches[l];
  const bool counts_changed = program.counts_changed || program.plan.sets_counts;
  launch.changed = program.is_behind || (told.dynamic && counts_changed);
  for (std::size_t a = 0; a < told.lengths.size(); ++a) {
    const LaunchArgs::Lengths& lengths = told.lengths[a];
    const auto data = program.staging(program.plan.inputs[index(lengths.input)], program.turn);
    launch.arrays[a].data = reinterpret_cast<const std::int32_t*>(data.data());
    launch.arrays[a].count = lengths.count_slot < 0 ? lengths.capacity : program.counts[index(lengths.count_slot)];
    launch.changed = launch.changed || program.inputs[index(lengths.input)].changed;
  }
  std::copy(program.counts.begin(), program.counts.end(), launch.args.counts);
}

void stage_counts(Program::Impl& program) {
  if (program.plan.counts.transfer >= 0) {
    const auto bytes = std::as_bytes(std::span(program.counts));
    std::memcpy(program.staging(program.plan.counts, program.turn).data(), bytes.data(), bytes.size());
  }
  for (std::size_t l = 0; l < program.launches.size(); ++l) fill_launch(program, l);
}

}  // namespace

std::uint64_t actual_bytes(const Field& field, const Counts& counts) {
  if (field.entry_bytes == 0) return field.bytes;
  const std::int64_t count = counts[field.desc.count_slot];
  if (count < 0 || count > field.desc.shape[0]) {
    throw std::logic_error(
        cat("program: a count of ", count, " of ", field.name, " in a capacity of ", field.desc.shape[0]));
  }
  return field.entry_bytes * static_cast<std::uint64_t>(count);
}

void stage_inputs(Program::Impl& program, const Counts& counts) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Field& field = program.plan.field(program.plan.inputs[i]);
    if (!program.inputs[i].given) throw std::logic_error(cat("program: no input ", field.name));
    (void)actual_bytes(field, counts);  // before anything is changed
  }
  program.counts_changed = program.counts != counts;
  program.counts = counts;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) stage_input(program, i);
  stage_counts(program);
}

void set_staged_count(Program::Impl& program, std::int32_t slot, std::int64_t count) {
  if (count < 0 || count > program.plan.capacities[index(slot)]) {
    throw Failure(failed_error(
        cat("a run computed a count of ", count, ", and ", program.plan.capacities[index(slot)], " were planned for"),
        "report it with the command that led here"));
  }
  program.counts[index(slot)] = count;
  stage_counts(program);
}

}  // namespace tern::graph
