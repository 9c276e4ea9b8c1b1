#include "data/stream.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/philox.h"
#include "base/strings.h"
#include "data/dataset_rows.h"

namespace tern::data {
namespace {

constexpr std::size_t kAhead = 256;  // encoded samples that wait for the reader of the stream

// What passes from the reading thread: a sample, the end of an epoch, or the Error that ends the stream.
struct Item {
  std::optional<Sample> sample;
  std::optional<Error> error;
  std::string place;  // of the sample's row
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

struct Stopped {};  // thrown by a taker that wants no more rows, on its own thread

// All epochs, one after the other, until the stream is closed.
class Producer {
 public:
  Producer(const LoadOptions& load, const RowEncoder& encoder, Queue& queue)
      : load_(load), encoder_(encoder), queue_(queue) {}

  // Throws Failure.
  void run() {
    for (const auto& spec : load_.dataset) sources_.push_back(find_source(spec, load_));
    while (pass()) first_ = false;
  }

 private:
  // One epoch. False where the stream was closed.
  bool pass() {
    const std::uint64_t before = samples_;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      DatasetReport report{load_.dataset[i], sources_[i].files};
      if (!take_source(sources_[i], report)) return false;
      if (first_) log_info(report.line());
    }
    if (samples_ == before) {
      throw Failure(data_error(join(load_.dataset, ", "), "at least one supervised token", "none",
                               "look at it with tern inspect-data"));
    }
    return queue_.push({});
  }

  // One pass over a dataset, or as many as `#N` rows take. False where the stream was closed.
  bool take_source(const Source& source, DatasetReport& report) {
    std::uint64_t left = source.spec.count.value_or(~std::uint64_t{0});
    bool open = true;
    const std::string name = source.name();
    const auto take = [&](Normalized& product) -> Status {
      ++report.counts.rows;
      if (product.error) {
        count_bad(report.counts, source, *product.error, load_.strict);
        if (first_) tell_bad(report.counts, source);
        return Unit{};
      }
      count_encoded(report.counts, *product.encoded);
      for (auto& sample : product.encoded->samples) {
        open = open && queue_.push({std::move(sample), std::nullopt, cat(name, ":", product.line)});
        ++report.samples;
        ++samples_;
      }
      if (!open || --left == 0) throw Stopped{};
      return Unit{};
    };
    try {
      for (bool again = true; again;) {
        const std::uint64_t before = left;
        run_source(
            source, load_, "reading", &encoder_, [](std::uint64_t) { return true; }, take);
        again = source.spec.count && left < before;
      }
    } catch (const Stopped&) {
    }
    return open;
  }

  // At once, as an epoch may take days. The line that counts them comes with its end.
  static void tell_bad(const RowCounts& counts, const Source& source) {
    if (counts.bad > RowCounts::kKeptErrors) return;
    RowCounts last;
    last.first_errors = {counts.first_errors.back()};
    name_files(last, source);
    log_warn(last.first_errors.front());
  }

  const LoadOptions& load_;
  const RowEncoder& encoder_;
  Queue& queue_;
  std::vector<Source> sources_;
  std::uint64_t samples_ = 0;
  bool first_ = true;
};

void produce(const LoadOptions& load, const RowEncoder& encoder, Queue& queue) {
  try {
    Producer(load, encoder, queue).run();
  } catch (const Failure& failure) {
    (void)queue.push({std::nullopt, failure.error(), {}});
  } catch (const std::exception& failure) {
    (void)queue.push(
        {std::nullopt, thrown_error(failure, "streaming rows", "free memory, or lower --shuffle_buffer_size"), {}});
  }
}

}  // namespace

struct SampleStream::State {
  LoadOptions load;
  StreamOptions options;
  Queue queue;
  std::optional<Error> failed;
  std::vector<StreamSample> buffer;
  std::uint64_t epoch = 0;
  std::uint64_t given = 0;  // samples of the epoch
  std::uint32_t read = 0;   // samples of the epoch
  bool ended = false;       // the epoch was read to its end
  std::jthread producer;    // last: joined before what it uses goes

  ~State() { queue.close(); }

  // Reads until the buffer is full or the epoch ends; throws the stream's Error.
  void fill() {
    while (!ended && buffer.size() < options.buffer) {
      Item item = queue.pop();
      if (item.error) {
        failed = std::move(item.error);
        throw Failure(*failed);
      }
      ended = !item.sample;
      if (item.sample) buffer.push_back({std::move(*item.sample), epoch, read++, std::move(item.place)});
    }
  }

  StreamSample take() {
    if (failed) throw Failure(*failed);
    fill();
    if (buffer.empty()) {  // never of a whole epoch: one without samples is an Error
      ++epoch;
      given = 0;
      read = 0;
      ended = false;
      fill();
    }
    constexpr std::uint64_t kDrawStream = 0x57fea3;
    const std::uint64_t draw = mix_key(mix_key(mix_key(options.seed, kDrawStream), epoch), given++);
    std::swap(buffer[draw % buffer.size()], buffer.back());
    StreamSample drawn = std::move(buffer.back());
    buffer.pop_back();
    return drawn;
  }
};

SampleStream::SampleStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
SampleStream::~SampleStream() = default;

Result<std::unique_ptr<SampleStream>> SampleStream::open(const LoadOptions& load, const RowEncoder& encoder,
                                                         const StreamOptions& options) {
  if (load.dataset.empty()) return usage_error("no dataset was given", "name a file, as in --dataset train.jsonl");
  if (load.split_dataset_ratio > 0) {
    return usage_error("--split_dataset_ratio and --streaming cannot be used together: the number of rows is not known",
                       "drop one, or give --val_dataset");
  }
  if (options.buffer == 0)
    return usage_error("--shuffle_buffer_size is 0, and the buffer needs room for a sample", "give 1 or more");
  auto state = std::make_unique<State>();
  state->load = load;
  state->load.progress = {};
  state->options = options;
  state->epoch = options.first_epoch;
  state->producer = std::jthread([inner = state.get(), &encoder] { produce(inner->load, encoder, inner->queue); });
  return std::unique_ptr<SampleStream>(new SampleStream(std::move(state)));
}

Result<StreamSample> SampleStream::next() {
  return catching([&] { return state_->take(); });
}

}  // namespace tern::data
