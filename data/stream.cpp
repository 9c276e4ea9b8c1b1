#include "data/stream.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/philox.h"
#include "base/strings.h"
#include "data/dataset_rows.h"
#include "data/sampler.h"

namespace tern::data {
namespace {

constexpr std::size_t kAhead = 256;  // encoded samples that wait for the reader of the stream

// What passes from the reading thread: a sample, the end of an epoch, or the Error that ends the stream.
struct Item {
  std::optional<Sample> sample;
  std::optional<Error> error;
};

class Queue {
 public:
  // False where the stream is closed.
  bool push(Item item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || items_.size() < kAhead; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }
  Item pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return !items_.empty(); });
    Item item = std::move(items_.front());
    items_.pop_front();
    room_.notify_one();
    return item;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::deque<Item> items_;
  bool closed_ = false;
};

// One pass over all datasets. False where the stream was closed; throws Failure.
bool produce_epoch(const LoadOptions& load, const RowEncoder& encoder, bool first, Queue& queue) {
  std::uint64_t samples = 0;
  bool open = true;
  for (const auto& spec : load.dataset) {
    const Source source = find_source(spec, load);
    DatasetReport report{spec, source.files};
    take_rows(source, load, &encoder, report.counts, [&](Normalized& product) {
      for (auto& sample : product.encoded->samples) {
        open = open && queue.push({std::move(sample), std::nullopt});
        ++samples;
      }
      return open;
    });
    if (!open) return false;
    name_files(report.counts, source);
    if (first) warn_bad(report, load.strict);
  }
  if (samples == 0) {
    throw Failure(data_error(join(load.dataset, ", "), "at least one supervised token", "none",
                             "look at it with tern inspect-data"));
  }
  return queue.push({});
}

void produce(const LoadOptions& load, const RowEncoder& encoder, Queue& queue) {
  try {
    for (bool first = true; produce_epoch(load, encoder, first, queue);) first = false;
  } catch (const Failure& failure) {
    (void)queue.push({std::nullopt, failure.error()});
  } catch (const std::exception& failure) {
    (void)queue.push({std::nullopt, failed_error("streaming rows", "memory for them", failure.what())});
  }
}

}  // namespace

struct SampleStream::State {
  LoadOptions load;
  StreamOptions options;
  Queue queue;
  std::optional<Error> failed;
  std::vector<Sample> window;
  std::uint64_t window_number = 0;  // in its epoch
  std::uint64_t epoch = 0;
  std::uint64_t next_epoch = 0;  // of the samples behind the window
  std::size_t place = 0;         // in the window
  std::uint64_t given = 0;       // samples of the epoch given so far
  std::jthread producer;         // last: joined before what it uses goes

  ~State() { queue.close(); }

  // The next window's samples; throws the stream's Error.
  void refill() {
    window.clear();
    place = 0;
    if (next_epoch != epoch) {
      epoch = next_epoch;
      window_number = 0;
      given = 0;
    } else if (given > 0) {
      ++window_number;
    }
    while (window.size() < options.shuffle_buffer) {
      Item item = queue.pop();
      if (item.error) {
        failed = std::move(item.error);
        throw Failure(*failed);
      }
      if (item.sample) {
        window.push_back(std::move(*item.sample));
        continue;
      }
      next_epoch = epoch + 1;
      if (!window.empty()) return;
      epoch = next_epoch;  // the epoch ended with the last window
      window_number = 0;
      given = 0;
    }
  }

  StreamSample take() {
    if (failed) throw Failure(*failed);
    if (place == window.size()) refill();
    constexpr std::uint64_t kWindowStream = 0x57fea3;
    const Permutation order(window.size(), mix_key(mix_key(options.seed, kWindowStream), window_number), epoch);
    const std::size_t index = options.shuffle_buffer > 1 ? static_cast<std::size_t>(order(place)) : place;
    ++place;
    return {std::move(window[index]), epoch, static_cast<std::uint32_t>(given++)};
  }
};

SampleStream::SampleStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
SampleStream::~SampleStream() = default;

Result<std::unique_ptr<SampleStream>> SampleStream::open(const LoadOptions& load, const RowEncoder& encoder,
                                                         const StreamOptions& options) {
  if (load.dataset.empty()) return usage_error("--dataset", "a data file", "none");
  if (load.split_dataset_ratio > 0) {
    return usage_error("--split_dataset_ratio", "0 with --streaming, as the number of rows is not known",
                       cat(load.split_dataset_ratio), "give --val_dataset");
  }
  if (options.shuffle_buffer == 0) return usage_error("the shuffle's window", "at least 1 sample", "0");
  auto state = std::make_unique<State>();
  state->load = load;
  state->load.progress = {};
  state->options = options;
  state->producer = std::jthread([inner = state.get(), &encoder] { produce(inner->load, encoder, inner->queue); });
  return std::unique_ptr<SampleStream>(new SampleStream(std::move(state)));
}

Result<StreamSample> SampleStream::next() {
  return catching([&] { return state_->take(); });
}

Status SampleStream::skip(std::uint64_t samples) {
  return catching([&] {
    for (std::uint64_t i = 0; i < samples; ++i) (void)state_->take();
    return Unit{};
  });
}

Result<StreamStep> SampleStream::next_step(const BatchOptions& batch) {
  if (batch.packing) return usage_error("--packing", "false with --streaming", "true");
  if (batch.group_by_length) return usage_error("--group_by_length", "false with --streaming", "true");
  return catching([&] {
    StreamStep step;
    auto store = std::make_shared<MemoryStore>();
    const std::uint64_t count = std::uint64_t{batch.per_device_batch_size} * batch.accumulation * batch.world;
    if (count == 0) throw Failure(usage_error("--per_device_train_batch_size", "at least 1", "0"));
    for (std::uint64_t i = 0; i < count; ++i) {
      StreamSample taken = state_->take();
      if (i == 0) step.plan.epoch = taken.epoch;
      step.ids.push_back(taken.id);
      store->add(std::move(taken.sample));
    }
    step.samples.add(std::move(store));
    BatchOptions in_order = batch;
    in_order.shuffle = false;
    const std::uint64_t epoch = step.plan.epoch;
    step.plan = BatchPlanner::create(step.samples, in_order).value().plan(0, 0);
    step.plan.epoch = epoch;
    return step;
  });
}

}  // namespace tern::data
