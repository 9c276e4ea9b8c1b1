#include "data/batch.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "base/philox.h"
#include "base/strings.h"
#include "data/sampler.h"

namespace tern::data {
namespace {

constexpr std::uint64_t kOrderStream = 0x0a0d;  // sample order and group order must not be the same permutation
constexpr std::uint64_t kGroupStream = 0x96a9;
// Samples are sorted by length within groups of this many steps, as transformers' LengthGroupedSampler does.
constexpr std::uint64_t kGroupSteps = 50;

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

std::vector<std::vector<std::uint32_t>> best_fit(std::span<const std::uint32_t> lengths, std::uint32_t capacity) {
  std::vector<std::uint32_t> by_length(lengths.size());
  std::iota(by_length.begin(), by_length.end(), 0U);
  std::stable_sort(by_length.begin(), by_length.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<std::uint32_t>> bins;
  std::multimap<std::uint32_t, std::size_t> room;  // free tokens -> bin; equal ones in the order they were opened
  for (const std::uint32_t sample : by_length) {
    const auto found = room.lower_bound(lengths[sample]);
    std::size_t bin = bins.size();
    std::uint32_t left = capacity - std::min(lengths[sample], capacity);
    if (found != room.end()) {
      bin = found->second;
      left = found->first - lengths[sample];
      room.erase(found);
    } else {
      bins.emplace_back();
    }
    bins[bin].push_back(sample);
    if (left > 0) room.emplace(left, bin);
  }
  for (auto& bin : bins) std::sort(bin.begin(), bin.end());
  std::sort(bins.begin(), bins.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
  return bins;
}

std::vector<const MicroBatchPlan*> StepPlan::of_rank(std::uint32_t rank, std::uint32_t world) const {
  std::vector<const MicroBatchPlan*> out;
  for (std::size_t i = rank; i < micro_batches.size(); i += world) out.push_back(&micro_batches[i]);
  return out;
}

Result<BatchPlanner> BatchPlanner::create(const EncodedDataset& dataset, const BatchOptions& options) {
  if (options.per_device_batch_size == 0)
    return usage_error("--per_device_train_batch_size is 0, and a batch needs a sample", "give 1 or more");
  if (options.accumulation == 0)
    return usage_error("--gradient_accumulation_steps is 0, and a step needs a batch", "give 1 or more");
  if (options.world == 0) throw std::logic_error("a batch plan of no data-parallel ranks");
  BatchPlanner planner(dataset, options);
  if (!options.packing) return planner;
  if (options.packing_length == 0) {
    return usage_error("--packing has no length to pack to", "give --packing_length or --max_length");
  }
  if (dataset.longest_group() > options.packing_length) {
    return usage_error(cat("--packing_length is ", options.packing_length, ", and the longest sample has ",
                           dataset.longest_group(), " tokens"),
                       "raise it, or lower --max_length");
  }
  std::vector<std::uint32_t> lengths(dataset.groups());
  for (std::uint32_t group = 0; group < dataset.groups(); ++group) lengths[group] = dataset.group_length(group);
  planner.pack_begin_.push_back(0);
  for (const auto& bin : best_fit(lengths, options.packing_length)) {
    planner.pack_groups_.insert(planner.pack_groups_.end(), bin.begin(), bin.end());
    planner.pack_begin_.push_back(static_cast<std::uint32_t>(planner.pack_groups_.size()));
  }
  return planner;
}

std::uint64_t BatchPlanner::units() const { return options_.packing ? pack_begin_.size() - 1 : dataset_->groups(); }

std::uint64_t BatchPlanner::step_units() const {
  return std::uint64_t{options_.per_device_batch_size} * options_.accumulation * options_.world;
}

std::uint64_t BatchPlanner::micro_batches_per_epoch() const {
  return ceil_div(units(), options_.per_device_batch_size);
}

std::uint64_t BatchPlanner::steps_per_epoch() const { return ceil_div(units(), step_units()); }

double BatchPlanner::packing_efficiency() const {
  const double room = static_cast<double>(units()) * options_.packing_length;
  return room > 0 ? static_cast<double>(dataset_->tokens()) / room : 0;
}

std::uint32_t BatchPlanner::unit_length(std::uint32_t unit) const {
  if (!options_.packing) return dataset_->group_length(unit);
  std::uint32_t tokens = 0;
  for (std::uint32_t i = pack_begin_[unit]; i < pack_begin_[unit + 1]; ++i) {
    tokens += dataset_->group_length(pack_groups_[i]);
  }
  return tokens;
}

void BatchPlanner::append_unit(MicroBatchPlan& plan, std::uint32_t unit) const {
  plan.tokens += unit_length(unit);
  const auto append = [&](std::uint32_t group) {
    for (std::uint32_t id = dataset_->group_begin(group); id < dataset_->group_begin(group + 1); ++id)
      plan.samples.push_back(id);
  };
  if (!options_.packing) return append(unit);
  for (std::uint32_t i = pack_begin_[unit]; i < pack_begin_[unit + 1]; ++i) append(pack_groups_[i]);
}

// Sorted by length, longest first, within groups; then the order of the steps within each group is shuffled, so that
// lengths do not fall along a group; and the step with the longest unit is moved to the front, to run out of memory at
// once if at all.
void BatchPlanner::group_by_length(std::uint64_t epoch) {
  const std::uint64_t count = units();
  order_.resize(count);
  const Permutation shuffled(count, mix_key(options_.seed, kOrderStream), epoch);
  for (std::uint64_t i = 0; i < count; ++i) {
    order_[i] = static_cast<std::uint32_t>(options_.shuffle ? shuffled(i) : i);
  }
  std::vector<std::uint32_t> lengths(count);
  for (std::uint32_t unit = 0; unit < count; ++unit) lengths[unit] = unit_length(unit);
  const auto longer = [&](std::uint32_t a, std::uint32_t b) { return lengths[a] > lengths[b]; };
  const std::uint64_t group = kGroupSteps * step_units();
  for (std::uint64_t begin = 0; begin < count; begin += group) {
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(begin);
    std::stable_sort(first, order_.begin() + static_cast<std::ptrdiff_t>(std::min(count, begin + group)), longer);
  }
  const std::uint64_t whole_steps = count / step_units();  // a last, smaller step stays last
  steps_.resize(steps_per_epoch());
  std::iota(steps_.begin(), steps_.end(), 0U);
  if (whole_steps == 0) return;
  if (options_.shuffle) {
    const Permutation steps(whole_steps, mix_key(options_.seed, kGroupStream), epoch);
    for (std::uint64_t i = 0; i < whole_steps; ++i) steps_[i] = static_cast<std::uint32_t>(steps(i));
  }
  const auto longest = std::min_element(order_.begin(), order_.end(), longer);
  const auto step = static_cast<std::uint64_t>(longest - order_.begin()) / step_units();
  if (step < whole_steps) {
    std::iter_swap(steps_.begin(), std::find(steps_.begin(), steps_.end(), static_cast<std::uint32_t>(step)));
  }
}

StepPlan BatchPlanner::plan(std::uint64_t epoch, std::uint64_t step) {
  if (step >= steps_per_epoch()) {
    throw std::logic_error(cat("step ", step, " of ", steps_per_epoch()));
  }
  std::uint64_t source = step;
  if (options_.group_by_length) {
    if (ordered_ != epoch) group_by_length(epoch);
    ordered_ = epoch;
    source = steps_[step];
  }
  const Permutation shuffled(units(), mix_key(options_.seed, kOrderStream), epoch);
  StepPlan out{epoch, step};
  out.last = step + 1 == steps_per_epoch();
  const std::uint64_t first = source * step_units();
  const std::uint64_t last = std::min(units(), first + step_units());
  for (std::uint64_t place = first; place < last; ++place) {
    if ((place - first) % options_.per_device_batch_size == 0) out.micro_batches.emplace_back();
    const auto unit = options_.group_by_length ? order_[place]
                      : options_.shuffle       ? static_cast<std::uint32_t>(shuffled(place))
                                               : static_cast<std::uint32_t>(place);
    append_unit(out.micro_batches.back(), unit);
  }
  for (const auto& micro_batch : out.micro_batches) {
    for (const std::uint32_t id : micro_batch.samples) {
      const SampleInfo& info = dataset_->info(id);
      out.tokens += info.length;
      out.supervised_tokens += info.supervised;
      out.weight += info.weight;
    }
  }
  return out;
}

}  // namespace tern::data
