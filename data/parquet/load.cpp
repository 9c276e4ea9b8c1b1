#include <dlfcn.h>

#include <filesystem>

#include "base/strings.h"
#include "data/parquet.h"
#include "data/parquet/plugin.h"

namespace tern::data {

bool reads_parquet() { return true; }

Result<std::unique_ptr<RowReader>> open_parquet(const std::string& path, const ReaderLimits& limits) {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string library = (program.parent_path() / "../lib/tern/readers/parquet.so").string();
  void* loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);  // never closed: readers live in it
  void* open = loaded != nullptr ? ::dlsym(loaded, "tern_open_parquet") : nullptr;
  if (open == nullptr) {
    const char* why = ::dlerror();
    return failed_error(cat("cannot read ", path, ": the library that reads Parquet, ", library, ", does not load",
                            why != nullptr ? cat(" (", why, ")") : std::string()),
                        "install tern whole, and Apache Arrow as it was built with");
  }
  Result<std::unique_ptr<RowReader>> out = std::unique_ptr<RowReader>();
  reinterpret_cast<decltype(&tern_open_parquet)>(open)(path, limits, out);
  return out;
}

}  // namespace tern::data
