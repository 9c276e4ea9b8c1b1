#include "data/pipeline.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "base/strings.h"

namespace tern::data {

Error thrown_error(const std::exception& thrown, std::string_view what, std::string mend) {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
    return device_error(cat(what, " failed: no memory is left"), std::move(mend));
  }
  return failed_error(cat(what, " failed: ", thrown.what()), std::move(mend));
}

namespace {

constexpr std::size_t kRowsPerBatch = 64;
constexpr std::size_t kBytesPerBatch = std::size_t{1} << 20;  // long rows travel in smaller batches

struct Slot {
  enum class State { empty, filled, done } state = State::empty;
  std::vector<RawRow> rows;
  std::vector<std::unique_ptr<RowProduct>> products;
  std::optional<Error> error;
};

// A ring of batches: the caller fills and empties it in order, workers take filled ones in order.
class Ring {
 public:
  explicit Ring(std::size_t size) : slots_(size) {}

  Slot& at(std::uint64_t ticket) { return slots_[ticket % slots_.size()]; }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }

  void publish(std::uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    at(ticket).state = Slot::State::filled;
    filled_ = ticket + 1;
    work_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    work_.notify_all();
  }
  void wait_done(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return at(ticket).state == Slot::State::done; });
  }

  void serve(const std::function<RowWork()>& make_work) {
    std::optional<Error> broken;
    RowWork work;
    try {
      work = make_work();
    } catch (const Failure& failure) {
      broken = failure.error();
    }
    while (true) {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return closed_ || taken_ < filled_; });
      if (taken_ == filled_) return;
      Slot& slot = at(taken_++);
      lock.unlock();
      if (broken) slot.error = broken;
      process(slot, work);
      lock.lock();
      slot.state = Slot::State::done;
      done_.notify_all();
    }
  }

 private:
  static void process(Slot& slot, const RowWork& work) {
    if (slot.error) return;
    try {
      for (auto& row : slot.rows) slot.products.push_back(work(std::move(row)));
    } catch (const Failure& failure) {
      slot.error = failure.error();
    } catch (const std::exception& failure) {
      slot.error = thrown_error(failure, "reading rows", "free memory, or use fewer threads (--dataset_num_proc)");
    }
  }

  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::uint64_t filled_ = 0;
  std::uint64_t taken_ = 0;
  bool closed_ = false;
};

class Reporter {
 public:
  Reporter(const PipelineOptions& options, const RowReader& reader) : options_(options), reader_(reader) {
    report(false);  // whoever shows rates counts from here
  }
  void rows(std::uint64_t count) {
    rows_ += count;
    if (options_.progress && Clock::now() - last_ > std::chrono::milliseconds(200)) report(false);
  }
  void report(bool last) {
    if (!options_.progress) return;
    last_ = Clock::now();
    const double seconds = std::chrono::duration<double>(last_ - start_).count();
    options_.progress({options_.what, reader_.consumed(), reader_.total(), rows_, seconds, last});
  }

 private:
  using Clock = std::chrono::steady_clock;
  const PipelineOptions& options_;
  const RowReader& reader_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  std::uint64_t rows_ = 0;
};

// Reads the next batch; false at the end of the file.
bool fill(RowReader& reader, Slot& slot) {
  slot = Slot{};
  std::size_t bytes = 0;
  while (slot.rows.size() < kRowsPerBatch && bytes < kBytesPerBatch) {
    RawRow row;
    if (!reader.next(row).value()) break;
    bytes += row.json.size();
    slot.rows.push_back(std::move(row));
  }
  return !slot.rows.empty();
}

void drain(Slot& slot, const std::function<Status(std::unique_ptr<RowProduct>)>& take) {
  if (slot.error) throw Failure(*slot.error);
  for (auto& product : slot.products) take(std::move(product)).value();
  slot = Slot{};
}

}  // namespace

Status run_rows(const PipelineOptions& options, const std::function<RowWork()>& make_work,
                const std::function<Status(std::unique_ptr<RowProduct>)>& take) {
  return catching([&] {
    const auto reader = open_rows(options.path).value();
    const unsigned threads = options.threads == 0 ? 1 : options.threads;
    Ring ring(std::size_t{threads} * 4);
    std::vector<std::jthread> workers;
    // Declared after the ring, so that it closes it before the workers are joined, whatever is thrown.
    struct Closer {
      Ring& ring;
      ~Closer() { ring.close(); }
    };
    const Closer closer{ring};
    for (unsigned i = 0; i < threads; ++i) workers.emplace_back([&] { ring.serve(make_work); });
    Reporter reporter(options, *reader);
    std::uint64_t filled = 0;
    std::uint64_t emptied = 0;
    bool more = true;
    while (more || emptied < filled) {
      if (more && filled - emptied < ring.size()) {
        more = fill(*reader, ring.at(filled));
        if (more) ring.publish(filled++);
        continue;
      }
      ring.wait_done(emptied);
      Slot& slot = ring.at(emptied++);
      const std::size_t rows = slot.products.size();
      drain(slot, take);
      reporter.rows(rows);
    }
    reporter.report(true);
    return Unit{};
  });
}

}  // namespace tern::data
