#include "data/cached_dataset.h"

#include <charconv>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "data/cache.h"
#include "io/file_writer.h"
#include "io/json.h"
#include "io/json_field.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSamples = "samples.tokens";
constexpr const char* kDescription = "cached_dataset.json";
constexpr const char* kFormat = "tern cached dataset 1";
constexpr const char* kMend = "write it with tern export --to_cached_dataset true";

std::string value_of(const Settings& settings, std::string_view name) {
  for (const auto& [key, value] : settings) {
    if (key == name) return value;
  }
  return {};
}

std::uint64_t number_of(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Settings read_settings(const io::JsonField& json) {
  Settings out;
  for (const io::Json::Member& one : json.object()) out.emplace_back(one.key, json.member(one).text());
  return out;
}

void require_same(const fs::path& folder, const Settings& was, const Settings& is) {
  const bool drops = value_of(is, "truncation_strategy") == "delete";
  const bool shorter = number_of(value_of(is, "max_length")) <= number_of(value_of(was, "max_length"));
  std::vector<std::string> before;
  std::vector<std::string> now;
  for (const Difference& it : differences(was, is)) {
    if (it.name == "max_length" && drops && shorter) continue;
    before.push_back(cat(it.name, " ", it.was));
    now.push_back(cat(it.name, " ", it.is));
  }
  if (before.empty()) return;
  throw Failure(usage_error(
      cat(folder.string(), " was tokenised with ", join(before, ", "), ", and this run has ", join(now, ", ")),
      "give the same, or export the data set again"));
}

}  // namespace

Status write_cached_dataset(const EncodedDataset& dataset, const Settings& settings, const fs::path& folder) {
  return catching([&] {
    std::error_code error;
    fs::create_directories(folder, error);
    fs::remove(folder / kDescription, error);  // of a set that is replaced
    const auto specs = dataset.columns();
    const auto writer =
        SampleCacheWriter::create(folder / kSamples, std::vector<ColumnSpec>(specs.begin(), specs.end())).value();
    RowCounts counts;
    for (std::uint32_t id = 0; id < dataset.size(); ++id) {
      if (dataset.begins_row(id)) ++counts.rows;
      std::vector<std::vector<std::byte>> columns;
      for (std::size_t c = 0; c < specs.size(); ++c) {
        const auto bytes = dataset.column(id, c);
        columns.emplace_back(bytes.begin(), bytes.end());
      }
      writer->add(dataset.sample(id), columns, counts.rows - 1, counts.rows, dataset.begins_group(id)).value();
    }
    counts.selected = counts.rows;
    writer->finish(counts).value();
    io::Json json = {
        {"format", kFormat}, {"rows", counts.rows}, {"samples", dataset.size()}, {"tokens", dataset.tokens()}};
    json["settings"] = io::Json::object();
    for (const auto& [name, value] : settings) json["settings"][name] = value;
    io::replace_file(folder / kDescription, json.dump(2) + "\n").value();
    return Unit{};
  });
}

Result<CachedDataset> open_cached_dataset(const fs::path& folder, const Settings& wanted) {
  return catching([&] {
    const fs::path file = folder / kDescription;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) {
      throw Failure(data_error(folder.string(), "a folder of tokenised rows", cat("none with ", kDescription), kMend));
    }
    const io::Json document = io::read_json_file(file).value();
    const io::JsonField json(document, file.string(), kMend);
    if (const auto format = json.at("format"); format.text() != kFormat) {
      throw Failure(data_error(format.where(), kFormat, std::string(format.text()), kMend));
    }
    require_same(folder, read_settings(json.at("settings")), wanted);
    CachedDataset out{SampleCache::open(folder / kSamples).value(), number_of(value_of(wanted, "max_length"))};
    if (out.longest == 0) out.longest = std::numeric_limits<std::uint64_t>::max();
    return out;
  });
}

}  // namespace tern::data
