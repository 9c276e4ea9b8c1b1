// If these fail, a request is answered by another model than it names, or models that should sleep keep their memory.
#include "server/model_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>

#include "server/openai/api_error.h"

namespace tern::server {
namespace {

using namespace std::chrono_literals;

// An exchange whose answer comes on another thread.
class WaitingExchange : public HttpExchange {
 public:
  void respond(int, std::string_view, std::string body, Headers) override { body_.set_value(std::move(body)); }
  void begin(int, std::string_view, Headers) override {}
  void send(std::string) override {}
  void finish() override {}
  void abandon() override {}
  void on_gone(std::function<void()>) override {}

  std::string whole_body() {
    if (answer_.wait_for(10s) != std::future_status::ready) return "no answer";
    return answer_.get();
  }
  [[nodiscard]] bool is_complete() const { return answer_.wait_for(0s) == std::future_status::ready; }

 private:
  std::promise<std::string> body_;
  std::shared_future<std::string> answer_ = body_.get_future().share();
};

// Counts how many have their weights, and keeps requests until it is told to answer.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> log;
  std::map<std::string, std::vector<std::shared_ptr<HttpExchange>>> held;
  int awake = 0, most = 0, opened = 0;
  bool fails = false;

  void become_awake(const std::string& name) {
    const std::scoped_lock lock(mutex);
    most = std::max(most, ++awake);
    log.push_back("+" + name);
    changed.notify_all();
  }
  std::vector<std::shared_ptr<HttpExchange>> take(const std::string& name) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, 10s, [&] { return !held[name].empty(); })) << name;
    return std::exchange(held[name], {});
  }
  bool logged(const std::string& text) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 10s, [&] { return std::ranges::find(log, text) != log.end(); });
  }
};

class FakeModel : public PooledModel {
 public:
  FakeModel(World& world, std::string name) : world_(world), name_(std::move(name)) { world_.become_awake(name_); }
  void answer(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) override {
    if (sleeps_) wake();
    const std::scoped_lock lock(world_.mutex);
    if (request.path == "/hold") {
      world_.held[name_].push_back(std::move(exchange));
    } else {
      exchange->respond(200, "t", name_);
    }
    world_.changed.notify_all();
  }
  bool sleep() override {
    const std::scoped_lock lock(world_.mutex);
    if (!world_.held[name_].empty()) return false;
    if (!sleeps_.exchange(true)) {
      --world_.awake;
      world_.log.push_back("-" + name_);
      world_.changed.notify_all();
    }
    return true;
  }
  void wake() override {
    world_.become_awake(name_);
    sleeps_ = false;
  }
  [[nodiscard]] bool sleeps() const override { return sleeps_; }
  void close() override {}
  [[nodiscard]] std::string metrics() const override {
    return "# HELP a A thing.\n# TYPE a gauge\na{m=\"" + name_ + "\"} 1\n";
  }

 private:
  World& world_;
  std::string name_;
  std::atomic<bool> sleeps_{false};
};

class Pool : public ::testing::Test {
 protected:
  std::unique_ptr<ModelPool> pool(std::int64_t max_loaded) {
    PoolOptions options;
    options.names = {"a", "b", "c"};
    options.max_loaded = max_loaded;
    options.open = [this](const std::string& name) -> std::unique_ptr<PooledModel> {
      ++world_.opened;
      if (world_.fails) throw Failure(data_error("weights", "a file", "none", "look for it"));
      return std::make_unique<FakeModel>(world_, name);
    };
    return std::make_unique<ModelPool>(std::move(options));
  }
  static std::shared_ptr<WaitingExchange> ask(ModelPool& pool, const std::string& name, const std::string& path = "/") {
    auto exchange = std::make_shared<WaitingExchange>();
    HttpRequest request;
    request.path = path;
    pool.answer(name, std::move(request), exchange, openai::refuse);
    return exchange;
  }
  World world_;
};

TEST_F(Pool, EachNameIsAnsweredByItsModel) {
  const auto models = pool(1);
  EXPECT_TRUE(models->knows("a"));
  EXPECT_FALSE(models->knows("d"));
  for (int round = 0; round < 20; ++round) {
    for (const char* name : {"a", "b", "a", "c"}) EXPECT_EQ(ask(*models, name)->whole_body(), name);
  }
  EXPECT_EQ(world_.opened, 3) << "a model that slept is opened anew";
  EXPECT_EQ(world_.most, 1);
  EXPECT_EQ(models->last_asked(), "c");
}

// b's requests come while a still answers: a finishes what it has, gets nothing more, and goes on after b.
TEST_F(Pool, WhoIsAskedLongestAgoSleepsOnceItsRequestsHaveEnded) {
  const auto models = pool(1);
  (void)ask(*models, "a", "/hold");
  auto held = world_.take("a");
  const auto second = ask(*models, "b");
  std::this_thread::sleep_for(60ms);
  const auto third = ask(*models, "a");
  std::this_thread::sleep_for(60ms);
  EXPECT_FALSE(second->is_complete());
  EXPECT_FALSE(third->is_complete()) << "b would wait for ever";
  held.front()->respond(200, "t", "late");
  held.clear();
  EXPECT_EQ(second->whole_body(), "b");
  EXPECT_EQ(third->whole_body(), "a");
  EXPECT_EQ(world_.most, 1);
}

TEST_F(Pool, AsManyAsAllowedStayAwake) {
  const auto models = pool(2);
  for (const char* name : {"a", "b", "a", "c", "a"}) EXPECT_EQ(ask(*models, name)->whole_body(), name);
  EXPECT_EQ(world_.most, 2);
  EXPECT_EQ(world_.log, (std::vector<std::string>{"+a", "+b", "-b", "+c"})) << "a was asked after b";
}

TEST_F(Pool, SaysWhyAModelIsNotOpenedAndTriesAgain) {
  const auto models = pool(1);
  world_.fails = true;
  EXPECT_NE(ask(*models, "a")->whole_body().find("expected a file"), std::string::npos);
  EXPECT_EQ(models->states()[0].value, "failed");
  world_.fails = false;
  EXPECT_EQ(ask(*models, "a")->whole_body(), "a");
  EXPECT_EQ(models->states()[0].value, "loaded");
  EXPECT_EQ(models->states()[1].value, "unloaded");
}

TEST_F(Pool, LoadsAndUnloads) {
  const auto models = pool(1);
  models->load("b");
  EXPECT_TRUE(world_.logged("+b"));
  (void)ask(*models, "b", "/hold");
  auto held = world_.take("b");
  world_.held["b"] = held;
  EXPECT_FALSE(models->unload("b")) << "it answers";
  world_.held["b"].clear();
  held.clear();
  EXPECT_TRUE(models->unload("b"));
  EXPECT_EQ(models->states()[1].value, "sleeping");
  EXPECT_TRUE(models->unload("a"));
}

TEST_F(Pool, WhatWaitsIsToldAtTheEnd) {
  auto models = pool(1);
  (void)ask(*models, "a", "/hold");
  const auto held = world_.take("a");
  const auto waits = ask(*models, "b");
  models.reset();
  EXPECT_NE(waits->whole_body().find("shutting down"), std::string::npos);
}

TEST(JoinedMetrics, HaveEachFamilyOnce) {
  EXPECT_EQ(joined_metrics({"# HELP a A.\n# TYPE a gauge\na{m=\"1\"} 1\n# HELP b B.\nb 2\n",
                            "# HELP a A.\n# TYPE a gauge\na{m=\"2\"} 3\n"}),
            "# HELP a A.\n# TYPE a gauge\na{m=\"1\"} 1\na{m=\"2\"} 3\n# HELP b B.\nb 2\n");
}

// Answers are counted by route alone, and the process has one memory: Prometheus drops a series that comes twice.
TEST(JoinedMetrics, HaveEachSeriesOnce) {
  const auto page = [](const std::string& count, const std::string& state) {
    return "# HELP n_total N.\n# TYPE n_total counter\nn_total{r=\"a b\"} " + count +
           "\n# HELP s S.\n# TYPE s gauge\ns " + state + "\n";
  };
  EXPECT_EQ(joined_metrics({page("2", "5"), page("3000000", "7")}), page("3000002", "7"));
}

}  // namespace
}  // namespace tern::server
