#include "hub/http.h"

#include <curl/curl.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <memory>
#include <mutex>

#include "base/strings.h"
#include "hub/http_post.h"

namespace tern::hub {
namespace {

constexpr std::size_t kMaxHeaders = std::size_t{256} << 10;

struct Exchange {
  const HttpRequest* request = nullptr;
  HttpReply* reply = nullptr;
  CURL* handle = nullptr;
  bool begun = false;
  std::size_t header_bytes = 0;
  std::exception_ptr thrown;
};

// Calls back from libcurl, through whose frames nothing may be thrown: what is thrown is kept, and ends the exchange.
template <typename Body>
auto guarded(void* context, decltype(std::declval<Body>()(std::declval<Exchange&>())) failure, Body body) noexcept {
  auto& exchange = *static_cast<Exchange*>(context);
  try {
    return body(exchange);
  } catch (...) {
    exchange.thrown = std::current_exception();
    return failure;
  }
}

std::size_t take_header(Exchange& exchange, char* data, std::size_t size, std::size_t count) {
  const std::string_view line(data, size * count);
  const std::size_t colon = line.find(':');
  exchange.header_bytes += line.size();
  if (colon != std::string_view::npos && exchange.header_bytes <= kMaxHeaders) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    exchange.reply->headers.emplace(std::move(name), trim(line.substr(colon + 1)));
  }
  return size * count;
}
std::size_t on_header(char* data, std::size_t size, std::size_t count, void* context) {
  return guarded(context, std::size_t{0}, [=](Exchange& exchange) { return take_header(exchange, data, size, count); });
}

std::size_t take_body(Exchange& exchange, char* data, std::size_t size, std::size_t count) {
  const std::size_t bytes = size * count;
  long status = 0;
  curl_easy_getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &status);
  const HttpRequest& request = *exchange.request;
  if (!request.sink || (status != 200 && status != 206)) {
    if (exchange.reply->text.size() + bytes > request.max_text) return 0;
    exchange.reply->text.append(data, bytes);
    return bytes;
  }
  const bool go_on = (exchange.begun || !request.begin || request.begin(status)) &&
                     request.sink({reinterpret_cast<const std::byte*>(data), bytes});
  exchange.begun = true;
  exchange.reply->aborted = !go_on;
  return go_on ? bytes : 0;
}
std::size_t on_body(char* data, std::size_t size, std::size_t count, void* context) {
  return guarded(context, std::size_t{0}, [=](Exchange& exchange) { return take_body(exchange, data, size, count); });
}

curl_socket_t open_socket(void* context, curlsocktype /*purpose*/, curl_sockaddr* to) {
  return guarded(context, curl_socket_t{CURL_SOCKET_BAD}, [=](Exchange& exchange) -> curl_socket_t {
    std::array<char, NI_MAXHOST> text{};
    const int unknown = ::getnameinfo(&to->addr, to->addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
    if (unknown != 0 || !exchange.request->may_connect(text.data())) {
      exchange.reply->refused = true;
      return CURL_SOCKET_BAD;
    }
    return ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
  });
}

int on_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return guarded(context, 1, [](Exchange& exchange) {
    if (!exchange.request->stopped()) return 0;
    exchange.reply->aborted = true;
    return 1;
  });
}

// What only some requests ask.
void set_bounds(CURL* h, const HttpRequest& request, Exchange& exchange) {
  if (request.timeout > 0) {
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(request.timeout * 1000)));
  }
  if (!request.through_proxy) curl_easy_setopt(h, CURLOPT_PROXY, "");
  if (request.may_connect) {
    curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, &exchange);
  }
  if (request.stopped) {
    curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(h, CURLOPT_XFERINFODATA, &exchange);
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

HttpReply exchanged(const HttpRequest& request, const std::string* body) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  HttpReply reply;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(), curl_easy_cleanup);
  if (handle == nullptr) {
    reply.failure = "no HTTP client";
    return reply;
  }
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, curl_slist_free_all);
  Exchange exchange{.request = &request, .reply = &reply, .handle = handle.get()};
  CURL* h = handle.get();
  const bool secure = request.url.starts_with("https:");
  curl_easy_setopt(h, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");  // never down to plain text
  curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, body == nullptr && request.follow_redirects ? 1L : 0L);
  curl_easy_setopt(h, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(h, CURLOPT_USERAGENT, "tern/0.1");
  curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout * 1000));
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.stall_timeout)));
  curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(h, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(h, CURLOPT_WRITEDATA, &exchange);
  set_bounds(h, request, exchange);
  if (body != nullptr) {
    curl_easy_setopt(h, CURLOPT_POST, 1L);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, body->data());
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
  }
  const std::string range = cat(request.resume_from, "-");
  if (request.resume_from > 0) curl_easy_setopt(h, CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl_easy_perform(h);
  if (exchange.thrown) std::rethrow_exception(exchange.thrown);
  curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &reply.status);
  char* location = nullptr;
  curl_easy_getinfo(h, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) reply.location = location;
  if (code == CURLE_OK) reply.refused = false;
  if (code != CURLE_OK && !reply.aborted) reply.failure = curl_easy_strerror(code);
  return reply;
}

}  // namespace

HttpReply http_get(const HttpRequest& request) { return exchanged(request, nullptr); }
HttpReply http_post(const HttpRequest& request, const std::string& body) { return exchanged(request, &body); }

std::string url_encode(std::string_view text, bool keep_slash) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slash && c == '/')) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::optional<std::string> url_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace tern::hub
