// The rules of HTTP/1.1 that clients rely on, each against a raw socket.
#include "server/http.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/server/http_fixture.h"

namespace tern::test {
namespace {

constexpr const char* kPost =
    "POST /a%20b?x=%20 HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nUser-Agent: U\r\n\r\nhello";

TEST(Http, AnswersOverOneConnection) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  for (int i = 0; i < 3; ++i) {
    client.send(kPost);
    const HttpReply reply = client.reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "POST /a b?x=%20|hello");
    EXPECT_EQ(reply.header("x-agent"), "U");
    EXPECT_EQ(reply.header("content-type"), "text/plain");
    EXPECT_EQ(reply.headers.count("connection"), 0U);
    EXPECT_TRUE(std::regex_match(reply.header("date"), std::regex("\\w{3}, \\d\\d \\w{3} \\d{4} [\\d:]{8} GMT")));
  }
  EXPECT_EQ(fixture.server->connections(), 1U);
}

TEST(Http, TellsThePeer) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  client.send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(std::regex_match(fixture.held("/hold").request.peer, std::regex("127\\.0\\.0\\.1:\\d+")));
  HttpFixture six({.host = "::1"});
  HttpClient other(six.port, "::1");
  other.send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(std::regex_match(six.held("/hold").request.peer, std::regex("\\[::1\\]:\\d+")));
  HttpFixture both({.host = "::"});
  HttpClient four(both.port);
  four.send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(std::regex_match(both.held("/hold").request.peer, std::regex("127\\.0\\.0\\.1:\\d+")));
  HttpFixture name({.host = "localhost"});
  EXPECT_EQ(HttpClient(name.port).get("/x").status, 200);
}

TEST(Http, ClosesWhereTheClientAsksForIt) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  client.send("GET /x HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\nGET /y HTTP/1.1\r\nHost: t\r\n\r\n");
  const HttpReply reply = client.reply();
  EXPECT_EQ(reply.body, "GET /x?|");
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_TRUE(client.ended());
}

TEST(Http, SpeaksToOldClients) {
  HttpFixture fixture;
  HttpClient once(fixture.port);
  once.send("GET /x HTTP/1.0\r\n\r\n");
  const HttpReply reply = once.reply();
  EXPECT_EQ(reply.body, "GET /x?|");
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_TRUE(once.ended());
  HttpClient kept(fixture.port);
  kept.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.reply().header("connection"), "keep-alive");
  kept.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const HttpReply stream = kept.reply();
  EXPECT_EQ(stream.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(stream.body, "one,two,three");
}

TEST(Http, StreamsInChunks) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  for (int i = 0; i < 2; ++i) {
    const HttpReply reply = client.get("/stream");
    EXPECT_EQ(reply.body, "one,two,three");
    EXPECT_TRUE(reply.whole);
    EXPECT_EQ(reply.header("x-test"), "1");
    EXPECT_EQ(reply.headers.count("x-injected"), 0U);
  }
  // Each chunk comes when it is sent, not when the answer ends.
  client.send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  const Held held = fixture.held("/hold");
  held.exchange->begin(200, "text/event-stream");
  EXPECT_TRUE(client.read_until("\r\n\r\n"));
  for (const char* text : {"data: 1\n\n", "data: 2\n\n"}) {
    held.exchange->send(text);
    EXPECT_TRUE(client.read_until(text));
  }
  held.exchange->finish();
  EXPECT_TRUE(client.read_until("0\r\n\r\n"));
}

TEST(Http, ReadsChunkedBodies) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  client.send("POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-Api-Key: forged\r\n\r\n");
  EXPECT_EQ(client.reply().body, "POST /x?|abcde");
  client.send("POST /hold HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Api-Key: forged\r\n\r\n");
  EXPECT_EQ(fixture.held("/hold").request.header("x-api-key"), "");
}

TEST(Http, SendsNoBodyForHeadOrNoContent) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  client.send("HEAD /x HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.reply(true).header("content-length"), "9");
  client.send("HEAD /stream HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.reply(true).status, 200);
  const HttpReply empty = client.get("/empty");
  EXPECT_EQ(empty.status, 204);
  EXPECT_EQ(empty.headers.count("content-length"), 0U);
  EXPECT_EQ(client.get("/x").body, "GET /x?|");
}

TEST(Http, AsksForABodyThatWaits) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  const std::string head = "POST /x HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  client.send(head);
  EXPECT_EQ(client.reply().status, 100);
  client.send("ab");
  EXPECT_EQ(client.reply().body, "POST /x?|ab");
  client.send(head + "cd");  // did not wait
  EXPECT_EQ(client.reply().body, "POST /x?|cd");
}

TEST(Http, AnswersPipelinedRequestsInOrder) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  std::string all;
  for (int i = 0; i < 3; ++i) all += "GET /hold" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\n\r\n";
  client.send(all + "GET /last HTTP/1.1\r\nHost: t\r\n\r\n");
  std::vector<Held> held;
  for (int i = 0; i < 3; ++i) held.push_back(fixture.held("/hold" + std::to_string(i)));
  held[2].exchange->respond(200, "t", "two");
  held[1].exchange->begin(200, "t");
  held[1].exchange->send("o");
  held[0].exchange->respond(200, "t", "zero");
  EXPECT_EQ(client.reply().body, "zero");
  held[1].exchange->send("ne");
  held[1].exchange->finish();
  EXPECT_EQ(client.reply().body, "one");
  EXPECT_EQ(client.reply().body, "two");
  EXPECT_EQ(client.reply().body, "GET /last?|");
}

// More than are answered at once, and more than is read ahead: nothing is lost.
TEST(Http, TakesManyPipelinedRequests) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  std::thread sender([&] {
    for (int i = 0; i < 5000; ++i) client.send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\n\r\n");
  });
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(client.reply().body, "GET /" + std::to_string(i) + "?|");
  sender.join();
}

TEST(Http, RefusesWhatIsMalformed) {
  HttpFixture fixture;
  const std::vector<std::string> bad{
      "GET\r\n\r\n",
      "GET /x\r\n\r\n",
      "GET /x HTTP/2.0\r\nHost: t\r\n\r\n",
      "GET /x HTTP/1.1\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET x HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET * HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET ftp://h/x HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /%2 HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: t\r\nno colon\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: t\r\nspace : 1\r\n\r\n",
      "GET /x HTTP/1.1\nHost: t\n\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      "POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
  };
  for (const std::string& text : bad) {
    HttpClient client(fixture.port);
    client.send(text);
    const HttpReply reply = client.reply();
    EXPECT_EQ(reply.status, 400) << text;
    EXPECT_EQ(reply.header("content-type"), "test/error") << text;
    EXPECT_EQ(reply.header("connection"), "close") << text;
    EXPECT_TRUE(client.ended()) << text;
  }
}

TEST(Http, ReadsTargetsAsProxiesWriteThem) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  EXPECT_EQ(client.get("http://other:8000/v1/x?q=1").body, "GET /v1/x?q=1|");
  EXPECT_EQ(client.get("HTTP://other").body, "GET /?|");
  EXPECT_EQ(client.get("http://other?q").body, "GET /?q|");
  EXPECT_EQ(client.get("/a%2Fb+c?d=http://e").body, "GET /a/b+c?d=http://e|");
  client.send("\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.reply().body, "OPTIONS *?|");
}

TEST(Http, AnswersWhereTheHandlerDoesNot) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  for (const char* path : {"/throw", "/forget"}) {
    const HttpReply reply = client.get(path);
    EXPECT_EQ(reply.status, 500) << path;
    EXPECT_EQ(reply.header("content-type"), "test/error");
  }
  EXPECT_EQ(client.get("/x").status, 200);
  client.send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  Held held = fixture.held("/hold");
  held.exchange->begin(200, "t");
  held.exchange->send("half");
  held.exchange.reset();
  const HttpReply reply = client.reply();
  EXPECT_EQ(reply.body, "half");
  EXPECT_FALSE(reply.whole);
}

TEST(Http, AnAbandonedAnswerIsSeenToBreakOff) {
  HttpFixture fixture;
  for (const char* version : {"1.1", "1.0"}) {
    HttpClient client(fixture.port);
    client.send(std::string("GET /hold HTTP/") + version + "\r\nHost: t\r\n\r\n");
    const Held held = fixture.held("/hold");
    held.exchange->begin(200, "t");
    held.exchange->send("half");
    EXPECT_TRUE(client.read_until("half"));
    held.exchange->abandon();
    std::array<char, 16> block{};
    const auto got = recv(client.descriptor(), block.data(), block.size(), 0);
    // With chunks there is no last one; without them, only a reset tells it.
    EXPECT_LE(got, version == std::string("1.1") ? 2 : -1);
  }
}

// However a request is cut into pieces, it is the same request.
TEST(Http, CutsDoNotMatter) {
  HttpFixture fixture;
  const std::string chunked =
      "POST /c HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\n12345\r\n1\r\n6\r\n0\r\nA: "
      "b\r\n\r\n";
  const std::string all = kPost + chunked + kPost;
  auto check = [](HttpClient& client) {
    EXPECT_EQ(client.reply().body, "POST /a b?x=%20|hello");
    EXPECT_EQ(client.reply().body, "POST /c?|123456");
    EXPECT_EQ(client.reply().body, "POST /a b?x=%20|hello");
  };
  std::mt19937 random(12);
  for (int round = 0; round < 60; ++round) {
    HttpClient client(fixture.port);
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t bytes = round == 0 ? 1 : 1 + random() % 40;
      client.send(all.substr(at, bytes));
      at += bytes;
      if (random() % 4 == 0) std::this_thread::yield();
    }
    check(client);
  }
}

// Broken bytes of a request give an answer or the connection's end, never anything else.
TEST(Http, SurvivesBrokenBytes) {
  HttpFixture fixture({.receive_timeout = 200ms, .idle_timeout = 200ms});
  const std::string good =
      std::string(kPost) + "POST /c HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = good;
    for (unsigned i = 0, n = 1 + random() % 6; i < n; ++i) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 5);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 9));
      }
    }
    HttpClient client(fixture.port);
    client.send(bytes);
    client.end_sending();
    for (;;) {
      const HttpReply reply = client.reply();
      if (reply.status == 0) break;
      ASSERT_TRUE(reply.status == 200 || (reply.status >= 400 && reply.status < 500)) << reply.status << bytes;
    }
    ASSERT_TRUE(client.ended()) << bytes;
  }
  EXPECT_TRUE(fixture.connections_become(0));
  EXPECT_EQ(HttpClient(fixture.port).get("/x").status, 200);
}

}  // namespace
}  // namespace tern::test
