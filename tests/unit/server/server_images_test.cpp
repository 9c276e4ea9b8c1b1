// Images that requests name by URL, through every protocol, with a model that sees.
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>

#include "base/base64.h"
#include "base/strings.h"
#include "tests/unit/hub/fake_hub.h"
#include "tests/unit/server/tiny_server.h"

namespace tern::test {
namespace {

using hub::FakeHub;
using hub::FakeReply;
using hub::FakeRequest;
using io::Json;
using namespace std::chrono_literals;

std::string picture(const std::string& name) {
  std::ifstream file(TERN_TEST_DATA "/media/decode/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A web server of pictures; what is asked below /slow is answered when the test says so.
class Web {
 public:
  ~Web() { open(); }
  [[nodiscard]] std::string url(const std::string& path) const { return hub_.url() + path; }
  [[nodiscard]] std::size_t asked() { return hub_.requests().size(); }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  FakeReply answer(const FakeRequest& request) {
    if (request.target.starts_with("/slow")) {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [this] { return open_; });
    }
    if (request.target == "/page") return {.body = "<html>a page</html>"};
    if (request.target == "/cut") return {.body = picture("rgb.png").substr(0, 100)};
    return {.body = picture("rgb.png")};
  }
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  FakeHub hub_{[this](const FakeRequest& request) { return answer(request); }};
};

TinyServer::Options seeing(double seconds = 0) {
  TinyServer::Options options;
  options.seeing = "internvl3";
  options.server.service.media.allowed_domains = {"127.0.0.1"};
  options.server.service.media.timeout = 20s;
  options.server.request_timeout = std::chrono::milliseconds(static_cast<int>(seconds * 1000));
  return options;
}

std::string data_url() { return cat("data:image/png;base64,", encode_base64(picture("rgb.png"))); }

std::string chat(const std::string& url, const std::string& more = R"("temperature": 0, "max_tokens": 4, )") {
  return cat("{", more, R"("messages": [{"role": "user", "content": [
    {"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": ")",
             url, R"("}}]}]})");
}

std::string tokens(const std::string& url) { return chat(url, ""); }

std::string messages(const std::string& source, const std::string& more = R"("max_tokens": 4, "temperature": 0, )") {
  return cat(R"({"model": "tiny", )", more, R"("messages": [{"role": "user", "content": [
    {"type": "image", "source": )",
             source, R"(}, {"type": "text", "text": "What?"}]}]})");
}

std::string response(const std::string& url) {
  return cat(R"({"temperature": 0, "max_output_tokens": 4, "store": false, "input": [{"role": "user", "content": [
    {"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": ")",
             url, R"("}]}]})");
}

Json body_of(const HttpReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  return io::parse_json(reply.body, "answer").value();
}

// The same picture gives the same answer, however it comes.
TEST(ServerImages, AreTheSameByUrl) {
  Web web;
  const TinyServer server(seeing());
  const std::string url = web.url("/a");
  const auto said = [&](const std::string& of) {
    return body_of(server.post("/v1/chat/completions", chat(of)))["choices"][0]["message"].dump();
  };
  EXPECT_EQ(said(url), said(data_url()));
  const auto blocks = [&](const std::string& source) {
    return body_of(server.post("/v1/messages", messages(source)))["content"].dump();
  };
  const std::string by_url = cat(R"({"type": "url", "url": ")", url, "\"}");
  const std::string whole =
      cat(R"({"type": "base64", "media_type": "image/png", "data": ")", encode_base64(picture("rgb.png")), "\"}");
  EXPECT_EQ(blocks(by_url), blocks(whole));
  const auto output = [&](const std::string& of) {
    return body_of(server.post("/v1/responses", response(of)))["output"][0]["content"].dump();
  };
  EXPECT_EQ(output(url), output(data_url()));
  const auto counted = [&](const std::string& source) {
    return body_of(server.post("/v1/messages/count_tokens", messages(source, "")))["input_tokens"].dump();
  };
  EXPECT_EQ(counted(by_url), counted(whole));
  const auto ids = [&](const std::string& of) { return body_of(server.post("/tokenize", tokens(of))).dump(); };
  EXPECT_EQ(ids(url), ids(data_url()));
  EXPECT_EQ(web.asked(), 5U);
}

TEST(ServerImages, NameTheirFieldWhereTheyAreNone) {
  Web web;
  TinyServer::Options options = seeing();
  const TinyServer server(options);
  const auto error = [&](const std::string& url) {
    const HttpReply reply = server.post("/v1/chat/completions", chat(url));
    EXPECT_EQ(reply.status, 400) << url << " " << reply.body;
    return io::parse_json(reply.body, "answer").value()["error"];
  };
  const std::string page = error(web.url("/page"))["message"].text();
  EXPECT_TRUE(
      page.starts_with("field \"messages[0].content[1].image_url.url\": expected a JPEG, PNG or WebP image, found "))
      << page;
  EXPECT_EQ(error(web.url("/cut"))["param"].text(), "messages[0].content[1].image_url.url");
  EXPECT_EQ(error("http://example.com/a")["param"].text(), "messages[0].content[1].image_url.url");
  EXPECT_EQ(error("/etc/passwd")["param"].text(), "messages[0].content[1].image_url.url");
  EXPECT_EQ(error("file:///etc/passwd")["param"].text(), "messages[0].content[1].image_url.url");
  EXPECT_EQ(error("data:image/png;base64,AAAA")["param"].text(), "messages[0].content[1].image_url.url");
  const std::string source = R"({"type": "url", "url": "file:///etc/passwd"})";
  const HttpReply anthropic = server.post("/v1/messages", messages(source));
  EXPECT_EQ(anthropic.status, 400);
  EXPECT_NE(anthropic.body.find("messages[0].content[0].source.url"), std::string::npos) << anthropic.body;
  EXPECT_NE(server.post("/v1/responses", response("http://example.com/a")).body.find("input[0].content[1].image_url"),
            std::string::npos);
  // What only counts reads no file and asks no host either.
  EXPECT_EQ(server.post("/v1/messages/count_tokens", messages(source, "")).status, 400);
  EXPECT_EQ(server.post("/tokenize", tokens("http://localhost:1/a")).status, 400);
  EXPECT_EQ(server.post("/tokenize", tokens(web.url("/page"))).status, 400);
  EXPECT_EQ(web.asked(), 3U);
}

TEST(ServerImages, AreNotAskedForByAModelThatSeesNone) {
  Web web;
  TinyServer::Options options = seeing();
  options.seeing = "";
  const TinyServer server(options);
  const HttpReply reply = server.post("/v1/chat/completions", chat(web.url("/a")));
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("the model sees no images"), std::string::npos) << reply.body;
  EXPECT_EQ(web.asked(), 0U);
}

// Hosts that don't answer hold up nobody but those who named them.
TEST(ServerImages, KeepNobodyElseWaiting) {
  Web web;
  const TinyServer server(seeing());
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 8; ++i) {  // as many as are fetched of one host at once
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    const bool tokenizes = i % 3 == 0;
    const std::string path = tokenizes ? "/tokenize" : "/v1/chat/completions";
    const std::string url = web.url(cat("/slow", i));
    clients.back()->send(
        request_text("POST", path, tokenizes ? tokens(url) : chat(url), "Content-Type: application/json\r\n"));
  }
  for (int i = 0; i < 1000 && web.asked() < clients.size(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(web.asked(), clients.size());
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "Hi", "max_tokens": 2})").status, 200);
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "Hi"})").status, 200);
  web.open();
  for (const auto& client : clients) EXPECT_EQ(client->reply().status, 200);
  EXPECT_TRUE(server.becomes_idle());
}

TEST(ServerImages, WaitInTheQueue) {
  Web web;
  TinyServer::Options options = seeing();
  options.server.service.max_queue_len = 1;
  const TinyServer server(options);
  HttpClient first(server.port());
  first.send(request_text("POST", "/v1/chat/completions", chat(web.url("/slow"))));
  for (int i = 0; i < 1000 && web.asked() == 0; ++i) std::this_thread::sleep_for(10ms);
  const HttpReply second = server.post("/v1/chat/completions", chat(web.url("/a")));
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.header("retry-after"), "1");
  const std::string count = messages(cat(R"({"type": "url", "url": ")", web.url("/a"), "\"}"), "");
  for (const HttpReply& reply :
       {server.post("/tokenize", tokens(web.url("/a"))), server.post("/v1/messages/count_tokens", count)}) {
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.header("retry-after"), "1");
  }
  // Whoever goes away gives the place back, and nothing is computed.
  first.reset();
  int status = 429;
  for (int i = 0; i < 1000 && status == 429; ++i) {
    status = server.post("/v1/chat/completions", chat(web.url("/a"))).status;
    if (status == 429) std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(status, 200);
}

TEST(ServerImages, CountInTheTimeOfARequest) {
  Web web;
  const TinyServer server(seeing(0.3));
  const HttpReply reply = server.post("/v1/chat/completions", chat(web.url("/slow")));
  EXPECT_EQ(reply.status, 504);
  EXPECT_EQ(server.post("/tokenize", tokens(web.url("/slow"))).status, 504);
  web.open();
}

// What nobody waits for any more is fetched no further: it takes no place in the queue.
TEST(ServerImages, AreLetGoOfWhenTheTimeIsOver) {
  Web web;
  TinyServer::Options options = seeing(0.3);
  options.server.service.max_queue_len = 1;
  options.server.service.media.timeout = 600s;
  const TinyServer server(options);
  const std::string count = messages(cat(R"({"type": "url", "url": ")", web.url("/slow"), "\"}"), "");
  const auto ends = [&](const char* path, const std::string& body) {
    int status = 429;
    for (int i = 0; i < 1000 && status == 429; ++i) {
      status = server.post(path, body).status;
      if (status == 429) std::this_thread::sleep_for(10ms);
    }
    return status;
  };
  EXPECT_EQ(ends("/tokenize", tokens(web.url("/slow"))), 504);
  EXPECT_EQ(ends("/v1/messages/count_tokens", count), 504);
  EXPECT_EQ(ends("/tokenize", tokens(web.url("/slow"))), 504);
  web.open();
}

}  // namespace
}  // namespace tern::test
