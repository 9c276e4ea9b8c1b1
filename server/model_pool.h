// Several models behind one address: each is opened when a request first names it, and few have their weights at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/error_forms.h"

namespace tern::server {

// One of them, once it is opened.
class PooledModel {
 public:
  virtual ~PooledModel() = default;
  PooledModel() = default;
  PooledModel(const PooledModel&) = delete;
  PooledModel& operator=(const PooledModel&) = delete;

  // As a server of this model alone; a model that sleeps wakes for it. Any thread.
  virtual void answer(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange) = 0;
  // Gives weights and caches back until the next request. False: requests are on their way.
  virtual bool sleep() = 0;
  virtual void wake() = 0;
  [[nodiscard]] virtual bool sleeps() const = 0;
  // Refuses what comes from now on.
  virtual void close() = 0;
  [[nodiscard]] virtual std::string metrics() const = 0;  // in Prometheus' text format
};

struct PoolOptions {
  std::vector<std::string> names;  // of all models
  // Opens one, with its weights, on the pool's thread. Throws Failure.
  std::function<std::unique_ptr<PooledModel>(const std::string& name)> open;
  std::int64_t max_loaded = 1;  // have their weights at once
};

class ModelPool {
 public:
  explicit ModelPool(PoolOptions options);
  // Ends the models; what waits for one is answered with 503.
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  [[nodiscard]] bool knows(const std::string& name) const;
  // Has the model answer. Where it has no weights the request waits until they are read, behind others that wait so;
  // where too many models have some, the one that was asked longest ago sleeps once its requests have ended: what comes
  // for it meanwhile waits as well. What keeps a model from being opened is told by `errors`. Nothing blocks; any
  // thread.
  void answer(const std::string& name, HttpRequest&& request, std::shared_ptr<HttpExchange> exchange,
              ErrorWriter errors);
  // The same without a request, and the other way. False: it answers requests.
  void load(const std::string& name);
  bool unload(const std::string& name);
  // The one that was asked last; "": none yet.
  [[nodiscard]] std::string last_asked() const;

  struct State {
    std::string name;
    std::string value;  // "unloaded", "loading", "loaded", "sleeping", "failed", as llama.cpp's router has them
  };
  [[nodiscard]] std::vector<State> states() const;
  [[nodiscard]] std::string metrics() const;  // of all that are open
  void close();

 private:
  // Requests that models answer, counted until their exchanges are let go of, which may be after the pool.
  struct Traffic {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::int64_t> running;  // by model
  };
  class CountedExchange;
  struct Entry {
    std::string name;
    std::unique_ptr<PooledModel> model;  // null: not opened
    bool loads = false;
    bool failed = false;
    bool yields = false;  // it's to sleep, and gets no further requests
    std::uint64_t asked = 0;
  };
  struct Job {
    std::size_t entry = 0;
    HttpRequest request;
    std::shared_ptr<HttpExchange> exchange;  // null: the weights alone are asked for
    ErrorWriter errors;
  };

  void serve();
  void run(Job&& job);
  void make_room(std::size_t entry, std::unique_lock<std::mutex>& lock);
  void put_to_sleep(std::size_t entry, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool is_awake(const Entry& entry) const { return entry.model != nullptr && !entry.model->sleeps(); }
  [[nodiscard]] std::size_t index_of(const std::string& name) const;
  [[nodiscard]] std::shared_ptr<HttpExchange> counted(std::size_t entry, std::shared_ptr<HttpExchange> exchange);

  PoolOptions options_;
  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Entry> entries_;
  std::deque<Job> jobs_;
  std::uint64_t times_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

// Pages of several registries as one: each family's samples together, below its one heading. A series that several of
// them have is there once: a counter's values add up, and of another the last one is told.
[[nodiscard]] std::string joined_metrics(const std::vector<std::string>& pages);

}  // namespace tern::server
