#include "data/steps.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <stdexcept>

#include "base/strings.h"
#include "data/dataset_rows.h"
#include "io/checksum.h"

namespace tern::data {
namespace {

std::int64_t largest_sum(std::vector<std::uint32_t> values, std::int64_t count) {
  std::partial_sort(values.begin(), values.begin() + count, values.end(), std::greater<>());
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[static_cast<std::size_t>(i)];
  return sum;
}

MicroBatchBounds packed_bounds(const BatchOptions& options, std::int64_t packs, std::int64_t longest) {
  const std::int64_t tokens = packs * std::max<std::int64_t>(options.packing_length, longest);
  return {tokens, tokens, tokens, longest};
}

Settings order_settings(const BatchOptions& options) {
  const auto on = [](bool value) { return std::string(value ? "true" : "false"); };
  const std::uint64_t samples = std::uint64_t{options.per_device_batch_size} * options.accumulation * options.world;
  return {{"data_seed", cat(options.seed)},
          {"dataset_shuffle", on(options.shuffle)},
          {"group_by_length", on(options.group_by_length)},
          {"packing_length", options.packing ? cat(options.packing_length) : std::string()},
          {"per_device_train_batch_size x gradient_accumulation_steps x ranks", cat(samples)}};
}

template <typename T>
void add(io::Xxh3& hash, std::span<const T> values) {
  const std::array<std::uint64_t, 1> size = {values.size()};
  hash.update(std::as_bytes(std::span(size)));
  hash.update(std::as_bytes(values));
}

// Of what comes first in a file, with its size: a stream may be too long to be read twice.
void add_beginning(io::Xxh3& hash, const std::string& file) {
  constexpr std::size_t kRead = std::size_t{1} << 20;
  std::error_code absent;
  const std::array<std::uint64_t, 1> size = {std::filesystem::file_size(file, absent)};
  add<std::uint64_t>(hash, size);
  std::string text(kRead, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  add<char>(hash, text);
}

}  // namespace

Settings SetSteps::identity() const {
  io::Xxh3 hash;
  for (std::uint32_t id = 0; id < dataset_->size(); ++id) {
    const SampleView sample = dataset_->sample(id);
    add(hash, sample.ids);
    add(hash, sample.weights);
    for (std::size_t column = 0; column < dataset_->columns().size(); ++column) add(hash, dataset_->column(id, column));
  }
  Settings out = order_settings(options_);
  out.emplace_back(kDatasetSetting, cat(dataset_->size(), " samples, xxh3_64 ", hash.hex()));
  return out;
}

Settings StreamSteps::identity() const {
  io::Xxh3 hash;
  std::uint64_t files = 0;
  for (const auto& text : load_.dataset) {
    const Source source = find_source(text, load_);
    const std::array<std::uint64_t, 1> count = {source.spec.count.value_or(0)};
    add<std::uint64_t>(hash, count);
    for (const auto& file : source.files) add_beginning(hash, file);
    files += source.files.size();
  }
  Settings out = order_settings(options_.batches);
  out.emplace_back("shuffle_buffer_size", options_.batches.shuffle ? cat(options_.buffer) : std::string());
  out.emplace_back("streaming", "true");
  out.emplace_back(kDatasetSetting, cat("a stream of ", files, " files, xxh3_64 of their beginnings ", hash.hex()));
  return out;
}

Result<SetSteps> SetSteps::create(const EncodedDataset& dataset, const BatchOptions& options) {
  auto planner = BatchPlanner::create(dataset, options);
  if (!planner) return planner.error();
  return SetSteps(dataset, options, std::move(*planner));
}

MicroBatchBounds SetSteps::bounds() const {
  // The longest samples could fall into one micro-batch.
  const auto count = std::min<std::int64_t>(options_.per_device_batch_size, dataset_->groups());
  if (options_.packing) return packed_bounds(options_, count, dataset_->longest());
  std::vector<std::uint32_t> lengths;
  std::vector<std::uint32_t> samples;
  std::vector<std::uint32_t> supervised;
  for (std::uint32_t group = 0; group < dataset_->groups(); ++group) {
    const std::uint32_t first = dataset_->group_begin(group);
    const std::uint32_t last = dataset_->group_begin(group + 1);
    lengths.push_back(dataset_->group_length(group));
    samples.push_back(last - first);
    supervised.push_back(0);
    for (std::uint32_t id = first; id < last; ++id) supervised.back() += dataset_->info(id).supervised;
  }
  return {largest_sum(std::move(lengths), count), largest_sum(std::move(samples), count),
          largest_sum(std::move(supervised), count), dataset_->longest()};
}

Result<std::unique_ptr<StreamSteps>> StreamSteps::open(const LoadOptions& load, const RowEncoder& encoder,
                                                       const StreamStepOptions& options) {
  const BatchOptions& batches = options.batches;
  if (batches.group_by_length)
    return usage_error("--group_by_length and --streaming cannot be used together", "drop one");
  if (batches.per_device_batch_size == 0)
    return usage_error("--per_device_train_batch_size is 0, and a batch needs a sample", "give 1 or more");
  if (batches.accumulation == 0)
    return usage_error("--gradient_accumulation_steps is 0, and a step needs a batch", "give 1 or more");
  if (options.longest == 0) throw std::logic_error("a stream of samples without a bound on their length");
  if (batches.packing && batches.packing_length < options.longest) {
    return usage_error(
        cat("--packing_length is ", batches.packing_length, ", and with --streaming a sample may have all the ",
            options.longest, " tokens of --max_length"),
        "raise it, or lower --max_length");
  }
  return catching([&] {
    auto steps = std::unique_ptr<StreamSteps>(new StreamSteps(load, encoder, options));
    steps->seek(0);
    return steps;
  });
}

MicroBatchBounds StreamSteps::bounds() const {
  const std::int64_t count = options_.batches.per_device_batch_size;
  if (options_.batches.packing) return packed_bounds(options_.batches, count, options_.longest);
  return {count * options_.longest, count, count * options_.longest, options_.longest};
}

std::uint64_t StreamSteps::step_units() const {
  const BatchOptions& batches = options_.batches;
  return std::uint64_t{batches.per_device_batch_size} * batches.accumulation * batches.world;
}

// To the beginning of an epoch.
void StreamSteps::seek(std::uint64_t epoch) {
  const StreamOptions stream{options_.batches.shuffle ? options_.buffer : 1, options_.batches.seed, epoch};
  packs_.clear();
  left_.clear();
  stream_.reset();  // before another reads the same files
  stream_ = SampleStream::open(load_, encoder_, stream).value();
  ahead_ = stream_->next().value();
  epoch_ = epoch;
  step_ = 0;
  unit_ = next_unit();
}

// Samples up to the window or the epoch's end become packs.
void StreamSteps::pack_more() {
  std::vector<StreamSample> window = std::move(left_);
  left_.clear();
  for (std::size_t fresh = 0; fresh < kPackWindow && ahead_->epoch == epoch_; ++fresh) {
    window.push_back(std::move(*ahead_));
    ahead_ = stream_->next().value();
  }
  std::vector<std::uint32_t> lengths;
  lengths.reserve(window.size());
  for (const auto& sample : window) lengths.push_back(static_cast<std::uint32_t>(sample.sample.ids.size()));
  const auto tokens = [&](const std::vector<std::uint32_t>& bin) {
    std::uint64_t sum = 0;
    for (const std::uint32_t i : bin) sum += lengths[i];
    return sum;
  };
  auto bins = best_fit(lengths, options_.batches.packing_length);
  const auto emptiest =
      std::min_element(bins.begin(), bins.end(), [&](const auto& a, const auto& b) { return tokens(a) < tokens(b); });
  for (auto bin = bins.begin(); bin != bins.end(); ++bin) {
    StepUnit pack;
    for (const std::uint32_t i : *bin) pack.push_back(std::move(window[i]));
    if (bin == emptiest && ahead_->epoch == epoch_) {
      left_ = std::move(pack);
    } else {
      packs_.push_back(std::move(pack));
    }
  }
  std::reverse(packs_.begin(), packs_.end());
}

std::optional<StreamSteps::StepUnit> StreamSteps::next_unit() {
  if (!options_.batches.packing) {
    if (ahead_->epoch != epoch_) return std::nullopt;
    StepUnit unit;
    unit.push_back(std::move(*ahead_));
    ahead_ = stream_->next().value();
    return unit;
  }
  // A window that fits into one pack leaves none to give yet.
  while (packs_.empty() && (ahead_->epoch == epoch_ || !left_.empty())) pack_more();
  if (packs_.empty()) return std::nullopt;
  StepUnit pack = std::move(packs_.back());
  packs_.pop_back();
  return pack;
}

StepPlan StreamSteps::plan(std::uint64_t epoch, std::uint64_t step) {
  if (!unit_ && epoch == epoch_ + 1 && step == 0) {  // the next epoch, which the stream is in already
    epoch_ = epoch;
    step_ = 0;
    unit_ = next_unit();
  }
  if (epoch != epoch_ || step < step_) seek(epoch);
  StepPlan out;
  do {
    const auto columns = encoder_.columns();
    auto store = std::make_shared<MemoryStore>(std::vector<ColumnSpec>(columns.begin(), columns.end()));
    out = {epoch, step_++};
    ids_.clear();
    places_.clear();
    for (std::uint64_t place = 0; place < step_units() && unit_; ++place) {
      if (place % options_.batches.per_device_batch_size == 0) out.micro_batches.emplace_back();
      MicroBatchPlan& micro = out.micro_batches.back();
      for (auto& taken : *unit_) {
        const SampleInfo info = info_of({taken.sample.ids, taken.sample.weights});
        micro.samples.push_back(static_cast<std::uint32_t>(ids_.size()));
        micro.tokens += info.length;
        out.tokens += info.length;
        out.supervised_tokens += info.supervised;
        out.weight += info.weight;
        ids_.push_back(taken.id);
        places_.push_back(std::move(taken.place));
        store->add(std::move(taken.sample));
      }
      unit_ = next_unit();
    }
    if (out.micro_batches.empty()) {
      throw Failure(data_error(join(load_.dataset, ", "), cat("rows for step ", step, " of an epoch"), "fewer",
                               "resume with the data and batch sizes that the checkpoint was made with"));
    }
    samples_ = EncodedDataset();
    samples_.add(std::move(store));
  } while (step_ <= step);
  out.last = !unit_;
  return out;
}

MicroBatch StreamSteps::gather(const MicroBatchPlan& plan) const {
  MicroBatch batch = data::gather(samples_, plan);
  for (auto& id : batch.column(kSampleIds).values<std::uint32_t>()) id = ids_[id];
  return batch;
}

}  // namespace tern::data
