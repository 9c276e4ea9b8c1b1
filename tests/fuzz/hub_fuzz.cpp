// Bytes as a hub's reply (and as a hub id): an Error, or file names that stay in their folder.
#include <filesystem>

#include "hub/hub.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::hub;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Hub hub : {Hub::hugging_face, Hub::modelscope}) {
    const auto listing = parse_hub_listing(hub, text, "f");
    if (!listing) continue;
    for (const HubFile& file : listing->files) {
      const auto joined = (std::filesystem::path("/cache/x") / file.path).lexically_normal().string();
      tern::fuzz::require(joined.starts_with("/cache/x/") && joined.size() > 9, "a file stays in its folder");
    }
  }
  if (const auto id = parse_hub_id(text, HubKind::model, false)) {
    tern::fuzz::require(id->repository.find("..") != 0 && id->repository.find('/') != std::string::npos,
                        "an id is ORG/NAME");
  }
  return 0;
}
