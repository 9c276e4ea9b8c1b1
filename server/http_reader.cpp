#include "server/http_reader.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <cctype>
#include <utility>

#include "base/strings.h"
#include "hub/http.h"
#include "server/byte_budget.h"

namespace tern::server {
namespace {

namespace http = boost::beast::http;
using BeastView = boost::beast::string_view;
using BeastError = boost::beast::error_code;

std::string_view text_of(BeastView text) { return {text.data(), text.size()}; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

}  // namespace

bool split_target(std::string_view target, std::string& path, std::string& query) {
  target = target.substr(0, target.find('#'));
  const std::size_t scheme = target.find("://");
  if (!target.empty() && target.front() != '/' && scheme != std::string_view::npos) {  // as a proxy is asked
    const std::string name = lower(target.substr(0, scheme));
    if (name != "http" && name != "https") return false;
    target.remove_prefix(scheme + 3);
    const std::size_t end = target.find_first_of("/?");
    if (end == 0) return false;
    target.remove_prefix(std::min(end, target.size()));
    if (target.empty() || target.front() == '?') {
      query = target.empty() ? "" : target.substr(1);
      path = "/";
      return true;
    }
  }
  if (target != "*" && (target.empty() || target.front() != '/')) return false;
  const std::size_t mark = target.find('?');
  query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  auto decoded = hub::url_decode(target.substr(0, mark));
  if (decoded) path = std::move(*decoded);
  return decoded.has_value();
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

class RequestReader::Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(const Limits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(limits.header_bytes, 1U << 30)));
    body_limit(limits.body_bytes);
  }

  std::size_t put_bytes(std::string_view bytes) {
    std::size_t used = 0;
    if (!got_some()) used = std::min(bytes.find_first_not_of("\r\n"), bytes.size());
    if (used == bytes.size()) return used;
    BeastError error;
    used += put(boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), error);
    // Beast does not limit the line before a chunk and the fields after the last one.
    if (error == http::error::need_more && bytes.size() - used > limits_.header_bytes)
      error = http::error::header_limit;
    if (error && error != http::error::need_more && !fault_) explain(error);
    return used;
  }

  std::optional<RequestFault> fault_;
  HttpRequest request_;
  int version_ = 11;
  bool expects_continue_ = false;

 private:
  void refuse(std::string message, BeastError& error) {
    fault_ = RequestFault{400, std::move(message)};
    error = http::error::bad_value;
  }

  void refuse_for_now(BeastError& error) {
    fault_ = RequestFault{503, "the bodies of other requests take all the memory that there is for them"};
    error = http::error::bad_value;
  }

  void append(BeastView body, BeastError& error) {
    if (request_.share != nullptr && !request_.share->take(body.size())) return refuse_for_now(error);
    request_.body.append(body.data(), body.size());
  }

  void explain(const BeastError& error) {
    if (error == http::error::header_limit) {
      fault_ = RequestFault{431, cat("the request's headers are larger than ", limits_.header_bytes, " bytes")};
    } else if (error == http::error::body_limit) {
      fault_ = RequestFault{413, cat("the request's body is larger than ", limits_.body_bytes, " bytes")};
    } else {
      fault_ = RequestFault{400, cat("the request is not valid HTTP/1.1: ", error.message())};
    }
  }

  void on_request_impl(http::verb, BeastView method, BeastView target, int version, BeastError& error) override {
    request_.method = text_of(method);
    version_ = version;
    header_bytes_ = method.size() + target.size();
    if (header_bytes_ > limits_.header_bytes) {
      error = http::error::header_limit;
    } else if (!split_target(text_of(target), request_.path, request_.query) ||
               (request_.path == "*" && request_.method != "OPTIONS")) {
      refuse("the request's target is not a path", error);
    }
  }

  void on_field_impl(http::field field, BeastView name, BeastView value, BeastError& error) override {
    if (header_done_) return;  // a field after a chunked body must not pass for one of the header
    header_bytes_ += name.size() + value.size() + 4;
    if (header_bytes_ > limits_.header_bytes) {
      error = http::error::header_limit;
      return;
    }
    // What another server in front of us might read otherwise is not read at all.
    if (field == http::field::transfer_encoding && (version_ < 11 || lower(text_of(value)) != "chunked")) {
      return refuse("the only transfer encoding of a request is chunked", error);
    }
    if (field == http::field::host) ++hosts_;
    if (field == http::field::expect) expects_continue_ = version_ >= 11 && lower(text_of(value)) == "100-continue";
    request_.headers.emplace_back(lower(text_of(name)), text_of(value));
  }

  void on_header_impl(BeastError& error) override {
    header_done_ = true;
    if (hosts_ > 1 || (hosts_ == 0 && version_ >= 11)) refuse("a request has one Host header", error);
  }

  void on_response_impl(int, BeastView, int, BeastError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, BeastError& error) override {
    if (limits_.bodies == nullptr) return;
    if (length && *length > limits_.bodies->left()) return refuse_for_now(error);
    request_.share = std::make_shared<ByteShare>(limits_.bodies);
  }
  // The body grows with what has come: a length that is only promised takes no memory.
  std::size_t on_body_impl(BeastView body, BeastError& error) override {
    append(body, error);
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, BeastView, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, BeastError& error) override {
    append(body, error);
    return body.size();
  }
  void on_finish_impl(BeastError&) override {}

  Limits limits_;
  std::size_t header_bytes_ = 0;
  int hosts_ = 0;
  bool header_done_ = false;
};

RequestReader::RequestReader(const Limits& limits) : parser_(std::make_unique<Parser>(limits)) {}
RequestReader::~RequestReader() = default;

std::size_t RequestReader::put(std::string_view bytes) { return parser_->put_bytes(bytes); }
bool RequestReader::started() const { return parser_->got_some(); }
bool RequestReader::header_done() const { return parser_->is_header_done(); }
bool RequestReader::done() const { return !parser_->fault_ && parser_->is_done(); }
const std::optional<RequestFault>& RequestReader::fault() const { return parser_->fault_; }
std::string_view RequestReader::path() const { return parser_->request_.path; }
bool RequestReader::keep_alive() const { return parser_->keep_alive(); }
bool RequestReader::http_1_0() const { return parser_->version_ < 11; }
bool RequestReader::expects_continue() const { return parser_->expects_continue_; }
HttpRequest RequestReader::take() { return std::move(parser_->request_); }

}  // namespace tern::server
