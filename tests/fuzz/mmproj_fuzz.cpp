// Bytes as an mmproj file. An Error, or a tower whose features are as many as the tokens that its processor counts.
#include <cstdint>

#include "memory_file.h"
#include "models/mmproj.h"
#include "session/image_processor.h"
#include "session/mmproj.h"
#include "tests/support/pattern.h"

namespace {

using namespace tern;
using fuzz::require;

// What is prepared in a moment.
bool is_small(const session::ImageConfig& config) {
  constexpr std::int64_t kPixels = 1 << 16;
  if (config.cut == session::ImageCut::merged_blocks) {
    const std::int64_t block = config.patch_size * config.merge_size;
    return config.max_pixels <= kPixels && block * block * 8 <= kPixels && config.min_pixels <= kPixels;
  }
  return config.height * config.width * (config.max_tiles + 1) <= kPixels;
}

void check(const models::VisionConfig& vision) {
  require(!vision.tower->parameters(vision).empty(), "a tower has weights");
  const auto config = session::mmproj_image_config(vision);
  if (!config) return require(!config.error().line().empty(), "an error says something");
  if (!is_small(*config)) return;
  const auto image = session::make_patches(*config, test::pattern(40, 9, 1), "f");
  if (!image) return;
  const auto columns = catching([&] { return vision.tower->columns(vision, image->grids); });
  if (columns) require(columns->features == image->tokens, "as many features as tokens");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(data, size);
  auto opened = checkpoint::CheckpointSource::open(file.path());
  if (!opened || opened->gguf() == nullptr) return 0;
  const auto source = std::make_shared<checkpoint::CheckpointSource>(std::move(*opened));
  models::ModelConfig text;
  const auto width = source->gguf()->integer_or("clip.vision.projection_dim", 32);
  text.hidden_size = width.ok() ? *width : 32;
  const auto vision = models::read_mmproj(source, text);
  if (!vision) {
    require(!vision.error().line().empty(), "an error says something");
  } else {
    check(*vision);
  }
  return 0;
}
