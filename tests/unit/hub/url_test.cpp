// Which hosts URLs name, which addresses are of the internet, and the bounds of what is fetched from them.
#include "hub/url.h"

#include <gtest/gtest.h>

#include <string>

#include "hub/http.h"
#include "tests/unit/hub/fake_hub.h"

namespace tern::hub {
namespace {

std::string host_of(const std::string& text) {
  const auto url = parse_url(text);
  return url ? url->host : "none";
}

// The host is the one that is connected to: what another reader of the same text would take for it counts for nothing.
TEST(Url, NamesItsHost) {
  EXPECT_EQ(host_of("https://Images.Example.com/a?b#c"), "images.example.com");
  EXPECT_EQ(host_of("http://example.com./a"), "example.com");
  EXPECT_EQ(host_of("https://good.example@evil.example/a"), "evil.example");
  EXPECT_EQ(host_of("https://good.example:x@evil.example:8443/a"), "evil.example");
  EXPECT_EQ(host_of("http://[::1]:80/a"), "::1");
  EXPECT_EQ(host_of("http://2130706433/"), "127.0.0.1");
  EXPECT_EQ(host_of("http://0x7f.1/"), "127.0.0.1");
  EXPECT_EQ(host_of("http://%31%32%37.0.0.1/"), "127.0.0.1");
  EXPECT_EQ(host_of("HTTP://example.com"), "example.com");
  for (const std::string text : {"", "example.com/a", "/etc/passwd", "file:///etc/passwd", "ftp://example.com/a",
                                 "gopher://example.com", "http://", "http://a b/"}) {
    EXPECT_EQ(host_of(text), "none") << text;
  }
  EXPECT_EQ(host_of(std::string("http://good.example\0.evil.example/", 34)), "none");
  EXPECT_TRUE(parse_url("https://example.com")->secure);
  EXPECT_FALSE(parse_url("http://example.com")->secure);
}

TEST(Url, KnowsAddressesOfTheInternet) {
  for (const char* address :
       {"1.1.1.1", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.0.0.1", "128.0.0.1",
        "169.253.0.1", "172.15.255.255", "172.32.0.1", "192.167.0.1", "192.169.0.1", "198.17.0.1", "198.20.0.1",
        "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::200e", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"}) {
    EXPECT_TRUE(is_public_address(address)) << address;
  }
  for (const char* address : {"0.0.0.0",
                              "0.1.2.3",
                              "10.0.0.1",
                              "100.64.0.1",
                              "100.127.255.255",
                              "127.0.0.1",
                              "127.255.0.1",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.8",
                              "192.0.2.1",
                              "192.88.99.1",
                              "192.168.1.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "198.51.100.1",
                              "203.0.113.1",
                              "224.0.0.1",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "fe80::1",
                              "fe80::1%eth0",
                              "fc00::1",
                              "fd12::1",
                              "ff02::1",
                              "::ffff:10.0.0.1",
                              "::ffff:127.0.0.1",
                              "::127.0.0.1",
                              "64:ff9b::169.254.169.254",
                              "64:ff9b:1::1",
                              "2001:db8::1",
                              "2001::1",
                              "2002:7f00:1::",
                              "3fff::1",
                              "example.com",
                              "",
                              "1.1.1",
                              "1.1.1.1.1"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
}

// What connects asks about the address itself, also behind a redirect and behind a name.
TEST(HttpBounds, AskWhetherAnAddressMayBeConnectedTo) {
  FakeHub there([](const FakeRequest&) { return FakeReply{.body = "x"}; });
  HttpRequest request;
  request.url = there.url() + "/a";
  std::string asked;
  request.may_connect = [&](std::string_view address) {
    asked = address;
    return true;
  };
  HttpReply reply = http_get(request);
  EXPECT_EQ(reply.text, "x");
  EXPECT_EQ(asked, "127.0.0.1");
  EXPECT_FALSE(reply.refused);
  request.may_connect = is_public_address;
  reply = http_get(request);
  EXPECT_TRUE(reply.refused);
  EXPECT_EQ(reply.status, 0);
  request.url = "http://localhost" + there.url().substr(there.url().rfind(':')) + "/a";
  EXPECT_TRUE(http_get(request).refused);
  EXPECT_EQ(there.requests().size(), 1U);
}

TEST(HttpBounds, TellWhereARedirectLeads) {
  FakeHub there([](const FakeRequest& request) {
    return request.target == "/a" ? FakeReply{.status = 302, .body = "", .headers = {"Location: /b?c"}}
                                  : FakeReply{.body = "x"};
  });
  HttpRequest request;
  request.url = there.url() + "/a";
  EXPECT_EQ(http_get(request).text, "x");
  request.follow_redirects = false;
  const HttpReply reply = http_get(request);
  EXPECT_EQ(reply.status, 302);
  EXPECT_EQ(reply.location, there.url() + "/b?c");
}

TEST(HttpBounds, PassOnWhatIsThrown) {
  FakeHub web([](const FakeRequest&) { return FakeReply{.body = "x"}; });
  HttpRequest request;
  request.url = web.url() + "/a";
  request.sink = [](std::span<const std::byte>) -> bool { throw std::bad_alloc(); };
  EXPECT_THROW((void)http_get(request), std::bad_alloc);
  request.sink = [](std::span<const std::byte>) { return true; };
  request.may_connect = [](std::string_view) -> bool { throw std::bad_alloc(); };
  EXPECT_THROW((void)http_get(request), std::bad_alloc);
  request.may_connect = {};
  EXPECT_EQ(http_get(request).status, 200);
}

TEST(UrlDecode, UndoesEscapes) {
  EXPECT_EQ(url_decode("a%20b%2Fc%2fd+%C3%A9"), "a b/c/d+\xC3\xA9");
  EXPECT_EQ(url_decode(url_encode("a %/\xFF~", false)), "a %/\xFF~");
  for (const char* broken : {"%", "a%2", "%zz", "%-1", "%00", "100%.png"}) EXPECT_EQ(url_decode(broken), std::nullopt);
}

TEST(HttpBounds, EndAnExchange) {
  FakeHub there([](const FakeRequest&) { return FakeReply{.body = std::string(100'000, 'x')}; });
  HttpRequest request;
  request.url = there.url() + "/a";
  request.max_text = 100'000;
  EXPECT_EQ(http_get(request).text.size(), 100'000U);
  request.max_text = 99'999;
  EXPECT_NE(http_get(request).failure, "");
  request.stopped = [] { return true; };
  EXPECT_TRUE(http_get(request).aborted);
  request.stopped = nullptr;
  FakeHub silent([](const FakeRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return FakeReply{};
  });
  request.url = silent.url() + "/a";
  request.timeout = 0.05;
  EXPECT_NE(http_get(request).failure, "");
}

}  // namespace
}  // namespace tern::hub
