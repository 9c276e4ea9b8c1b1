#include "data/dataset_rows.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "base/log.h"
#include "base/strings.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;

std::string ending(const std::string& name) {
  std::string_view rest = name;
  for (const std::string_view suffix : {".gz", ".zst", ".zstd"}) {
    if (rest.ends_with(suffix)) rest.remove_suffix(suffix.size());
  }
  return fs::path(rest).extension().string();
}

struct Stopped {};  // thrown by a taker that wants no more rows, on the caller's own thread

void take_passes(const Source& source, const LoadOptions& options, const RowEncoder* encoder, RowCounts& counts,
                 const std::function<bool(Normalized&)>& take) {
  auto chosen = chosen_rows(source, options, counts);
  const bool counted = counts.rows > 0;
  std::uint64_t left = source.spec.count.value_or(~std::uint64_t{0});
  // One pass where all rows are taken once; more where N asks for repeats, the last over a selection.
  for (bool first = true; left > 0; first = false) {
    std::vector<std::uint64_t> good;
    const auto wanted = [&](std::uint64_t ordinal) {
      return !chosen || std::binary_search(chosen->begin(), chosen->end(), ordinal);
    };
    run_source(source, options, "reading", encoder, wanted, [&](Normalized& product) -> Status {
      if (first && !counted) {
        ++counts.rows;
        if (product.error) count_bad(counts, source, *product.error, options.strict);
      }
      if (!product.row && !product.encoded) return Unit{};
      if (source.spec.count) good.push_back(product.ordinal);
      if (first) ++counts.selected;
      if (first && product.encoded) count_encoded(counts, *product.encoded);
      if (!take(product)) throw Stopped{};
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

bool is_self_cognition(const Source& source) { return source.spec.path.find("self-cognition") != std::string::npos; }

// Runs every row through normalisation, and through `encoder` where one is given and `wanted` says so.
void run_source(const Source& source, const LoadOptions& options, std::string_view verb, const RowEncoder* encoder,
                const std::function<bool(std::uint64_t ordinal)>& wanted, const TakeProduct& take) {
  std::uint64_t base = 0;
  const bool own_name = is_self_cognition(source);
  for (const auto& file : source.files) {
    std::uint64_t rows = 0;
    const auto make_work = [&]() -> RowWork {
      NormalizeOptions normalize = options.normalize;
      normalize.strict = options.strict;
      if (!own_name) normalize.placeholders.clear();
      auto normalizer = std::make_shared<Normalizer>(std::move(normalize));
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

bool is_data_file(const std::string& name) {
  static const std::set<std::string> kEndings{".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet"};
  return kEndings.contains(ending(name));
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
      return data_error(directory.string(), "a directory with .jsonl, .json or .csv files", "none in it",
                        "name the file, or the directory that holds the files");
    }
    return files;
  };
  if (fs::is_directory(path, ignored)) return in_directory(path);
  if (fs::exists(path, ignored)) return std::vector<std::string>{spec.path};
  const bool local = spec.path.starts_with('.') || spec.path.starts_with('/') || spec.path.starts_with('~') ||
                     is_data_file(spec.path) || spec.path.find('/') == std::string::npos;
  if (local) return data_error(spec.path, "a data file", "no such file", "check the path");
  if (!hub) {
    return data_error(spec.path, "a data file", "no such file, and no hub to look for it", "give a local path");
  }
  const auto found = hub(spec.path);
  if (!found) return found.error();
  std::vector<std::string> files;
  for (const auto& file : *found) files.push_back(file.string());
  if (files.empty())
    return data_error(spec.path, "a data set with .jsonl, .json or .csv files", "none in it",
                      "name a data set with rows in such files");
  return files;
}

Source find_source(const std::string& spec, const LoadOptions& options) {
  Source source{parse_dataset_spec(spec).value(), {}};
  source.files = dataset_files(source.spec, options.hub).value();
  return source;
}

void take_rows(const Source& source, const LoadOptions& options, const RowEncoder* encoder, RowCounts& counts,
               const std::function<bool(Normalized&)>& take) {
  try {
    take_passes(source, options, encoder, counts, take);
  } catch (const Stopped&) {
  }
}

}  // namespace tern::data
