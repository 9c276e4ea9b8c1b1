// Parquet files as rows. Read through Apache Arrow's C++ libraries where the build found them (parquet/arrow.cpp); else
// each is an Error that says so (parquet/absent.cpp).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "data/reader.h"

namespace tern::data {

// Whether this build reads Parquet.
[[nodiscard]] bool reads_parquet();

// Rows become JSON objects, one member a column: lists are arrays, structs objects, as are maps whose keys are strings,
// binary values base64, and dates, times and decimals text; NaN and infinities are null. A row's `line` is its number
// from 1. Memory holds a batch of rows and the pages that they lie in. Errors (data): a damaged file, an encrypted one.
[[nodiscard]] Result<std::unique_ptr<RowReader>> open_parquet(const std::string& path, const ReaderLimits& limits);

}  // namespace tern::data
