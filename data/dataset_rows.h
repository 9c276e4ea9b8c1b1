// Rows of one `--dataset` entry, through threads: what loading, streaming and plain reading share.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/pipeline.h"

namespace tern::data {

// A row behind normalisation and, where there is an encoder, behind encoding: an Error, a row or its samples; nothing
// of them where the row was not wanted.
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

  // What a line is a line of: the file, or the whole where there are several.
  [[nodiscard]] std::string name() const { return files.size() == 1 ? files[0] : spec.path; }
};
// Throws Failure.
[[nodiscard]] Source find_source(const std::string& spec, const LoadOptions& options);

// Whether its rows have the places {{NAME}} and {{AUTHOR}}, as swift/self-cognition's do.
[[nodiscard]] bool is_self_cognition(const Source& source);

// By its ending, that of a compression aside.
[[nodiscard]] bool is_data_file(const std::string& name);

using TakeProduct = std::function<Status(Normalized&)>;

// Runs every row through normalisation, and through `encoder` where one is given and `wanted` says so. `take` gets all
// rows in file order. Throws Failure.
void run_source(const Source& source, const LoadOptions& options, std::string_view verb, const RowEncoder* encoder,
                const std::function<bool(std::uint64_t ordinal)>& wanted, const TakeProduct& take);

// catching(), also for what the standard library throws: no memory, an unreadable directory.
template <typename Body>
auto guarded(const std::string& what, Body&& body) -> Result<decltype(body())> {
  try {
    return body();
  } catch (const Failure& failure) {
    return failure.error();
  } catch (const std::exception& failure) {
    return thrown_error(failure, what, "free memory, or look at the folder that it names");
  }
}

// Counts a bad row and keeps the first errors; throws where `strict`. Kept errors name files by number, `{0}`, as a
// cache may be found again by a copy of the file; name_files() puts the names in.
void count_bad(RowCounts& counts, const Source& source, const Error& error, bool strict);
void name_files(RowCounts& counts, const Source& source);
void count_encoded(RowCounts& counts, const EncodedRow& encoded);

// Ordinals of the rows that `#N` keeps of the good ones; nothing where it keeps all. Reads the file where there is an
// N.
[[nodiscard]] std::optional<std::vector<std::uint64_t>> chosen_rows(const Source& source, const LoadOptions& options,
                                                                    RowCounts& counts);

// The good rows that `#N` selects, in order, repeats included, without a cache. `take` returns false to stop. Throws
// Failure.
void take_rows(const Source& source, const LoadOptions& options, const RowEncoder* encoder, RowCounts& counts,
               const std::function<bool(Normalized&)>& take);

// Logs what was dropped, or throws where `strict`.
void warn_bad(const DatasetReport& report, bool strict);

}  // namespace tern::data
