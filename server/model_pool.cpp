#include "server/model_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "server/passing_exchange.h"

namespace tern::server {

// Passes all on, and is counted while anybody holds it.
class ModelPool::CountedExchange : public PassingExchange {
 public:
  CountedExchange(std::shared_ptr<HttpExchange> inner, std::shared_ptr<Traffic> traffic, std::size_t entry)
      : PassingExchange(std::move(inner)), traffic_(std::move(traffic)), entry_(entry) {
    const std::scoped_lock lock(traffic_->mutex);
    ++traffic_->running[entry_];
  }
  ~CountedExchange() override {
    const std::scoped_lock lock(traffic_->mutex);
    --traffic_->running[entry_];
    traffic_->changed.notify_all();
  }
  CountedExchange(const CountedExchange&) = delete;
  CountedExchange& operator=(const CountedExchange&) = delete;

 private:
  std::shared_ptr<Traffic> traffic_;
  std::size_t entry_;
};

ModelPool::ModelPool(PoolOptions options) : options_(std::move(options)) {
  for (const std::string& name : options_.names) {
    entries_.emplace_back();
    entries_.back().name = name;
  }
  traffic_->running.resize(entries_.size());
  thread_ = std::thread([this] { serve(); });
}

ModelPool::~ModelPool() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  traffic_->changed.notify_all();
  thread_.join();
  for (const Job& job : jobs_) {
    if (!job.exchange) continue;
    job.errors(*job.exchange, failed_error("the server is shutting down", "ask another, or come again later"), 503, {});
  }
}

std::size_t ModelPool::index_of(const std::string& name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return static_cast<std::size_t>(found - entries_.begin());
}

bool ModelPool::knows(const std::string& name) const { return index_of(name) < entries_.size(); }

std::shared_ptr<HttpExchange> ModelPool::counted(std::size_t entry, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<CountedExchange>(std::move(exchange), traffic_, entry);
}

void ModelPool::answer(const std::string& name, HttpRequest&& request, std::shared_ptr<HttpExchange> exchange,
                       ErrorWriter errors) {
  const std::size_t at = index_of(name);
  PooledModel* model = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    Entry& entry = entries_.at(at);
    entry.asked = ++times_;
    if (is_awake(entry) && !entry.yields) {
      model = entry.model.get();
      exchange = counted(at, std::move(exchange));
    } else {
      jobs_.push_back({at, std::move(request), std::move(exchange), errors});
    }
  }
  if (model != nullptr) {
    model->answer(std::move(request), std::move(exchange));
  } else {
    wake_.notify_all();
  }
}

void ModelPool::load(const std::string& name) {
  {
    const std::scoped_lock lock(mutex_);
    const std::size_t at = index_of(name);
    entries_.at(at).asked = ++times_;
    jobs_.push_back({at, {}, nullptr, {}});
  }
  wake_.notify_all();
}

bool ModelPool::unload(const std::string& name) {
  PooledModel* model = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    model = entries_.at(index_of(name)).model.get();
  }
  return model == nullptr || model->sleeps() || model->sleep();
}

std::string ModelPool::last_asked() const {
  const std::scoped_lock lock(mutex_);
  const auto last = std::ranges::max_element(entries_, {}, &Entry::asked);
  return last == entries_.end() || last->asked == 0 ? "" : last->name;
}

std::vector<ModelPool::State> ModelPool::states() const {
  const std::scoped_lock lock(mutex_);
  std::vector<State> out;
  for (const Entry& entry : entries_) {
    const char* value = entry.loads              ? "loading"
                        : entry.failed           ? "failed"
                        : entry.model == nullptr ? "unloaded"
                        : entry.model->sleeps()  ? "sleeping"
                                                 : "loaded";
    out.push_back({entry.name, value});
  }
  return out;
}

std::string ModelPool::metrics() const {
  std::vector<std::string> pages;
  const std::scoped_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.model) pages.push_back(entry.model->metrics());
  }
  return joined_metrics(pages);
}

void ModelPool::close() {
  const std::scoped_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.model) entry.model->close();
  }
}

void ModelPool::serve() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    run(std::move(job));
  }
}

// Its requests end, and none come meanwhile: so it does sleep.
void ModelPool::put_to_sleep(std::size_t at, std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::milliseconds kAgain{20};
  Entry& entry = entries_[at];
  entry.yields = true;
  while (!stop_ && is_awake(entry)) {
    lock.unlock();
    bool is_quiet = false;
    {
      std::unique_lock waiting(traffic_->mutex);
      is_quiet = traffic_->changed.wait_for(waiting, kAgain, [&] { return traffic_->running[at] == 0; });
    }
    if (is_quiet) (void)entry.model->sleep();
    lock.lock();
  }
  entry.yields = false;
}

void ModelPool::make_room(std::size_t for_entry, std::unique_lock<std::mutex>& lock) {
  while (!stop_) {
    std::vector<std::size_t> awake;
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      if (at != for_entry && is_awake(entries_[at])) awake.push_back(at);
    }
    if (static_cast<std::int64_t>(awake.size()) < options_.max_loaded) return;
    put_to_sleep(*std::ranges::min_element(awake, {}, [this](std::size_t at) { return entries_[at].asked; }), lock);
  }
}

void ModelPool::run(Job&& job) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[job.entry];
  if (!is_awake(entry)) {
    make_room(job.entry, lock);
    if (stop_) {
      jobs_.push_front(std::move(job));
      return;
    }
    entry.loads = true;
    lock.unlock();
    std::unique_ptr<PooledModel> opened;
    const Status loaded = catching([&] {
      if (entry.model == nullptr) {
        opened = options_.open(entry.name);
      } else {
        entry.model->wake();
      }
      return Unit{};
    });
    lock.lock();
    entry.loads = false;
    entry.failed = !loaded;
    if (opened) entry.model = std::move(opened);
    if (!loaded) {
      lock.unlock();
      log_warn(cat("the model ", entry.name, " could not be loaded: ", loaded.error().line()));
      if (job.exchange) job.errors(*job.exchange, loaded.error(), 500, {});
      return;
    }
  }
  if (!job.exchange) return;
  PooledModel* const model = entry.model.get();
  auto exchange = counted(job.entry, std::move(job.exchange));
  lock.unlock();
  model->answer(std::move(job.request), std::move(exchange));
}

namespace {

// A family's lines as they are joined: each series once, in the order in which they came.
class JoinedFamily {
 public:
  void head(std::string_view line) {
    if (line.starts_with("# TYPE ")) counts_ = line.ends_with(" counter");
    heading_ += cat(line, "\n");
  }
  [[nodiscard]] bool has_heading() const { return !heading_.empty(); }

  // What two registries have under the same labels is of the whole process: counts add up, and a state is told once.
  void add(std::string_view line) {
    const std::size_t space = line.rfind(' ');  // label values may have spaces
    const std::string series(line.substr(0, space));
    const std::string value(line.substr(std::min(line.size(), space + 1)));
    const auto [found, is_new] = places_.emplace(series, samples_.size());
    if (is_new) {
      samples_.emplace_back(series, value);
      return;
    }
    std::string& kept = samples_[found->second].second;
    kept = counts_ ? cat(std::strtod(kept.c_str(), nullptr) + std::strtod(value.c_str(), nullptr)) : value;
  }

  [[nodiscard]] std::string text() const {
    std::string out = heading_;
    for (const auto& [series, value] : samples_) out += cat(series, " ", value, "\n");
    return out;
  }

 private:
  std::string heading_;
  bool counts_ = false;
  std::vector<std::pair<std::string, std::string>> samples_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace

std::string joined_metrics(const std::vector<std::string>& pages) {
  std::map<std::string, JoinedFamily> families;
  for (const std::string& page : pages) {
    JoinedFamily* current = nullptr;
    std::set<std::string> headed;  // by an earlier page
    for (const auto& [name, family] : families) {
      if (family.has_heading()) headed.insert(name);
    }
    for (const std::string_view line : split(page, '\n')) {
      if (line.starts_with("# ")) {
        const std::string_view rest = line.substr(line.find(' ', 2) + 1);
        const std::string name(rest.substr(0, rest.find(' ')));
        current = &families[name];
        if (!headed.contains(name)) current->head(line);
      } else if (!line.empty() && current != nullptr) {
        current->add(line);
      }
    }
  }
  std::string out;
  for (const auto& [name, family] : families) out += family.text();
  return out;
}

}  // namespace tern::server
