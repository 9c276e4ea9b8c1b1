// How the library that reads Parquet is called. It is made with this program, by the same compiler, and stands apart
// from it only because Arrow's libraries bring copies of other libraries whose symbols must not mix with ours.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "data/reader.h"

extern "C" void tern_open_parquet(const std::string& path, const tern::data::ReaderLimits& limits,
                                  tern::Result<std::unique_ptr<tern::data::RowReader>>& out);
