#include "data/stream.h"

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/philox.h"
#include "base/strings.h"
#include "data/bounded_queue.h"
#include "data/dataset_rows.h"
#include "data/row_feed.h"

namespace tern::data {
namespace {

constexpr std::size_t kAhead = 256;  // encoded samples that wait for the reader of the stream

// What passes from the reading thread: a sample, the end of an epoch, or the Error that ends the stream.
struct Item {
  std::optional<Sample> sample;
  std::optional<Error> error;
  std::string place;  // of the sample's row
};

using Queue = BoundedQueue<Item>;

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
    if (!(load_.interleave.on() ? mixed_rows() : rows_in_order())) return false;
    if (samples_ == before) {
      throw Failure(data_error(join(load_.dataset, ", "), "at least one supervised token", "none",
                               "look at it with tern inspect-data"));
    }
    return queue_.push({});
  }

  bool push(FedRow row) {
    bool open = true;
    for (Sample& sample : row.samples) {
      open = open && queue_.push({std::move(sample), std::nullopt, row.place});
      ++samples_;
    }
    return open;
  }

  // One dataset after another.
  bool rows_in_order() {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      DatasetReport report{load_.dataset[i], sources_[i].files};
      const auto take = [&](FedRow row) { return push(std::move(row)); };
      if (!feed_rows(sources_[i], load_, encoder_, first_, report, take)) return false;
      if (first_) log_info(report.line());
    }
    return true;
  }

  // In turn, each beginning at its first row. One row is read ahead of each, which tells whether there is another.
  bool mixed_rows() {
    std::vector<std::unique_ptr<RowFeed>> feeds;
    for (const auto& spec : load_.dataset) {
      feeds.push_back(std::make_unique<RowFeed>(spec, load_, encoder_, first_));
    }
    std::vector<std::optional<FedRow>> ahead(feeds.size());
    for (Mixture mixture(load_.interleave, load_.data_seed); !mixture.ended();) {
      const std::size_t i = mixture.next();
      if (!ahead[i]) ahead[i] = feeds[i]->next();
      if (!push(std::move(*ahead[i]))) return false;
      ahead[i] = feeds[i]->next();
      if (!ahead[i]) mixture.exhausted(i);
    }
    return true;
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
  Queue queue{kAhead};
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
  if (auto mixes = check_interleave(load.interleave, load.dataset.size()); !mixes) return mixes.error();
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
