// tern deploy among clients that mean harm. unit_server holds each limit by itself; here the built program meets them
// one after another, and after each of them it has what it had before: no connection, no block of the cache and no
// memory is lost, others are answered meanwhile, and SIGTERM ends it with 0.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

using test::HttpClient;
using test::request_text;
using Clients = std::vector<std::unique_ptr<HttpClient>>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsTheProgramsOwn = false;  // a sanitizer keeps what was freed
#else
constexpr bool kMemoryIsTheProgramsOwn = true;
#endif
constexpr std::size_t kHeld = 160U << 20;  // bytes that a first attack may leave: buffers, and what malloc keeps
constexpr std::size_t kSlack = 64U << 20;  // by which a second one may grow: each thread keeps what it freed last

// An answer that goes on until somebody ends it.
std::string endless(bool stream) {
  return R"({"prompt": "a", "max_tokens": 90000, "ignore_eos": true, "stream": )" +
         std::string(stream ? "true}" : "false}");
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

// The process of which this one is the parent: the server.
std::optional<pid_t> child() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    const std::string stat((std::istreambuf_iterator<char>(file)), {});
    std::istringstream behind(stat.substr(std::min(stat.size(), stat.rfind(')') + 2)));
    char state = 0;
    pid_t parent = 0;
    behind >> state >> parent;
    if (parent == getpid()) return std::stoi(name);
  }
  return std::nullopt;
}

class Hostile : public ::testing::Test {
 protected:
  Hostile() {
    TinyModel endless;
    endless.max_positions = 100'000;
    write_tiny_model(scratch_.path() / "tiny", endless);
    server_ = std::make_unique<Deployed>(
        scratch_.path() / "tiny",
        std::vector<std::string>{"--max_num_seqs", "8", "--kv_cache_memory", "16MB", "--max_queue_len", "64"});
    const auto found = child();
    if (!found) throw std::runtime_error("the server has no process");
    pid_ = *found;
    expect_answers();
    EXPECT_TRUE(becomes_idle());
    memory_ = memory();
    descriptors_ = descriptors();
    for (int i = 0; i < 30; ++i) {  // those that asked just now may not be closed yet
      pause();
      descriptors_ = std::min(descriptors_, descriptors());
    }
  }

  // Attacks twice. Whoever asks meanwhile is answered, and afterwards all is as it was.
  void survives(const std::function<void()>& attack) {
    std::size_t before = 0;
    for (int round = 0; round < 2; ++round) {
      attack();
      expect_answers();
      EXPECT_TRUE(becomes_idle()) << metric("vllm:kv_cache_usage_perc") << " of the cache is used by nobody";
      for (int i = 0; i < 1000 && descriptors() != descriptors_; ++i) pause();
      EXPECT_EQ(descriptors(), descriptors_);
      if (round == 0) before = memory();
    }
    if (kMemoryIsTheProgramsOwn) {
      EXPECT_LT(before, memory_ + kHeld);
      EXPECT_LT(memory(), before + kSlack);
    }
    const Outcome& outcome = server_->end();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("warning"), std::string::npos) << outcome.err;
  }

  void expect_answers() const {
    EXPECT_EQ(ask(port(), "GET", "/health").status, 200);
    const HttpReply reply =
        server_->post("/v1/completions", R"({"prompt": "ab", "max_tokens": 4, "ignore_eos": true})");
    EXPECT_EQ(reply.status, 200) << reply.body;
  }

  [[nodiscard]] double metric(const std::string& name) const {
    const std::string page = ask(port(), "GET", "/metrics").body;
    const std::size_t at = page.find("\n" + name + "{");
    return at == std::string::npos ? -1 : std::stod(page.substr(page.find("} ", at) + 2));
  }
  [[nodiscard]] bool becomes_idle() const {
    for (int i = 0; i < 1000; ++i) {
      if (metric("vllm:num_requests_running") == 0 && metric("vllm:num_requests_waiting") == 0 &&
          metric("vllm:kv_cache_usage_perc") == 0) {
        return true;
      }
      pause();
    }
    return false;
  }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] Deployed& server() { return *server_; }
  [[nodiscard]] Clients connect(std::size_t count, int receive_buffer = 0) const {
    Clients out;
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(std::make_unique<HttpClient>(port(), "127.0.0.1", receive_buffer));
      EXPECT_TRUE(out.back()->connected()) << i;
    }
    return out;
  }
  static void reset(Clients& clients) {
    for (auto& client : clients) client->reset();
    clients.clear();
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

 private:
  [[nodiscard]] std::string process(const std::string& file) const {
    return "/proc/" + std::to_string(pid_) + "/" + file;
  }
  [[nodiscard]] std::size_t descriptors() const {
    const std::filesystem::directory_iterator all(process("fd"));
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  [[nodiscard]] std::size_t memory() const {
    std::ifstream statm(process("statm"));
    std::size_t pages = 0;
    statm >> pages >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }

  Scratch scratch_;
  std::unique_ptr<Deployed> server_;
  pid_t pid_ = 0;
  std::size_t descriptors_ = 0, memory_ = 0;  // before anybody meant harm
};

// What an answer's end shows: all the statuses that came before it.
std::vector<int> statuses(HttpClient& client) {
  std::vector<int> out;
  for (HttpReply reply = client.reply(); reply.status != 0; reply = client.reply()) out.push_back(reply.status);
  EXPECT_TRUE(client.ended());
  return out;
}

// Hundreds that send a byte now and then, of a header or of a body, hold no place.
TEST_F(Hostile, SlowClientsHoldNobodyUp) {
  survives([&] {
    Clients slow = connect(400);
    const std::string whole = post("/v1/completions", endless(false));
    for (std::size_t i = 0; i < slow.size(); ++i) {
      slow[i]->send(whole.substr(0, i % 2 == 0 ? 1 + i / 8 : whole.size() - 1 - i % 40));
    }
    for (int turn = 0; turn < 5; ++turn) {
      for (const auto& client : slow) client->send(" ");
      expect_answers();
    }
    reset(slow);
  });
}

// What a server in front of this one could take for two requests, or for another, is answered once, with 400, and ends
// the connection: the request that is hidden behind it is never answered.
TEST_F(Hostile, NothingIsSmuggled) {
  const std::string hidden = "GET /health HTTP/1.1\r\nHost: t\r\n\r\n";
  const std::string body = R"({"prompt": "ab", "max_tokens": 1})";
  const std::string size = std::to_string(body.size());
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: t\r\n";
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const auto length = [](const std::string& value) { return "Content-Length: " + value + "\r\n"; };
  const std::vector<std::string> refused = {
      head + length(size) + chunked + "\r\n0\r\n\r\n",
      head + chunked + length(size) + "\r\n0\r\n\r\n",
      head + length(size) + length("0") + "\r\n" + body,
      head + length(size + ", 0") + "\r\n" + body,
      head + length("-1") + "\r\n" + body,
      head + length("+" + size) + "\r\n" + body,
      head + length("0x21") + "\r\n" + body,
      head + length("99999999999999999999") + "\r\n" + body,
      head + length("") + "\r\n" + body,
      head + "Content-Length : " + size + "\r\n\r\n" + body,
      head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
      head + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
      head +
          "Transfer-Encoding:\x0b"
          "chunked\r\n\r\n0\r\n\r\n",
      head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
      head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
      head + chunked + "\r\n-1\r\n" + body,
      head + chunked + "\r\n0x1\r\na\r\n0\r\n\r\n",
      head + chunked + "\r\nfffffffffffffffff\r\n" + body,
      head + chunked + "\r\n1 \r\na\r\n0\r\n\r\n",
      head + chunked + "\r\n1\na\n0\n\n",
      head + chunked + "\r\n1\r\nab\r\n0\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n",
      "GET /health HTTP/1.1\nHost: t\n\n",
      std::string("GET /hea") + '\0' + "lth HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: t\r\nX: a\rb\r\n\r\n",
  };
  survives([&] {
    for (const std::string& text : refused) {
      HttpClient client(port());
      client.send(text + hidden);
      const auto came = statuses(client);
      EXPECT_EQ(came, std::vector<int>{400}) << text;
    }
    // A line that goes on with a space is the line before's (RFC 9112, 5.2), and this body isn't chunked.
    HttpClient folded(port());
    folded.send(head + "X: a\r\n Transfer-Encoding: chunked\r\n\r\n" + "0\r\n\r\n" + hidden);
    EXPECT_EQ(statuses(folded), (std::vector<int>{400, 400}));
    // A length that is too short makes two bad requests of one; the other half is never a good one.
    HttpClient shorter(port());
    shorter.send(head + length("5") + "\r\n" + body + hidden);
    EXPECT_EQ(statuses(shorter), (std::vector<int>{400, 400}));
    // One that is too long waits for the rest, which never comes.
    HttpClient longer(port());
    longer.send(head + length("1000000") + "\r\n" + body);
    longer.end_sending();
    EXPECT_EQ(statuses(longer), std::vector<int>{});
    expect_answers();
  });
}

// Whatever is sent in the place of a request's JSON, to whichever route: its answer says that the request is wrong.
TEST_F(Hostile, BodiesThatAreNoJson) {
  const std::string deep(200'000, '[');
  const std::vector<std::string> bodies = {"",
                                           "{",
                                           "[1]",
                                           "null",
                                           "\"a\"",
                                           "\xff\xfe",
                                           "{\"prompt\": \"\xff\"}",
                                           "{\"prompt\": \"\xed\xa0\x80\"}",
                                           "{\"prompt\": \"\xf4\x90\x80\x80\"}",
                                           "\xef\xbb\xbf{}",
                                           R"({"a": 1,})",
                                           R"({"a" 1})",
                                           R"({"a": NaN})",
                                           R"({"a": 1e999})",
                                           R"({"a": 01})",
                                           R"({"a": "\ud800"})",
                                           R"({"a": "b)",
                                           std::string("{\"a\": \"\0\"}", 10),
                                           deep,
                                           "{\"messages\": " + deep,
                                           "{\"" + std::string(1'000'000, 'a') + "\": 1}",
                                           "{}{}",
                                           "{'a': 1}"};
  const Json paths = json_of(ask(port(), "GET", "/openapi.json"))["paths"];
  int asked = 0;
  survives([&] {
    HttpClient client(port());
    for (const auto& [path, methods] : paths.items()) {
      const Json* route = methods.find("post");
      if (route == nullptr || !route->contains("requestBody")) continue;
      std::string target(path);
      for (std::size_t at = target.find('{'); at != std::string::npos; at = target.find('{')) {
        target.replace(at, target.find('}', at) - at + 1, "tiny");
      }
      for (const std::string& body : bodies) {
        client.send(post(target, body));
        const HttpReply reply = client.reply();
        EXPECT_TRUE(reply.status >= 400 && reply.status < 500)
            << target << " " << body.substr(0, 80) << reply.status << reply.body;
        ++asked;
      }
    }
  });
  EXPECT_GT(asked, 500);
}

// Requests that are well formed and ask for more than there is.
TEST_F(Hostile, AskForTooMuch) {
  const auto many = [](const std::string& one, int count) {
    std::string out = one;
    for (int i = 1; i < count; ++i) out += "," + one;
    return out;
  };
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"/v1/completions", R"({"prompt": "a", "n": 2000000000})"},
      {"/v1/completions", R"({"prompt": "a", "best_of": 2000000000})"},
      {"/v1/completions", R"({"prompt": "a", "max_tokens": -1})"},
      {"/v1/completions", R"({"prompt": "a", "max_tokens": 1e300})"},
      {"/v1/completions", R"({"prompt": "a", "temperature": 1e300})"},
      {"/v1/completions", R"({"prompt": "a", "logprobs": 2000000000})"},
      {"/v1/completions", R"({"prompt": "a", "prompt_logprobs": 2000000000})"},
      {"/v1/completions", R"({"prompt": [2000000000]})"},
      {"/v1/completions", R"({"prompt": [-1]})"},
      {"/v1/completions", R"({"prompt": [)" + many(R"("a")", 100'000) + R"(], "max_tokens": 1, "n": 1000})"},
      {"/v1/completions", R"({"prompt": ")" + std::string(6'000'000, 'a') + R"("})"},
      {"/v1/completions", R"({"prompt": [)" + many("97", 200'000) + "]}"},
      {"/v1/completions", R"({"prompt": "a", "structured_outputs": {"regex": "((a{0,999}){0,999}){0,999}"}})"},
      {"/v1/completions",
       R"({"prompt": "a", "structured_outputs": {"regex": "()" + std::string(100'000, '(') + R"("}})"},
      {"/v1/completions", R"({"prompt": "a", "structured_outputs": {"grammar": "root ::= root root"}})"},
      {"/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": ")" + std::string(1'000'000, '<') + R"("}]})"},
      {"/v1/embeddings", R"({"input": [)" + many(R"("a")", 10) + R"(], "dimensions": 2000000000})"},
      {"/detokenize", R"({"tokens": [2000000000]})"},
  };
  survives([&] {
    for (const auto& [path, body] : requests) {
      const HttpReply reply = server().post(path, body);
      EXPECT_TRUE(reply.status >= 400 && reply.status < 500) << body.substr(0, 90) << " " << reply.status << reply.body;
      EXPECT_EQ(ask(port(), "GET", "/health").status, 200);
    }
    HttpClient large(port());
    large.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000000000\r\n\r\n");
    EXPECT_EQ(large.reply().status, 413);
    for (const std::string& header :
         {"X: " + std::string(1'000'000, 'a'), many("X", 100'000), std::string(200'000, ':')}) {
      HttpClient client(port());
      client.send("GET /health HTTP/1.1\r\nHost: t\r\n" + header + "\r\n\r\n");
      const int status = client.reply().status;
      EXPECT_TRUE(status == 431 || status == 400) << status;
    }
  });
}

// One connection that asks and asks and reads nothing takes no memory beyond its share, and hears of all of it later.
TEST_F(Hostile, PipelinesWithoutEnd) {
  survives([&] {
    HttpClient greedy(port(), "127.0.0.1", 4096);
    const std::string get = "GET /openapi.json HTTP/1.1\r\nHost: t\r\n\r\n";
    std::string block;
    for (int i = 0; i < 1000; ++i) block += get;
    std::size_t sent = 0;
    for (int idle = 0; idle < 20;) {  // until the server takes no more for a while
      const ssize_t count = ::send(greedy.descriptor(), block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count > 0) {
        sent += static_cast<std::size_t>(count);
      } else {
        ++idle;
        pause();
      }
      ASSERT_LT(sent, 64U << 20) << "the server reads without end";
    }
    expect_answers();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(greedy.reply().status, 200);
    // Sixteen answers are computed for it, none of them is seen to have no reader any more but by the reset.
    HttpClient gone(port());
    std::string asked;
    for (int i = 0; i < 16; ++i) asked += post("/v1/completions", endless(false));
    gone.send(asked);
    while (metric("vllm:num_requests_running") == 0) pause();
    std::string more;
    while (more.size() < 2'000'000) more += get;
    (void)::send(gone.descriptor(), more.data(), more.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    gone.reset();
    greedy.reset();
  });
}

// Streams of which nobody reads a byte, and some whose readers go in the middle of an answer, or before it.
TEST_F(Hostile, StreamsWithoutReaders) {
  survives([&] {
    Clients deaf = connect(4, 4096);
    for (const auto& client : deaf) client->send(post("/v1/completions", endless(true)));
    while (metric("vllm:num_requests_running") < 4) pause();
    for (int i = 0; i < 5; ++i) expect_answers();
    for (int i = 0; i < 60; ++i) {
      HttpClient gone(port());
      gone.send(post("/v1/completions", endless(i % 4 != 0)));
      if (i % 4 == 1) {
        EXPECT_TRUE(gone.read_until("data: "));
      }
      if (i % 4 == 2) gone.end_sending();
      i % 2 == 0 ? gone.reset() : gone.close();
    }
    reset(deaf);
  });
}

// Ten thousand connections in waves, each as many as the limit of descriptors allows, and each of another kind of
// client.
TEST_F(Hostile, TenThousandConnections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t wave = std::min<std::size_t>(2500, limit.rlim_cur - 100);
  survives([&] {
    for (std::size_t done = 0; done < 5000; done += wave) {
      Clients clients = connect(wave);
      for (std::size_t i = 0; i < clients.size(); ++i) {
        const HttpClient& client = *clients[i];
        switch (i % 5) {
          case 0:
            client.send("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
            break;
          case 1:
            client.send("GET /hea");
            break;
          case 2:
            client.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");  // as TLS begins
            break;
          case 3:
            client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            break;
          default:
            break;
        }
      }
      expect_answers();
      reset(clients);
    }
  });
}

// Told to stop among all of these, the program answers what has come whole, and ends.
TEST_F(Hostile, StopsAmongThem) {
  Clients idle = connect(50);
  Clients gone = connect(4);
  for (const auto& client : gone) client->send(post("/v1/completions", endless(true)));
  while (metric("vllm:num_requests_running") < 4) pause();
  HttpClient whole(port());
  whole.send(post("/v1/completions", R"({"prompt": "a", "max_tokens": 300, "ignore_eos": true})"));
  for (int i = 0; i < 500 && metric("vllm:num_requests_running") < 5; ++i) pause();  // it has come
  reset(gone);
  HttpReply reply;
  std::thread reader([&] { reply = whole.reply(); });
  const Outcome& outcome = server().end();
  reader.join();
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

}  // namespace
}  // namespace tern::e2e
