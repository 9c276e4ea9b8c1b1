#include "data/dataset.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <optional>

#include "base/log.h"
#include "base/strings.h"
#include "data/cached_dataset.h"
#include "data/dataset_rows.h"
#include "data/sampler.h"
#include "io/checksum.h"
#include "io/system_error.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;

// Bumped whenever the same row and settings would give other samples.
constexpr std::string_view kFormat = "tern data 2";
constexpr std::uint64_t kSplitStream = 0x5911f;

void encode_source(const Source& source, const LoadOptions& options, const RowEncoder& encoder, RowCounts& counts,
                   const std::function<Status(EncodedRow&, const Normalized&)>& take) {
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
      return take(*product.encoded, product);
    }
    return Unit{};
  });
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
  if (options.strict) add("strict");  // takes fewer rows
  for (const auto& [from, to] : options.normalize.columns) {
    add(from);
    add(to);
  }
  if (is_self_cognition(source)) {
    for (const auto& one : options.normalize.placeholders) {
      for (const auto& part : {one.place, one.chinese, one.other}) add(part);
    }
  }
  add(source.spec.count ? cat(*source.spec.count, "/", options.data_seed) : std::string());
  for (const auto& file : source.files) {
    add(io::xxh3_64_of_file(file).value());
  }
  return hash.hex();
}

std::shared_ptr<const SampleStore> encoded_source(const Source& source, const LoadOptions& options,
                                                  const RowEncoder& encoder, DatasetReport& report) {
  const fs::path target = options.cache_directory / cat(cache_key(source, options, encoder), ".tokens");
  const auto cached = [&]() -> std::shared_ptr<const SampleCache> {
    std::error_code ignored;
    if (!options.load_from_cache_file || !fs::exists(target, ignored)) return nullptr;
    auto cache = SampleCache::open(target);
    if (!cache) {
      log_warn(cat(cache.error().line(), "; it is made anew"));
      return nullptr;
    }
    report.cached = true;
    return *cache;
  };
  const auto counted = [&](std::shared_ptr<const SampleCache> cache) {
    report.counts = cache->counts();
    return cache;
  };
  if (auto cache = cached()) return counted(std::move(cache));
  const auto lock = CacheLock::acquire(target).value();
  if (auto cache = cached()) return counted(std::move(cache));  // another process made it meanwhile
  const auto columns = encoder.columns();
  const auto writer =
      SampleCacheWriter::create(target, std::vector<ColumnSpec>(columns.begin(), columns.end())).value();
  RowCounts counts;
  encode_source(source, options, encoder, counts, [&](const EncodedRow& row, const Normalized& product) -> Status {
    const std::uint32_t group_size = std::max<std::uint32_t>(row.group_size, 1);
    for (std::size_t i = 0; i < row.samples.size(); ++i) {
      const Sample& sample = row.samples[i];
      auto added =
          writer->add({sample.ids, sample.weights}, sample.columns, product.ordinal, product.line, i % group_size == 0);
      if (!added) return added;
    }
    return Unit{};
  });
  writer->finish(counts).value();
  return counted(SampleCache::open(target).value());
}

// Rows one after another, each with indices of its samples.
struct RowSamples {
  std::vector<std::uint32_t> samples;
  std::vector<std::uint32_t> begin;  // [rows] into `samples`

  [[nodiscard]] std::uint32_t rows() const { return static_cast<std::uint32_t>(begin.size()); }
  [[nodiscard]] std::span<const std::uint32_t> row(std::uint32_t row) const {
    const std::size_t last = row + 1 < begin.size() ? begin[row + 1] : samples.size();
    return std::span(samples).subspan(begin[row], last - begin[row]);
  }
};

// Samples of each surviving row, as [begin, end) in the store.
struct RowRanges {
  std::vector<std::uint32_t> begin;
  std::uint32_t end = 0;
  explicit RowRanges(const SampleStore& store) : end(store.size()) {
    for (std::uint32_t i = 0; i < end; ++i) {
      if (i == 0 || store.info(i).row != store.info(i - 1).row) begin.push_back(i);
    }
  }
  void append(RowSamples& out, std::uint32_t row) const {
    const std::uint32_t last = row + 1 < begin.size() ? begin[row + 1] : end;
    out.begin.push_back(static_cast<std::uint32_t>(out.samples.size()));
    for (std::uint32_t i = begin[row]; i < last; ++i) out.samples.push_back(i);
  }
};

struct Part {
  std::shared_ptr<const SampleStore> store;
  std::string name;    // what its rows' lines are lines of
  std::size_t report;  // index in LoadedData::reports
  RowSamples train;
  RowSamples validation;
};

// Rows are held out before they are repeated, so that none is in both parts.
void divide(std::uint64_t good, const Source& source, const LoadOptions& options, double ratio, Part& part) {
  const RowRanges ranges(*part.store);
  const auto rows = static_cast<std::uint32_t>(ranges.begin.size());
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
    if (held[row]) {
      ranges.append(part.validation, row);
    } else {
      rest.push_back(row);
    }
  }
  // `#N` above the length repeats what there is; the held-out rows count towards N.
  std::optional<std::uint64_t> count;
  if (source.spec.count && *source.spec.count > good) {
    count = std::max<std::uint64_t>(*source.spec.count - kept_out, rest.size());
  }
  for (const std::uint32_t i : select_rows(static_cast<std::uint32_t>(rest.size()), count, options.data_seed)) {
    ranges.append(part.train, rest[i]);
  }
}

Part load_part(const std::string& text, const LoadOptions& options, const RowEncoder& encoder, double ratio,
               LoadedData& data) {
  const Source source = find_source(text, options);
  DatasetReport report{text, source.files};
  Part part{encoded_source(source, options, encoder, report), source.name(), data.reports.size(), {}, {}};
  name_files(report.counts, source);
  warn_bad(report, options.strict);
  divide(report.counts.selected, source, options, ratio, part);
  data.reports.push_back(std::move(report));
  return part;
}

// One after another, or as a mixture. Gives which rows of each part are in it.
std::vector<std::vector<bool>> join_parts(const std::vector<Part>& parts, RowSamples Part::*rows,
                                          const LoadOptions& options, EncodedDataset& out, LoadedData& data) {
  std::vector<std::vector<bool>> taken;
  std::vector<std::uint32_t> counts;
  std::vector<std::uint32_t> stores;
  for (const Part& part : parts) {
    counts.push_back((part.*rows).rows());
    taken.emplace_back(counts.back(), false);
    stores.push_back(counts.back() > 0 ? out.add_store(part.store, part.name) : 0);
  }
  const auto take = [&](std::uint32_t part, std::uint32_t row) {
    const auto samples = (parts[part].*rows).row(row);
    out.append(stores[part], samples);
    data.reports[parts[part].report].samples += samples.size();
    taken[part][row] = true;
  };
  const bool any = std::any_of(counts.begin(), counts.end(), [](std::uint32_t count) { return count > 0; });
  if (options.interleave.on() && any) {
    for (std::uint32_t part = 0; part < parts.size(); ++part) {
      if (counts[part] > 0) continue;
      throw Failure(data_error(data.reports[parts[part].report].spec, "a row for --interleave_prob to take", "none",
                               "leave the data set out, or look at it with tern inspect-data"));
    }
    for (const auto& [part, row] : interleaved(counts, options.interleave, options.data_seed)) take(part, row);
    return taken;
  }
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    const auto& samples = (parts[part].*rows).samples;
    if (!samples.empty()) out.append(stores[part], samples);
    data.reports[parts[part].report].samples += samples.size();
    taken[part].assign(counts[part], true);
  }
  return taken;
}

void load_training(const LoadOptions& options, const RowEncoder& encoder, LoadedData& data) {
  check_interleave(options.interleave, options.dataset.size()).value();
  std::vector<Part> parts;
  for (const auto& spec : options.dataset) {
    parts.push_back(load_part(spec, options, encoder, options.split_dataset_ratio, data));
  }
  (void)join_parts(parts, &Part::train, options, data.train, data);
  const auto held_out = join_parts(parts, &Part::validation, options, data.validation, data);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const RowSamples& rows = parts[p].validation;
    for (std::uint32_t row = 0; row < rows.rows(); ++row) {
      if (held_out[p][row])
        data.held_out.emplace_back(parts[p].report, parts[p].store->info(rows.row(row).front()).row);
    }
  }
}

// FOLDER or FOLDER#N.
void load_cached(const std::string& text, const LoadOptions& options, const Settings& wanted, EncodedDataset& out,
                 LoadedData& data) {
  std::error_code ignored;
  const DatasetSpec spec = fs::exists(text, ignored) ? DatasetSpec{text, {}} : parse_dataset_spec(text).value();
  const CachedDataset cached = open_cached_dataset(spec.path, wanted).value();
  DatasetReport report{text, {spec.path}, {}, 0, true};
  const RowRanges ranges(*cached.store);
  RowSamples fitting;
  for (std::uint32_t row = 0; row < ranges.begin.size(); ++row) {
    ++report.counts.rows;
    const std::size_t before = fitting.samples.size();
    ranges.append(fitting, row);
    const bool fits = std::all_of(fitting.samples.begin() + static_cast<std::ptrdiff_t>(before), fitting.samples.end(),
                                  [&](std::uint32_t i) { return cached.store->info(i).length <= cached.longest; });
    if (fits) continue;
    ++report.counts.too_long;
    fitting.samples.resize(before);
    fitting.begin.pop_back();
  }
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t row : select_rows(fitting.rows(), spec.count, options.data_seed)) {
    const auto samples = fitting.row(row);
    chosen.insert(chosen.end(), samples.begin(), samples.end());
  }
  report.samples = chosen.size();
  data.reports.push_back(std::move(report));
  out.add(cached.store, chosen, spec.path);
}

void load_validation(LoadOptions options, const RowEncoder& encoder, LoadedData& data) {
  options.interleave = {};  // of the training data alone
  std::vector<Part> parts;
  for (const auto& spec : options.val_dataset) parts.push_back(load_part(spec, options, encoder, 0, data));
  (void)join_parts(parts, &Part::train, options, data.validation, data);
}

}  // namespace

Settings row_settings(const LoadOptions& options, const RowEncoder& encoder) {
  Settings out = encoder.settings();
  const std::string& system = options.normalize.system;
  out.emplace_back("system", system.empty() ? system : cat("xxh3_64 ", io::xxh3_64(std::as_bytes(std::span(system)))));
  return out;
}

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

Result<LoadedData> load_datasets(const LoadOptions& options, const RowEncoder& encoder) {
  return guarded("loading datasets", [&] {
    if (!(options.split_dataset_ratio >= 0 && options.split_dataset_ratio < 1)) {
      throw Failure(
          usage_error(cat("--split_dataset_ratio ", options.split_dataset_ratio, " is not a share of the rows"),
                      "give a number from 0 to below 1, such as 0.01"));
    }
    if (options.split_dataset_ratio > 0 && !options.val_dataset.empty()) {
      throw Failure(usage_error("--split_dataset_ratio and --val_dataset cannot be used together", "drop one"));
    }
    const bool cached = !options.cached_dataset.empty() || !options.cached_val_dataset.empty();
    if (options.dataset.empty() && options.val_dataset.empty() && !cached) {
      throw Failure(usage_error("no dataset was given", "name a file, as in --dataset train.jsonl"));
    }
    LoadedData data;
    const Settings wanted = row_settings(options, encoder);
    for (const auto& folder : options.cached_dataset) load_cached(folder, options, wanted, data.train, data);
    for (const auto& folder : options.cached_val_dataset) load_cached(folder, options, wanted, data.validation, data);
    if (!options.dataset.empty()) load_training(options, encoder, data);
    load_validation(options, encoder, data);
    std::vector<std::string> training = options.cached_dataset;
    training.insert(training.end(), options.dataset.begin(), options.dataset.end());
    if (options.needs_supervision && !training.empty() && data.train.supervised() == 0) {
      throw Failure(data_error(join(training, ", "), "at least one supervised token", data.reports.front().line(),
                               "look at it with tern inspect-data"));
    }
    return data;
  });
}

Result<RowsReport> for_each_row(const std::string& spec, const LoadOptions& options,
                                const std::function<bool(Row&&)>& take) {
  return guarded("reading rows", [&] {
    const Source source = find_source(spec, options);
    RowsReport report;
    take_rows(source, options, nullptr, report.counts,
              [&](Normalized& product) { return take(std::move(*product.row)); });
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
