#include "data/parquet.h"

namespace tern::data {

bool reads_parquet() { return false; }

Result<std::unique_ptr<RowReader>> open_parquet(const std::string& path, const ReaderLimits&) {
  return data_error(path, "JSON lines, a JSON array or CSV", "a Parquet file, and a build without Apache Arrow",
                    "build tern where Arrow's C++ packages are (docs/data.md), or convert the file, for example with "
                    "Python: datasets.load_dataset(...).to_json(\"rows.jsonl\")");
}

}  // namespace tern::data
