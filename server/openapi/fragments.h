// /openapi.json in parts, each beside the routes that it is about: {"paths": {...}, "components": {...}}.
#pragma once

#include <string_view>

namespace tern::server {

std::string_view plain_openapi();
std::string_view pooling_openapi();  // of whole texts
std::string_view pool_openapi();     // of a server of many models

namespace openai {
std::string_view openapi();
}
namespace anthropic {
std::string_view openapi();
}
namespace responses {
std::string_view openapi();
}
namespace ollama {
std::string_view openapi();
}
namespace kserve {
std::string_view openapi();
}
namespace llamacpp {
std::string_view openapi();
}

}  // namespace tern::server
