// What a server must survive: clients that are slow, large, many, or gone.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "server/http.h"
#include "tests/unit/server/http_fixture.h"

namespace tern::test {
namespace {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: t\r\n\r\n"; }

TEST(HttpLimits, RefusesALargeBodyBeforeItHasCome) {
  HttpFixture fixture({.max_body_bytes = 1000});
  HttpClient fits(fixture.port);
  fits.send("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'a'));
  EXPECT_EQ(fits.reply().status, 200);
  HttpClient length(fixture.port);
  length.send("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 1001\r\n\r\n");
  const HttpReply reply = length.reply();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.body, "413|the request's body is larger than 1000 bytes");
  EXPECT_EQ(reply.header("connection"), "close");
  // A client that sends on still gets the answer.
  HttpClient chunked(fixture.port);
  chunked.send("POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + std::string(1000, 'a'));
  chunked.send("\r\n1\r\na\r\n");
  for (int i = 0; i < 100; ++i) chunked.send(std::string(10000, 'a'));
  EXPECT_EQ(chunked.reply().status, 413);
  HttpClient waits(fixture.port);
  waits.send("POST /x HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(waits.reply().status, 413);
}

TEST(HttpLimits, RefusesLargeHeaders) {
  HttpFixture fixture({.max_header_bytes = 2000});
  const std::string line = "X: " + std::string(95, 'a') + "\r\n";
  std::string many;
  for (int i = 0; i < 19; ++i) many += line;
  HttpClient client(fixture.port);
  client.send("GET /x HTTP/1.1\r\nHost: t\r\n" + many + "\r\n");
  EXPECT_EQ(client.reply().status, 200);
  const std::vector<std::string> large{
      "GET /x HTTP/1.1\r\nHost: t\r\n" + many + line + "\r\n",
      "GET /x HTTP/1.1\r\nHost: t\r\nX: " + std::string(3000, 'a'),
      "GET /" + std::string(3000, 'a'),
      "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(3000, 'a'),
      "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(3000, 'a'),
  };
  for (const std::string& text : large) {
    HttpClient refused(fixture.port);
    refused.send(text);
    EXPECT_EQ(refused.reply().status, 431) << text.substr(0, 80);
  }
}

TEST(HttpLimits, EndsRequestsThatTakeTooLong) {
  HttpFixture fixture({.receive_timeout = 100ms});
  const std::vector<std::string> parts{"G", "GET /x HTTP/1.1\r\nHost: t\r\n",
                                       "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nabc"};
  for (const std::string& part : parts) {
    HttpClient client(fixture.port);
    client.send(part);
    const HttpReply reply = client.reply();
    EXPECT_EQ(reply.status, 408) << part;
    EXPECT_EQ(reply.body, "408|the request did not arrive whole within 100 ms");
    EXPECT_TRUE(client.ended());
  }
  // A byte now and then does not buy time.
  HttpClient loris(fixture.port);
  std::thread drip([&] {
    for (int i = 0; i < 1000 && loris.send("a"); ++i) std::this_thread::sleep_for(10ms);
  });
  EXPECT_EQ(loris.reply().status, 408);
  EXPECT_TRUE(fixture.connections_become(0));
  loris.end_sending();
  drip.join();
}

TEST(HttpLimits, EndsIdleConnectionsButNotAnswers) {
  HttpFixture fixture({.receive_timeout = 100ms, .idle_timeout = 100ms});
  HttpClient silent(fixture.port);
  HttpClient empty_lines(fixture.port);
  empty_lines.send("\r\n");
  HttpClient used(fixture.port);
  EXPECT_EQ(used.get("/x").status, 200);
  HttpClient asking(fixture.port);
  asking.send(get("/hold"));
  const Held held = fixture.held("/hold");
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(empty_lines.ended());
  EXPECT_TRUE(used.ended());
  EXPECT_TRUE(fixture.connections_become(1));
  std::this_thread::sleep_for(300ms);
  held.exchange->respond(200, "t", "late");
  EXPECT_EQ(asking.reply().body, "late");
}

TEST(HttpLimits, NoticesAClientThatGoesAway) {
  HttpFixture fixture;
  for (const bool reset : {false, true}) {
    for (const bool begun : {false, true}) {
      HttpClient client(fixture.port);
      client.send(get("/hold"));
      const Held held = fixture.held("/hold");
      Flag gone;
      held.exchange->on_gone([&] { gone.set(); });
      if (begun) held.exchange->begin(200, "t");
      EXPECT_EQ(gone.count(), 0);
      reset ? client.reset() : client.close();
      EXPECT_TRUE(gone.wait());
      held.exchange->send("to nobody");
      held.exchange->respond(200, "t", "to nobody");
      held.exchange->finish();
      Flag late;
      held.exchange->on_gone([&] { late.set(); });
      EXPECT_EQ(late.count(), 1);  // at once
      EXPECT_EQ(gone.count(), 1);
    }
  }
  EXPECT_TRUE(fixture.connections_become(0));
}

TEST(HttpLimits, NobodyIsGoneAfterTheAnswer) {
  HttpFixture fixture;
  Flag gone;
  {
    HttpClient client(fixture.port);
    client.send(get("/hold"));
    const Held held = fixture.held("/hold");
    held.exchange->on_gone([&] { gone.set(); });
    held.exchange->respond(200, "t", "done");
    held.exchange->on_gone([&] { gone.set(); });
    EXPECT_EQ(client.reply().body, "done");
  }
  EXPECT_TRUE(fixture.connections_become(0));
  EXPECT_EQ(gone.count(), 0);
}

// An answer that is complete still reaches a client that has closed its own half.
TEST(HttpLimits, AnswersAHalfClosedClient) {
  HttpFixture fixture;
  HttpClient client(fixture.port);
  client.send(get("/x") + get("/stream"));
  client.end_sending();
  EXPECT_EQ(client.reply().status, 200);
  EXPECT_EQ(client.reply().body, "one,two,three");
  EXPECT_TRUE(client.ended());
}

TEST(HttpLimits, AQueueThatNobodyReadsIsGone) {
  HttpFixture fixture({.max_queued_bytes = 100'000});
  HttpClient client(fixture.port, "127.0.0.1", 4096);
  client.send(get("/hold"));
  const Held held = fixture.held("/hold");
  Flag gone;
  held.exchange->on_gone([&] { gone.set(); });
  held.exchange->begin(200, "t");
  // More than the kernel and the queue hold together.
  for (int i = 0; i < 5000 && gone.count() == 0; ++i) held.exchange->send(std::string(10'000, 'a'));
  EXPECT_TRUE(gone.wait());
  EXPECT_TRUE(fixture.connections_become(0));
}

// Also where the socket takes nothing more, so that nothing is written that could fail.
TEST(HttpLimits, AQueueBehindAFullSocketIsGone) {
  HttpFixture fixture({.max_queued_bytes = 100'000});
  HttpClient client(fixture.port, "127.0.0.1", 4096);
  client.send(get("/hold"));
  const Held held = fixture.held("/hold");
  Flag gone;
  held.exchange->on_gone([&] { gone.set(); });
  held.exchange->begin(200, "t");
  held.exchange->send(std::string(12'000'000, 'a'));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(gone.count(), 0);
  for (int i = 0; i < 20; ++i) {
    held.exchange->send(std::string(10'000, 'a'));
    std::this_thread::sleep_for(2ms);  // the server looks at each
  }
  EXPECT_TRUE(gone.wait());
  EXPECT_TRUE(fixture.connections_become(0));
}

TEST(HttpLimits, AClientThatTakesNothingIsGone) {
  HttpFixture fixture({.send_timeout = 100ms});
  HttpClient client(fixture.port, "127.0.0.1", 4096);
  client.send(get("/hold"));
  const Held held = fixture.held("/hold");
  Flag gone;
  held.exchange->on_gone([&] { gone.set(); });
  held.exchange->begin(200, "t");
  held.exchange->send(std::string(12'000'000, 'a'));  // one chunk: under the queue's limit
  EXPECT_TRUE(gone.wait());
  EXPECT_TRUE(fixture.connections_become(0));
}

// A slow reader loses nothing, and a whole answer may be larger than the queue's limit.
TEST(HttpLimits, LargeAnswersArriveWhole) {
  HttpFixture fixture({.max_queued_bytes = 1000});
  HttpClient client(fixture.port, "127.0.0.1", 4096);
  std::string large;
  for (int i = 0; large.size() < 3'000'000; ++i) large += std::to_string(i);
  for (const bool stream : {false, true}) {
    client.send(get("/hold"));
    const Held held = fixture.held("/hold");
    if (stream) {
      held.exchange->begin(200, "t");
      held.exchange->send(large);
      held.exchange->finish();
    } else {
      held.exchange->respond(200, "t", large);
    }
    EXPECT_TRUE(client.reply().body == large);
  }
}

TEST(HttpLimits, TellsThoseOverTheLimit) {
  HttpFixture fixture({.max_connections = 2});
  HttpClient one(fixture.port);
  auto two = std::make_unique<HttpClient>(fixture.port);
  EXPECT_EQ(one.get("/x").status, 200);
  EXPECT_EQ(two->get("/x").status, 200);
  {
    HttpClient three(fixture.port);
    const HttpReply reply = three.reply();
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.header("retry-after"), "1");
    EXPECT_TRUE(three.ended());
  }
  two.reset();
  EXPECT_TRUE(fixture.connections_become(1));
  EXPECT_EQ(HttpClient(fixture.port).get("/x").status, 200);
}

TEST(HttpLimits, HoldsThousandsOfIdleConnections) {
  HttpFixture fixture;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
  const std::size_t count = std::min<std::size_t>(2500, (limit.rlim_cur - 200) / 2);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<HttpClient>(fixture.port));
    ASSERT_TRUE(clients.back()->connected());
  }
  EXPECT_TRUE(fixture.connections_become(count));
  for (auto& client : clients) ASSERT_EQ(client->get("/x").status, 200);
  EXPECT_EQ(fixture.server->connections(), count);
  clients.clear();
  EXPECT_TRUE(fixture.connections_become(0));
}

TEST(HttpLimits, TenThousandConnectionsLeaveNoDescriptor) {
  HttpFixture fixture;
  EXPECT_EQ(HttpClient(fixture.port).get("/x").status, 200);
  EXPECT_TRUE(fixture.connections_become(0));
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 10'000; ++i) {
    HttpClient client(fixture.port);
    ASSERT_TRUE(client.connected());
    if (i % 4 == 0) client.send(get("/x"));
    if (i % 4 == 1) client.send("GET /");
    if (i % 4 == 2) {
      ASSERT_EQ(client.get("/stream").status, 200);
    }
    // A port that waits for late packets is used up for a minute; a reset leaves none.
    client.reset();
  }
  EXPECT_TRUE(fixture.connections_become(0));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(HttpLimits, WaitsForDescriptors) {
  HttpFixture fixture;
  HttpClient first(fixture.port);
  EXPECT_EQ(first.get("/x").status, 200);
  std::mutex mutex;
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit low = limit;
  const int next = dup(0);  // the lowest that is free: the client below gets it, and its other end finds none
  ::close(next);
  low.rlim_cur = static_cast<rlim_t>(next) + 1;
  setrlimit(RLIMIT_NOFILE, &low);
  HttpClient client(fixture.port);
  EXPECT_TRUE(client.connected());
  client.send(get("/x"));
  EXPECT_EQ(first.get("/x").status, 200);
  std::this_thread::sleep_for(350ms);  // some tries
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(client.reply().status, 200);
  set_log_sink(nullptr);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(
      lines[0],
      "no further connection can be taken for now (1 are open): Too many open files; `ulimit -n` tells the limit");
}

TEST(HttpLimits, DrainAnswersWhatHasCome) {
  HttpFixture fixture;
  HttpClient idle(fixture.port);
  EXPECT_EQ(idle.get("/x").status, 200);
  HttpClient waiting(fixture.port);
  waiting.send(get("/hold"));
  const Held held = fixture.held("/hold");
  HttpClient streaming(fixture.port);
  streaming.send(get("/hold/stream"));
  const Held stream = fixture.held("/hold/stream");
  stream.exchange->begin(200, "t");
  EXPECT_TRUE(streaming.read_until("\r\n\r\n"));
  HttpClient half(fixture.port);
  half.send("POST /hold/half HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab");
  EXPECT_TRUE(fixture.connections_become(4));
  EXPECT_FALSE(fixture.server->drain(50ms));
  EXPECT_TRUE(idle.ended());
  EXPECT_FALSE(HttpClient(fixture.port).connected());
  std::thread rest([&] {
    half.send("cd");
    fixture.held("/hold/half").exchange->respond(200, "t", "half");
    held.exchange->respond(200, "t", "whole");
    stream.exchange->send("end");
    stream.exchange->finish();
    EXPECT_TRUE(streaming.read_until("end\r\n0\r\n\r\n"));
    EXPECT_TRUE(streaming.ended());
    for (HttpClient* client : {&waiting, &half}) {
      const HttpReply reply = client->reply();
      EXPECT_EQ(reply.status, 200);
      EXPECT_EQ(reply.header("connection"), "close");
      EXPECT_TRUE(client->ended());
      client->close();
    }
    streaming.close();
  });
  EXPECT_TRUE(fixture.server->drain(10s));
  rest.join();
  EXPECT_EQ(fixture.server->connections(), 0U);
}

TEST(HttpLimits, ExchangesOutliveTheServer) {
  std::vector<Held> held;
  Flag gone;
  std::vector<std::unique_ptr<HttpClient>> clients;
  {
    HttpFixture fixture;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<HttpClient>(fixture.port));
      clients.back()->send(get("/hold" + std::to_string(i)));
      held.push_back(fixture.held("/hold" + std::to_string(i)));
      held.back().exchange->on_gone([&] { gone.set(); });
    }
    held[1].exchange->begin(200, "t");
  }
  EXPECT_EQ(gone.count(), 4);
  for (auto& one : held) {
    one.exchange->respond(200, "t", "late");
    one.exchange->begin(200, "t");
    one.exchange->send("late");
    one.exchange->finish();
    one.exchange->abandon();
  }
  held.clear();
  // And while other threads go on sending.
  for (int round = 0; round < 20; ++round) {
    std::thread sender;
    HttpClient* client = nullptr;
    {
      HttpFixture fixture;
      clients.push_back(std::make_unique<HttpClient>(fixture.port));
      client = clients.back().get();
      client->send(get("/hold"));
      sender = std::thread([exchange = fixture.held("/hold").exchange] {
        exchange->begin(200, "t");
        for (int i = 0; i < 2000; ++i) exchange->send("x");
        exchange->finish();
      });
    }
    sender.join();
  }
}

// A timer that is due can't be cancelled any more: what it does then must not go on for ever.
TEST(HttpLimits, EndsThoughASweepIsDue) {
  server::HttpOptions options;
  options.receive_timeout = options.idle_timeout = 40ms;  // a sweep every 5 ms
  HttpFixture fixture(options);
  HttpClient client(fixture.port);
  std::unique_lock lock(fixture.mutex);
  client.send(get("/hold"));  // whose handler waits for the lock
  std::this_thread::sleep_for(60ms);
  Flag ended;
  std::thread ender([&] {
    fixture.server.reset();
    ended.set();
  });
  std::this_thread::sleep_for(60ms);
  lock.unlock();
  ASSERT_TRUE(ended.wait()) << "the server's thread goes on";
  ender.join();
}

// Eight threads, forty streams: each gets its own pieces in its own order.
TEST(HttpLimits, ManyThreadsSendAtOnce) {
  HttpFixture fixture;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&fixture, t] {
      for (int i = 0; i < 5; ++i) {
        HttpClient client(fixture.port);
        const std::string path = "/hold/" + std::to_string(t) + "/" + std::to_string(i);
        client.send(get(path));
        const Held held = fixture.held(path);
        std::string expected;
        held.exchange->begin(200, "t");
        for (int k = 0; k < 300; ++k) {
          const std::string piece = path + ":" + std::to_string(k) + ";";
          held.exchange->send(piece);
          expected += piece;
        }
        held.exchange->finish();
        EXPECT_EQ(client.reply().body, expected);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(HttpLimits, SaysWhyItCannotListen) {
  auto line_of = [](const server::HttpOptions& options) {
    auto listened = server::HttpServer::listen(options, {}, {});
    return listened.ok() ? std::string("it listens") : listened.error().line();
  };
  HttpFixture fixture;
  const std::string port = std::to_string(fixture.port);
  EXPECT_EQ(line_of({.host = "127.0.0.1", .port = fixture.port}),
            "port " + port + " is taken: Address already in use; choose another with --port.");
  EXPECT_EQ(
      line_of({.host = "192.0.2.1", .port = 0}),
      "\"192.0.2.1\" cannot be listened at: Cannot assign requested address; give an address of this machine with "
      "--host, or 0.0.0.0 for all of them.");
  EXPECT_EQ(line_of({.host = "no such.invalid", .port = 0}).substr(0, 40),
            "the host \"no such.invalid\" is not known:");
  EXPECT_EQ(line_of({.host = "127.0.0.1", .port = 0, .ssl_certfile = "cert.pem"}),
            "--ssl_certfile and --ssl_keyfile belong together; give both or neither.");
}

TEST(HttpLimits, SaysWhichPortsAreRootsOwn) {
  int first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first;
  if (first <= 81) GTEST_SKIP() << "this machine lets everyone use all ports";
  const bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const auto listened = server::HttpServer::listen({.host = "127.0.0.1", .port = 81}, {}, {});
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  ASSERT_FALSE(listened.ok());
  EXPECT_EQ(listened.error().line(), "port 81 may not be used: Permission denied; choose one above 1023 with --port.");
}

}  // namespace
}  // namespace tern::test
