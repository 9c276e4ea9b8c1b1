// HTTPS with a certificate that the test makes.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "server/http.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/server/http_fixture.h"

namespace tern::test {
namespace {

void write_certificate(const std::string& certificate, const std::string& key) {
  EVP_PKEY* pair = EVP_EC_gen("P-256");
  X509* made = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), 0);
  X509_gmtime_adj(X509_getm_notAfter(made), 86400);
  X509_set_pubkey(made, pair);
  X509_NAME* name = X509_get_subject_name(made);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(made, name);
  X509_sign(made, pair, EVP_sha256());
  std::FILE* file = std::fopen(certificate.c_str(), "w");
  PEM_write_X509(file, made);
  std::fclose(file);
  file = std::fopen(key.c_str(), "w");
  PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(made);
  EVP_PKEY_free(pair);
}

class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port, int version = 0) : socket_(port) {
    std::signal(SIGPIPE, SIG_IGN);
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (version != 0) {
      SSL_CTX_set_security_level(context_.get(), 0);
      SSL_CTX_set_min_proto_version(context_.get(), version);
      SSL_CTX_set_max_proto_version(context_.get(), version);
    }
    session_.reset(SSL_new(context_.get()));
    const unsigned char protocols[] = "\x02h2\x08http/1.1";
    SSL_set_alpn_protos(session_.get(), protocols, sizeof(protocols) - 1);
    SSL_set_fd(session_.get(), socket_.descriptor());
    shook_ = SSL_connect(session_.get()) == 1;
  }

  [[nodiscard]] bool shook() const { return shook_; }
  [[nodiscard]] std::string version() const { return SSL_get_version(session_.get()); }
  [[nodiscard]] std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(session_.get(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  void send(const std::string& text) { SSL_write(session_.get(), text.data(), static_cast<int>(text.size())); }
  // Up to `text` and with it, or what came before the end.
  [[nodiscard]] std::string read_until(const std::string& text) {
    std::string all;
    char c = 0;
    while ((all.size() < text.size() || all.compare(all.size() - text.size(), text.size(), text) != 0) &&
           SSL_read(session_.get(), &c, 1) == 1) {
      all += c;
    }
    return all;
  }
  [[nodiscard]] std::size_t read_bytes(std::size_t bytes) {
    std::vector<char> block(65536);
    std::size_t all = 0;
    while (all < bytes) {
      const int got = SSL_read(session_.get(), block.data(), static_cast<int>(std::min(block.size(), bytes - all)));
      if (got <= 0) break;
      all += static_cast<std::size_t>(got);
    }
    return all;
  }
  // The server said that it has sent everything.
  [[nodiscard]] bool ended_properly() {
    char c = 0;
    return SSL_read(session_.get(), &c, 1) <= 0 && (SSL_get_shutdown(session_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  void shut() { SSL_shutdown(session_.get()); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* session) const { SSL_free(session); }
  };
  HttpClient socket_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> session_;
  bool shook_ = false;
};

class HttpTls : public testing::Test {
 protected:
  void SetUp() override {
    options.ssl_certfile = dir / "cert.pem";
    options.ssl_keyfile = dir / "key.pem";
    write_certificate(options.ssl_certfile, options.ssl_keyfile);
  }
  TempDir dir;
  server::HttpOptions options;
};

TEST_F(HttpTls, AnswersUnderTls12And13) {
  HttpFixture fixture(options);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(fixture.port, version);
    ASSERT_TRUE(client.shook());
    EXPECT_EQ(client.version(), version == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3");
    EXPECT_EQ(client.protocol(), "http/1.1");
    for (int i = 0; i < 2; ++i) {
      client.send("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello");
      EXPECT_NE(client.read_until("POST /x?|hello").find("HTTP/1.1 200 OK"), std::string::npos);
    }
    client.send("GET /stream HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    EXPECT_NE(client.read_until("0\r\n\r\n").find("one,two,three"), std::string::npos);
    EXPECT_TRUE(client.ended_properly());
  }
  EXPECT_FALSE(TlsClient(fixture.port, TLS1_1_VERSION).shook());
}

TEST_F(HttpTls, ClosesOnWhatIsNotTls) {
  HttpFixture fixture(options);
  HttpClient plain(fixture.port);
  plain.send("GET /x HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(plain.ended());
  EXPECT_TRUE(TlsClient(fixture.port).shook());
}

TEST_F(HttpTls, EndsAHandshakeThatTakesTooLong) {
  options.receive_timeout = 100ms;
  HttpFixture fixture(options);
  HttpClient silent(fixture.port);
  EXPECT_TRUE(silent.ended());
}

TEST_F(HttpTls, NoticesAClientThatGoesAway) {
  HttpFixture fixture(options);
  for (const bool properly : {false, true}) {
    auto client = std::make_unique<TlsClient>(fixture.port);
    client->send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
    const Held held = fixture.held("/hold");
    Flag gone;
    held.exchange->on_gone([&] { gone.set(); });
    if (properly) client->shut();
    if (!properly) client.reset();
    EXPECT_TRUE(gone.wait());
  }
}

TEST_F(HttpTls, LargeBodiesPassBothWays) {
  HttpFixture fixture(options);
  TlsClient client(fixture.port);
  const std::string large(3'000'000, 'a');
  client.send("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 3000000\r\n\r\n" + large);
  EXPECT_NE(client.read_until("\r\n\r\n").find("Content-Length: 3000009"), std::string::npos);
  EXPECT_EQ(client.read_bytes(3'000'009), 3'000'009U);
  client.send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  const Held held = fixture.held("/hold");
  held.exchange->begin(200, "t");
  EXPECT_FALSE(client.read_until("\r\n\r\n").empty());
  for (int i = 0; i < 300; ++i) held.exchange->send(std::string(10'000, 'b'));
  held.exchange->finish();
  EXPECT_GT(client.read_until("0\r\n\r\n").size(), 3'000'000U);
}

TEST_F(HttpTls, TellsThoseOverTheLimit) {
  options.max_connections = 1;
  HttpFixture fixture(options);
  TlsClient one(fixture.port);
  ASSERT_TRUE(one.shook());
  TlsClient two(fixture.port);
  EXPECT_EQ(two.read_until("\r\n"), "HTTP/1.1 503 Service Unavailable\r\n");
}

TEST_F(HttpTls, SaysWhatIsWrongWithACertificate) {
  auto line_of = [this] {
    options.host = "127.0.0.1";
    options.port = 0;
    auto listened = server::HttpServer::listen(options, {}, {});
    return listened.ok() ? std::string("it listens") : dir.line(listened.error());
  };
  EXPECT_EQ(line_of(), "it listens");
  const auto key = options.ssl_keyfile;
  options.ssl_keyfile = dir.write("other.pem", "nothing");
  EXPECT_EQ(
      line_of(),
      "the key DIR/other.pem cannot be read, or is not the certificate's: unsupported; give the certificate's key "
      "with --ssl_keyfile, as a PEM file without a passphrase.");
  write_certificate(dir / "cert2.pem", dir / "key2.pem");
  options.ssl_keyfile = dir / "key2.pem";
  EXPECT_EQ(line_of(),
            "the key DIR/key2.pem cannot be read, or is not the certificate's: key values mismatch; give the "
            "certificate's key with --ssl_keyfile, as a PEM file without a passphrase.");
  options.ssl_keyfile = key;
  options.ssl_certfile = dir / "other.pem";
  EXPECT_EQ(line_of(),
            "the certificate DIR/other.pem cannot be read: no start line; give a PEM file with --ssl_certfile.");
  options.ssl_certfile = dir / "absent.pem";
  EXPECT_EQ(line_of(),
            "DIR/absent.pem cannot be opened: No such file or directory; give PEM files with --ssl_certfile and "
            "--ssl_keyfile.");
}

}  // namespace
}  // namespace tern::test
