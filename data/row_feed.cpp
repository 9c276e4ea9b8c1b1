#include "data/row_feed.h"

#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "data/pipeline.h"

namespace tern::data {
namespace {

constexpr std::size_t kAhead = 64;  // encoded rows that wait

struct Stopped {};  // thrown by a taker that wants no more rows, on its own thread

// At once, as a pass may take days. The line that counts them comes with its end.
void tell_bad(const RowCounts& counts, const Source& source) {
  if (counts.bad > RowCounts::kKeptErrors) return;
  RowCounts last;
  last.first_errors = {counts.first_errors.back()};
  name_files(last, source);
  log_warn(last.first_errors.front());
}

}  // namespace

bool feed_rows(const Source& source, const LoadOptions& load, const RowEncoder& encoder, bool tells,
               DatasetReport& report, const std::function<bool(FedRow)>& take) {
  std::uint64_t left = source.spec.count.value_or(~std::uint64_t{0});
  bool open = true;
  const std::string name = source.name();
  const auto each = [&](Normalized& product) -> Status {
    ++report.counts.rows;
    if (product.error) {
      count_bad(report.counts, source, *product.error, load.strict);
      if (tells) tell_bad(report.counts, source);
      return Unit{};
    }
    count_encoded(report.counts, *product.encoded);
    report.samples += product.encoded->samples.size();
    if (!product.encoded->samples.empty()) {
      open = take({std::move(product.encoded->samples), cat(name, ":", product.line)});
    }
    if (!open || --left == 0) throw Stopped{};
    return Unit{};
  };
  try {
    for (bool again = true; again;) {
      const std::uint64_t before = left;
      run_source(
          source, load, "reading", &encoder, [](std::uint64_t) { return true; }, each);
      again = source.spec.count && left < before;
    }
  } catch (const Stopped&) {
  }
  return open;
}

RowFeed::RowFeed(const std::string& spec, const LoadOptions& load, const RowEncoder& encoder, bool tells)
    : spec_(spec), load_(load), encoder_(encoder), queue_(kAhead), producer_([this, tells] { produce(tells); }) {}

RowFeed::~RowFeed() { queue_.close(); }

void RowFeed::produce(bool tells) {
  const auto ended = guarded("streaming rows", [&] {
    const Source source = find_source(spec_, load_);
    const auto take = [&](FedRow row) { return queue_.push({std::move(row), std::nullopt}); };
    for (bool first = tells;; first = false) {
      DatasetReport report{spec_, source.files};
      if (!feed_rows(source, load_, encoder_, first, report, take)) return Unit{};
      if (first) log_info(report.line());
      if (report.samples == 0) {
        throw Failure(data_error(spec_, "at least one supervised token", "none", "look at it with tern inspect-data"));
      }
      if (!queue_.push({})) return Unit{};
    }
  });
  if (!ended) (void)queue_.push({std::nullopt, ended.error()});
}

std::optional<FedRow> RowFeed::next() {
  Item item = queue_.pop();
  if (item.error) throw Failure(*item.error);
  return std::move(item.row);
}

}  // namespace tern::data
