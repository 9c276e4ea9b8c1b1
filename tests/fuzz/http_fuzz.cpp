// Bytes as a client's requests: whole or in pieces, they are the same requests, or are refused.
#include <vector>

#include "memory_file.h"
#include "server/http_reader.h"

namespace {

using namespace tern::server;

struct Read {
  std::vector<HttpRequest> requests;
  bool fault = false;
};

// In pieces of 1 to `most` bytes, as a connection reads them.
Read read_all(std::string_view bytes, std::size_t most) {
  Read read;
  std::string in;
  auto reader = std::make_unique<RequestReader>(RequestReader::Limits{512, 512});
  for (std::size_t turn = 0; !bytes.empty(); ++turn) {
    const std::size_t piece = std::min(bytes.size(), 1 + (turn * 7) % most);
    in += bytes.substr(0, piece);
    bytes.remove_prefix(piece);
    while (!in.empty()) {
      const std::size_t used = reader->put(in);
      tern::fuzz::require(used <= in.size(), "no more is used than there is");
      in.erase(0, used);
      if (reader->fault()) {
        read.fault = true;
        return read;
      }
      if (!reader->done()) break;
      read.requests.push_back(reader->take());
      const HttpRequest& request = read.requests.back();
      tern::fuzz::require(request.body.size() <= 512, "a body is within its limit");
      tern::fuzz::require(request.path == "*" || request.path.front() == '/', "a path begins with /");
      tern::fuzz::require(request.path.find('\0') == std::string::npos, "a path holds no NUL");
      for (const auto& [name, value] : request.headers) {
        tern::fuzz::require((name + value).find_first_of("\r\n") == std::string::npos, "a header is one line");
      }
      reader = std::make_unique<RequestReader>(RequestReader::Limits{512, 512});
    }
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Read whole = read_all(bytes, size + 1);
  for (const std::size_t most : {1, 3, 40}) {
    const Read cut = read_all(bytes, most);
    const std::size_t both = std::min(cut.requests.size(), whole.requests.size());
    // A fault may be found before or after its line has come whole, but not in one way only.
    tern::fuzz::require(cut.requests.size() == whole.requests.size(), "cuts make no request and lose none");
    for (std::size_t i = 0; i < both; ++i) {
      const HttpRequest& a = cut.requests[i];
      const HttpRequest& b = whole.requests[i];
      tern::fuzz::require(
          a.method == b.method && a.path == b.path && a.query == b.query && a.headers == b.headers && a.body == b.body,
          "cuts change nothing");
    }
  }
  return 0;
}
