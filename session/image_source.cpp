#include "session/image_source.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/strings.h"
#include "hub/http.h"
#include "io/mapped_file.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSources = "an image file's path, an http:// or https:// URL, a data: URL or base64";
constexpr std::size_t kLongestPath = 200;  // ms-swift takes what is longer for base64

media::Image decoded(std::span<const std::byte> bytes, const std::string& name, const media::ImageLimits& limits) {
  return media::decode_image(bytes, name, limits).value();
}

// Line breaks within it are allowed (RFC 2045).
media::Image from_base64(std::string_view text, const std::string& name, const media::ImageLimits& limits) {
  std::string digits(text);
  std::erase_if(digits, [](char c) { return c == '\n' || c == '\r'; });
  const auto bytes = decode_base64(digits);
  if (!bytes) {
    throw Failure(data_error(name, "letters, digits, + and / with = at the end", "another character",
                             "write the file as base64, or give its path"));
  }
  return decoded(std::as_bytes(std::span(*bytes)), name, limits);
}

media::Image from_data_url(std::string_view url, const std::string& name, const media::ImageLimits& limits) {
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos || !url.substr(0, comma).ends_with(";base64")) {
    throw Failure(data_error(name, "data:image/...;base64,... as its form",
                             std::string(url.substr(0, std::min<std::size_t>(comma, 40))),
                             "write its bytes as base64"));
  }
  return from_base64(url.substr(comma + 1), name, limits);
}

media::Image from_web(const std::string& url, const std::string& name, const media::ImageLimits& limits) {
  std::vector<std::byte> bytes;
  hub::HttpRequest request;
  request.url = url;
  request.sink = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return bytes.size() <= limits.max_bytes;
  };
  const hub::HttpReply reply = hub::http_get(request);
  if (reply.aborted) {
    throw Failure(
        data_error(name, cat("an image of at most ", human_bytes(limits.max_bytes)), "more", "give a smaller image"));
  }
  if (!reply.failure.empty() || reply.status != 200) {
    throw Failure(data_error(name, "an image", reply.failure.empty() ? cat("the answer ", reply.status) : reply.failure,
                             "correct the URL, or download the image and give its path"));
  }
  return decoded(bytes, name, limits);
}

// `told`: what errors call it; "": its path.
media::Image from_file(const std::string& path, const std::string& told, const media::ImageLimits& limits) {
  const auto opened = io::MappedFile::open(path);
  if (!opened && !told.empty()) throw Failure(opened.error().inside(told));
  const auto& file = opened.value();
  media::Image out = decoded(file->bytes(), told.empty() ? path : told, limits);
  file->intact().value();
  return out;
}

}  // namespace

std::string shown_source(std::string_view source) {
  if (source.starts_with("data:")) return "the image in a data: URL";
  if (source.size() <= kLongestPath) return std::string(source);
  return source.starts_with("http") ? cat(source.substr(0, kLongestPath), "...") : "the image in base64";
}

Result<media::Image> read_image(const std::string& source, const media::ImageLimits& limits, const std::string& name) {
  return catching([&] {
    const std::string shown = name.empty() ? shown_source(source) : name;
    if (source.starts_with("http://") || source.starts_with("https://")) return from_web(source, shown, limits);
    if (source.starts_with("data:")) return from_data_url(source, shown, limits);
    if (source.starts_with("file://")) return from_file(source.substr(7), name, limits);
    std::error_code none;
    if (source.size() > kLongestPath && !fs::exists(source, none)) return from_base64(source, shown, limits);
    if (!fs::exists(source, none)) {
      throw Failure(data_error(name.empty() ? source : name, kSources, source.empty() ? "nothing" : "no such file",
                               "correct the path"));
    }
    return from_file(source, name, limits);
  });
}

}  // namespace tern::session
