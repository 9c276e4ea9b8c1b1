// Bytes as what says how images are prepared: preprocessor_config.json up to the first NUL, config.json up to the
// second, and processor_config.json. An Error, or patches that fill their grids.
#include <cstdint>
#include <numeric>
#include <string>

#include "memory_file.h"
#include "session/image_processor.h"
#include "session/image_sizes.h"
#include "tests/support/pattern.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace tern::session;
using tern::fuzz::require;

std::string_view part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view out = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return out;
}

// What is prepared in a moment.
bool is_small(const ImageConfig& config) {
  constexpr std::int64_t kPixels = 1 << 16;
  if (config.cut == ImageCut::merged_blocks) {
    const std::int64_t block = config.patch_size * config.merge_size;
    return config.min_pixels <= kPixels && config.max_pixels <= kPixels && block * block * 8 <= kPixels;
  }
  return config.height * config.width * (config.max_tiles + 1) <= kPixels;
}

void check(const ImageConfig& config) {
  for (const auto& [width, height] : {std::pair{1, 1}, std::pair{40, 9}, std::pair{9, 40}}) {
    const auto made = make_patches(config, tern::test::pattern(width, height, 1), "f");
    if (!made) continue;
    std::int64_t patches = 0;
    for (const auto& grid : made->grids) patches += grid.t * grid.h * grid.w;
    const std::int64_t values = 3 * config.temporal_patch_size * config.patch_size * config.patch_size;
    require(patches > 0 && made->tokens > 0, "an image has patches and tokens");
    require(patches <= most_patches(config, 0), "no image has more patches than the most");
    require(made->patches.size() == static_cast<std::size_t>(patches * values), "patches fill their grids");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tern::test::TempDir folder;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  folder.write("preprocessor_config.json", part(rest));
  folder.write("config.json", part(rest));
  if (rest.empty()) {
    std::filesystem::remove(folder / "processor_config.json");
  } else {
    folder.write("processor_config.json", rest);
  }
  const auto config = read_image_config(folder.path());
  if (!config) {
    require(!config.error().line().empty(), "an error says something");
  } else if (is_small(*config)) {
    check(*config);
  }
  return 0;
}
