#include "server/http_tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <new>

#include "base/strings.h"

namespace tern::server {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};

std::string first_error() {  // the deepest: those after it say only that something failed below
  const char* text = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return text != nullptr ? text : "unknown error";
}

int no_passphrase(char*, int, int, void*) { return 0; }  // OpenSSL would ask for it on the terminal

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size,
                    void*) {
  static constexpr std::string_view kHttp = "http/1.1";
  for (unsigned at = 0; at < in_size; at += 1U + in[at]) {
    if (at + 1U + in[at] > in_size) break;
    if (in[at] == kHttp.size() && std::equal(kHttp.begin(), kHttp.end(), in + at + 1)) {
      *out = in + at + 1;
      *out_size = in[at];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

struct TlsContext::State {
  std::unique_ptr<SSL_CTX, FreeContext> context;
};

TlsContext::TlsContext() : state_(std::make_unique<State>()) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::load(const std::filesystem::path& certificate,
                                                     const std::filesystem::path& key) {
  auto made = std::make_shared<TlsContext>();
  made->state_->context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = made->state_->context.get();
  if (context == nullptr) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // an idle connection holds none
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  for (const auto& path : {certificate, key}) {
    if (std::ifstream(path).is_open()) continue;
    return usage_error(cat(path.string(), " cannot be opened: ", std::strerror(errno)),
                       "give PEM files with --ssl_certfile and --ssl_keyfile");
  }
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return usage_error(cat("the certificate ", certificate.string(), " cannot be read: ", first_error()),
                       "give a PEM file with --ssl_certfile");
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return usage_error(cat("the key ", key.string(), " cannot be read, or is not the certificate's: ", first_error()),
                       "give the certificate's key with --ssl_keyfile, as a PEM file without a passphrase");
  }
  return made;
}

struct TlsSession::State {
  std::unique_ptr<SSL, FreeSession> session;
  BIO* in = nullptr;  // both owned by the session
  BIO* out = nullptr;
};

TlsSession::TlsSession(const TlsContext& context) : state_(std::make_unique<State>()) {
  state_->session.reset(SSL_new(context.state_->context.get()));
  state_->in = BIO_new(BIO_s_mem());
  state_->out = BIO_new(BIO_s_mem());
  if (!state_->session || state_->in == nullptr || state_->out == nullptr) throw std::bad_alloc();
  BIO_set_mem_eof_return(state_->in, -1);  // empty: more is to come
  BIO_set_mem_eof_return(state_->out, -1);
  SSL_set_bio(state_->session.get(), state_->in, state_->out);
  SSL_set_accept_state(state_->session.get());
}
TlsSession::~TlsSession() = default;

bool TlsSession::established() const { return SSL_is_init_finished(state_->session.get()) == 1; }

void TlsSession::take_wire(std::string& wire) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(state_->out, &data);
  if (size > 0) wire.append(data, static_cast<std::size_t>(size));
  (void)BIO_reset(state_->out);
}

bool TlsSession::receive(std::string_view came, std::string& plain, std::string& wire) {
  SSL* session = state_->session.get();
  ERR_clear_error();
  if (!came.empty() && BIO_write(state_->in, came.data(), static_cast<int>(came.size())) <= 0) return false;
  std::array<char, 16384> record{};
  for (;;) {
    const bool reading = established();
    const int got =
        reading ? SSL_read(session, record.data(), static_cast<int>(record.size())) : SSL_do_handshake(session);
    if (got > 0) {
      if (reading) plain.append(record.data(), static_cast<std::size_t>(got));
      continue;
    }
    const int error = SSL_get_error(session, got);
    take_wire(wire);
    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN) finished_ = true;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN;
  }
}

bool TlsSession::send(std::string_view plain, std::string& wire) {
  ERR_clear_error();
  while (!plain.empty()) {
    const int part = static_cast<int>(std::min<std::size_t>(plain.size(), INT_MAX / 2));
    const int sent = SSL_write(state_->session.get(), plain.data(), part);
    if (sent <= 0) return false;
    plain.remove_prefix(static_cast<std::size_t>(sent));
    take_wire(wire);
  }
  return true;
}

void TlsSession::finish(std::string& wire) {
  ERR_clear_error();
  if (established()) SSL_shutdown(state_->session.get());
  ERR_clear_error();
  take_wire(wire);
}

}  // namespace tern::server
