// The memory of all requests' bodies together.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/unit/server/http_fixture.h"

namespace tern::test {
namespace {

// Many who send large bodies slowly hold no more memory than there is for all of them together.
TEST(HttpBodies, AreBoundedTogether) {
  HttpFixture fixture({.max_body_bytes = 1000, .max_bodies_bytes = 1500});
  const auto head = [](int length) {
    return "POST /hold HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  };
  HttpClient slow(fixture.port);
  slow.send(head(1000) + std::string(900, 'a'));
  const auto status_of = [&](const std::string& text) {
    HttpClient client(fixture.port);
    client.send(text);
    return client.reply().status;
  };
  // What has come counts, not what was promised; and other requests go on.
  int status = 200;
  for (int i = 0; i < 1000 && status == 200; ++i) {
    status = status_of("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 601\r\n\r\n" + std::string(601, 'a'));
  }
  EXPECT_EQ(status, 503);
  EXPECT_EQ(status_of("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 600\r\n\r\n" + std::string(600, 'a')), 200);
  EXPECT_EQ(status_of("GET /x HTTP/1.1\r\nHost: t\r\n\r\n"), 200);
  // One whose length nobody knows is refused where it goes beyond.
  HttpClient chunked(fixture.port);
  chunked.send("POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n" + std::string(500, 'a') +
               "\r\n");
  chunked.send("c8\r\n" + std::string(200, 'a') + "\r\n");
  const HttpReply reply = chunked.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.header("retry-after"), "1");
  EXPECT_EQ(reply.body, "503|the bodies of other requests take all the memory that there is for them");
  // A body takes its memory until it has been read, and gives it back: its answer may take longer.
  slow.send(std::string(100, 'a'));
  {
    Held held = fixture.held("/hold");
    EXPECT_EQ(status_of("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 501\r\n\r\n" + std::string(501, 'a')), 503);
    held.request = {};
    EXPECT_EQ(status_of("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 501\r\n\r\n" + std::string(501, 'a')), 200);
    held.exchange->respond(200, "text/plain", "held");
  }
  EXPECT_EQ(slow.reply().status, 200);
  // So does a client that goes away in the middle.
  HttpClient gone(fixture.port);
  gone.send(head(1000) + std::string(900, 'a'));
  gone.close();
  const auto whole = "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'a');
  for (int i = 0; i < 1000 && (status = status_of(whole)) != 200; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(status, 200);
  // What would never fit is too large.
  HttpFixture small({.max_body_bytes = 1000, .max_bodies_bytes = 500});
  HttpClient large(small.port);
  large.send("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 501\r\n\r\n");
  EXPECT_EQ(large.reply().status, 413);
}

}  // namespace
}  // namespace tern::test
