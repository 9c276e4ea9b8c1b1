#include "data/dataset.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "data/sampler.h"
#include "io/checksum.h"
#include "io/system_error.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;

// Bumped whenever the same row and settings would give other samples.
constexpr std::string_view kFormat = "tern data 1";
constexpr std::uint64_t kSplitStream = 0x5911f;

struct Normalized final : RowProduct {
  std::optional<Row> row;
  std::optional<Error> error;
  std::optional<EncodedRow> encoded;
  std::uint64_t ordinal = 0;
  std::uint64_t line = 0;
};

// Rows of all files of one dataset; ordinals run on from file to file.
struct Source {
  DatasetSpec spec;
  std::vector<std::string> files;
};

using Take = std::function<Status(Normalized&)>;

// Runs every row through normalisation, and through `encoder` where one is given and `wanted` says so.
void run_source(const Source& source, const LoadOptions& options, std::string_view verb, const RowEncoder* encoder,
                const std::function<bool(std::uint64_t ordinal)>& wanted, const Take& take) {
  std::uint64_t base = 0;
  for (const auto& file : source.files) {
    std::uint64_t rows = 0;
    const auto make_work = [&]() -> RowWork {
      auto normalizer = std::make_shared<Normalizer>(options.normalize);
      return [&, normalizer](RawRow&& raw) -> std::unique_ptr<RowProduct> {
        auto product = std::make_unique<Normalized>();
        raw.ordinal += base;
        product->ordinal = raw.ordinal;
        product->line = raw.line;
        if (!wanted(raw.ordinal)) return product;
        auto row = normalizer->row(raw, file);
        if (!row) {
          product->error = row.error();
          return product;
        }
        if (encoder != nullptr) {
          auto encoded = encoder->encode(*row);
          if (encoded) {
            product->encoded = std::move(*encoded);
          } else {
            product->error = encoded.error();
          }
          return product;
        }
        product->row = std::move(*row);
        return product;
      };
    };
    const PipelineOptions pipeline{file, options.dataset_num_proc, cat(verb, " ", fs::path(file).filename().string()),
                                   options.progress};
    run_rows(pipeline, make_work, [&](std::unique_ptr<RowProduct> product) {
      ++rows;
      return take(static_cast<Normalized&>(*product));
    }).value();
    base += rows;
  }
}

// Kept errors name files by number, `{0}`, as the cache may be found again by a copy of the file.
void count_bad(RowCounts& counts, const Source& source, const Error& error, bool strict) {
  if (strict) throw Failure(error);
  ++counts.bad;
  if (counts.first_errors.size() >= RowCounts::kKeptErrors) return;
  std::string line = error.line();
  for (std::size_t i = 0; i < source.files.size(); ++i) {
    if (line.starts_with(source.files[i] + ":")) {
      line.replace(0, source.files[i].size(), cat("{", i, "}"));
      break;
    }
  }
  counts.first_errors.push_back(std::move(line));
}

void name_files(RowCounts& counts, const Source& source) {
  for (auto& line : counts.first_errors) {
    for (std::size_t i = 0; i < source.files.size(); ++i) {
      const std::string number = cat("{", i, "}");
      if (line.starts_with(number)) {
        line.replace(0, number.size(), source.files[i]);
        break;
      }
    }
  }
}

// Ordinals of the rows that `#N` keeps of the good ones; nothing where it keeps all.
std::optional<std::vector<std::uint64_t>> chosen_rows(const Source& source, const LoadOptions& options,
                                                      RowCounts& counts) {
  if (!source.spec.count) return std::nullopt;
  std::vector<std::uint64_t> good;
  run_source(
      source, options, "reading", nullptr, [](std::uint64_t) { return true; },
      [&](Normalized& product) -> Status {
        ++counts.rows;
        if (product.error) {
          count_bad(counts, source, *product.error, options.strict);
        } else {
          good.push_back(product.ordinal);
        }
        return Unit{};
      });
  if (*source.spec.count >= good.size()) {
    counts = RowCounts{};  // they are all read again, and counted then
    return std::nullopt;
  }
  std::vector<std::uint64_t> out;
  for (const std::uint32_t index :
       select_rows(static_cast<std::uint32_t>(good.size()), source.spec.count, options.data_seed)) {
    out.push_back(good[index]);
  }
  return out;
}

void count_encoded(RowCounts& counts, const EncodedRow& encoded) {
  counts.too_long += encoded.too_long && encoded.samples.empty() ? 1 : 0;
  counts.truncated += encoded.truncated;
  counts.split_rows += encoded.split ? 1 : 0;
  counts.split_turns += encoded.split_turns ? 1 : 0;
  counts.unsupervised += encoded.samples.empty() && !encoded.too_long ? 1 : 0;
}

void encode_source(const Source& source, const LoadOptions& options, const RowEncoder& encoder,
                   SampleCacheWriter& writer) {
  RowCounts counts;
  const auto chosen = chosen_rows(source, options, counts);
  const auto wanted = [&](std::uint64_t ordinal) {
    return !chosen || std::binary_search(chosen->begin(), chosen->end(), ordinal);
  };
  run_source(source, options, "tokenising", &encoder, wanted, [&](Normalized& product) -> Status {
    if (!chosen) ++counts.rows;
    if (product.error) {
      count_bad(counts, source, *product.error, options.strict);
    } else if (product.encoded) {
      ++counts.selected;
      count_encoded(counts, *product.encoded);
      for (const Sample& sample : product.encoded->samples) {
        if (auto added = writer.add(sample, product.ordinal, product.line); !added) return added;
      }
    }
    return Unit{};
  });
  writer.finish(counts).value();
}

std::string cache_key(const Source& source, const LoadOptions& options, const RowEncoder& encoder) {
  io::Xxh3 hash;
  const auto add = [&](std::string_view part) {
    const std::string size = cat(part.size(), ":");
    hash.update(std::as_bytes(std::span(size)));
    hash.update(std::as_bytes(std::span(part)));
  };
  add(kFormat);
  add(encoder.fingerprint());
  add(options.normalize.system);
  for (const auto& [from, to] : options.normalize.columns) {
    add(from);
    add(to);
  }
  add(source.spec.count ? cat(*source.spec.count, "/", options.data_seed) : std::string());
  for (const auto& file : source.files) {
    add(io::xxh3_64_of_file(file).value());
  }
  return hash.hex();
}

std::shared_ptr<const SampleCache> encoded_source(const Source& source, const LoadOptions& options,
                                                  const RowEncoder& encoder, DatasetReport& report) {
  const fs::path target = options.cache_directory / cat(cache_key(source, options, encoder), ".tokens");
  const auto cached = [&]() -> std::shared_ptr<const SampleCache> {
    if (!options.load_from_cache_file || !fs::exists(target)) return nullptr;
    auto cache = SampleCache::open(target);
    if (!cache) {
      log_warn(cat(cache.error().line(), "; it is made anew"));
      return nullptr;
    }
    report.cached = true;
    return *cache;
  };
  if (auto cache = cached()) return cache;
  const auto lock = CacheLock::acquire(target).value();
  if (auto cache = cached()) return cache;  // another process made it meanwhile
  const auto writer = SampleCacheWriter::create(target).value();
  encode_source(source, options, encoder, *writer);
  return SampleCache::open(target).value();
}

// Samples of each surviving row, as [begin, end) in the store.
struct RowRanges {
  std::vector<std::uint32_t> begin;
  std::uint32_t end = 0;
  explicit RowRanges(const SampleStore& store) : end(store.size()) {
    for (std::uint32_t i = 0; i < end; ++i) {
      if (i == 0 || store.info(i).row != store.info(i - 1).row) begin.push_back(i);
    }
  }
  void append(std::vector<std::uint32_t>& out, std::uint32_t row) const {
    const std::uint32_t last = row + 1 < begin.size() ? begin[row + 1] : end;
    for (std::uint32_t i = begin[row]; i < last; ++i) out.push_back(i);
  }
};

struct Part {
  std::vector<std::uint32_t> train, validation;  // indices of samples
};

// Rows are held out before they are repeated, so that none is in both parts.
Part divide(const std::shared_ptr<const SampleCache>& cache, const Source& source, const LoadOptions& options,
            double ratio, std::vector<std::uint64_t>& held_out) {
  const RowRanges ranges(*cache);
  const auto rows = static_cast<std::uint32_t>(ranges.begin.size());
  Part part;
  std::vector<bool> held(rows, false);
  std::uint32_t kept_out = 0;
  if (ratio > 0 && rows > 1) {
    const auto wish = static_cast<std::uint32_t>(static_cast<double>(rows) * ratio);
    kept_out = std::clamp<std::uint32_t>(wish, 1, rows - 1);
    const Permutation order(rows, options.data_seed, kSplitStream);
    for (std::uint32_t i = 0; i < kept_out; ++i) held[order(i)] = true;
  }
  std::vector<std::uint32_t> rest;
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (!held[row]) {
      rest.push_back(row);
      continue;
    }
    held_out.push_back(cache->info(ranges.begin[row]).row);
    ranges.append(part.validation, row);
  }
  // `#N` above the length repeats what there is; the held-out rows count towards N.
  std::optional<std::uint64_t> count;
  const std::uint64_t good = cache->counts().selected;
  if (source.spec.count && *source.spec.count > good) {
    count = std::max<std::uint64_t>(*source.spec.count - kept_out, rest.size());
  }
  for (const std::uint32_t i : select_rows(static_cast<std::uint32_t>(rest.size()), count, options.data_seed)) {
    ranges.append(part.train, rest[i]);
  }
  return part;
}

void warn_bad(const DatasetReport& report, bool strict) {
  const RowCounts& counts = report.counts;
  if (counts.bad == 0) return;
  if (strict) {
    throw Failure(Error{ErrorKind::data, counts.first_errors.empty() ? report.spec : counts.first_errors.front()});
  }
  for (const auto& line : counts.first_errors) log_warn(line);
  const std::uint64_t unnamed = counts.bad - std::min<std::uint64_t>(counts.bad, counts.first_errors.size());
  log_warn(cat(report.spec, ": ", counts.bad, " bad ", counts.bad == 1 ? "row" : "rows", " dropped",
               unnamed > 0 ? cat(" (", unnamed, " more than shown)") : std::string()));
}

void load_one(const std::string& text, const LoadOptions& options, const RowEncoder& encoder, bool validation,
              LoadedData& data) {
  Source source{parse_dataset_spec(text).value(), {}};
  source.files = dataset_files(source.spec, options.hub).value();
  DatasetReport report{text, source.files};
  const auto cache = encoded_source(source, options, encoder, report);
  report.counts = cache->counts();
  name_files(report.counts, source);
  warn_bad(report, options.strict);
  std::vector<std::uint64_t> held_out;
  const Part part = divide(cache, source, options, validation ? 0 : options.split_dataset_ratio, held_out);
  report.samples = part.train.size() + part.validation.size();
  for (const std::uint64_t ordinal : held_out) data.held_out.emplace_back(data.reports.size(), ordinal);
  data.reports.push_back(std::move(report));
  (validation ? data.validation : data.train).add(cache, part.train);
  if (!part.validation.empty()) data.validation.add(cache, part.validation);
}

std::string ending(const std::string& name) {
  std::string_view rest = name;
  for (const std::string_view suffix : {".gz", ".zst", ".zstd"}) {
    if (rest.ends_with(suffix)) rest.remove_suffix(suffix.size());
  }
  return fs::path(rest).extension().string();
}

bool is_data_file(const std::string& name) {
  static const std::set<std::string> kEndings{".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet"};
  return kEndings.contains(ending(name));
}

}  // namespace

std::string DatasetReport::line() const {
  std::string out = cat(spec, ": ", counts.rows, " rows");
  const auto add = [&](std::uint64_t count, std::string_view what) {
    if (count > 0) out += cat(", ", count, " ", what);
  };
  add(counts.bad, "bad (dropped)");
  add(counts.too_long, "longer than max_length (dropped)");
  add(counts.unsupervised, "without a supervised token (dropped)");
  add(counts.truncated, "shortened to max_length");
  add(counts.split_rows, "cut at max_length");
  add(counts.split_turns, "with a sample for each turn, as the template changes earlier turns");
  return cat(out, "; ", samples, " samples", cached ? " (from the cache)" : "");
}

Result<std::vector<std::string>> dataset_files(const DatasetSpec& spec, const HubResolver& hub) {
  std::error_code ignored;
  const fs::path path(spec.path);
  const auto in_directory = [&](const fs::path& directory) -> Result<std::vector<std::string>> {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
      if (entry.is_regular_file(ignored) && is_data_file(entry.path().filename().string())) {
        files.push_back(entry.path().string());
      }
    }
    std::sort(files.begin(), files.end());
    if (files.empty()) {
      return data_error(directory.string(), "a directory with .jsonl, .json or .csv files", "none in it");
    }
    return files;
  };
  if (fs::is_directory(path, ignored)) return in_directory(path);
  if (fs::exists(path, ignored)) return std::vector<std::string>{spec.path};
  const bool local = spec.path.starts_with('.') || spec.path.starts_with('/') || spec.path.starts_with('~') ||
                     is_data_file(spec.path) || spec.path.find('/') == std::string::npos;
  if (local) return data_error(spec.path, "a data file", "no such file", "check the path given to --dataset");
  if (!hub) {
    return data_error(spec.path, "a data file", "no such file, and no hub to look for it", "give a local path");
  }
  const auto found = hub(spec.path);
  if (!found) return found.error();
  std::vector<std::string> files;
  for (const auto& file : *found) files.push_back(file.string());
  if (files.empty()) return data_error(spec.path, "a data set with .jsonl, .json or .csv files", "none in it");
  return files;
}

Result<LoadedData> load_datasets(const LoadOptions& options, const RowEncoder& encoder) {
  return catching([&] {
    if (!(options.split_dataset_ratio >= 0 && options.split_dataset_ratio < 1)) {
      throw Failure(usage_error("--split_dataset_ratio", "at least 0 and below 1", cat(options.split_dataset_ratio)));
    }
    if (options.dataset.empty() && options.val_dataset.empty()) {
      throw Failure(usage_error("--dataset", "a data file", "none"));
    }
    LoadedData data;
    for (const auto& spec : options.dataset) load_one(spec, options, encoder, false, data);
    for (const auto& spec : options.val_dataset) load_one(spec, options, encoder, true, data);
    if (!options.dataset.empty() && data.train.supervised() == 0) {
      throw Failure(data_error(join(options.dataset, ", "), "at least one supervised token",
                               data.reports.front().line(), "look at it with tern inspect-data"));
    }
    return data;
  });
}

namespace {

struct Stopped {};  // thrown by a taker that wants no more rows, on the caller's own thread

void take_rows(const Source& source, const LoadOptions& options, RowsReport& report,
               const std::function<bool(Row&&)>& take) {
  auto chosen = chosen_rows(source, options, report.counts);
  const bool counted = report.counts.rows > 0;
  std::uint64_t left = source.spec.count.value_or(~std::uint64_t{0});
  // One pass where all rows are taken once; more where N asks for repeats, the last over a selection.
  for (bool first = true; left > 0; first = false) {
    std::vector<std::uint64_t> good;
    const auto wanted = [&](std::uint64_t ordinal) {
      return !chosen || std::binary_search(chosen->begin(), chosen->end(), ordinal);
    };
    run_source(source, options, "reading", nullptr, wanted, [&](Normalized& product) -> Status {
      if (first && !counted) {
        ++report.counts.rows;
        if (product.error) count_bad(report.counts, source, *product.error, options.strict);
      }
      if (!product.row) return Unit{};
      good.push_back(product.ordinal);
      if (first) ++report.counts.selected;
      if (!take(std::move(*product.row))) throw Stopped{};
      return Unit{};
    });
    if (!source.spec.count || good.empty() || chosen) return;
    left -= std::min<std::uint64_t>(left, good.size());
    if (left == 0 || left >= good.size()) continue;
    chosen.emplace();
    for (const std::uint32_t i : select_rows(static_cast<std::uint32_t>(good.size()), left, options.data_seed)) {
      chosen->push_back(good[i]);
    }
  }
}

}  // namespace

Result<RowsReport> for_each_row(const std::string& spec, const LoadOptions& options,
                                const std::function<bool(Row&&)>& take) {
  return catching([&] {
    Source source{parse_dataset_spec(spec).value(), {}};
    source.files = dataset_files(source.spec, options.hub).value();
    RowsReport report;
    try {
      take_rows(source, options, report, take);
    } catch (const Stopped&) {
    }
    name_files(report.counts, source);
    warn_bad(DatasetReport{spec, source.files, report.counts}, options.strict);
    return report;
  });
}

Status write_held_out(const LoadOptions& options, const LoadedData& data, const fs::path& target) {
  return catching([&] {
    std::ofstream out(target, std::ios::binary | std::ios::trunc);
    for (std::size_t index = 0; index < data.reports.size(); ++index) {
      std::vector<std::uint64_t> ordinals;
      for (const auto& [report, ordinal] : data.held_out) {
        if (report == index) ordinals.push_back(ordinal);
      }
      if (ordinals.empty()) continue;
      const Source source{parse_dataset_spec(data.reports[index].spec).value(), data.reports[index].files};
      run_source(
          source, options, "writing", nullptr,
          [&](std::uint64_t ordinal) { return std::binary_search(ordinals.begin(), ordinals.end(), ordinal); },
          [&](Normalized& product) -> Status {
            if (product.row) out << to_json(*product.row) << '\n';
            return Unit{};
          });
    }
    out.close();
    if (!out) throw Failure(io::write_error(target.string(), errno));
    return Unit{};
  });
}

}  // namespace tern::data
