// The images of requests that say where they are instead of having them: which of them a client may have read, and the
// fetching, on threads of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/llm.h"
#include "server/byte_budget.h"
#include "server/http.h"
#include "server/work_queue.h"

namespace tern::server {

class HostTurns;

// What a client may have the server read. By itself nothing: a URL that a client names is asked from where the server
// stands, which may reach what the client may not.
struct MediaOptions {
  // Hosts of http:// and https:// URLs, with all their addresses; "*": any other, at public addresses alone.
  std::vector<std::string> allowed_domains;
  std::filesystem::path allowed_local_path;  // the folder below which file:// URLs are read; "": none is
  bool allow_redirects = true;               // to hosts that are allowed, too
  std::chrono::milliseconds timeout{5000};   // of one image
  std::size_t max_bytes = 64U << 20;         // of the images that are fetched for one request together
  std::size_t max_total_bytes = 512U << 20;  // of all those that are on their way
};

// A request's images that are on their way.
class ImageFetch {
 public:
  virtual ~ImageFetch() = default;
  ImageFetch() = default;
  ImageFetch(const ImageFetch&) = delete;
  ImageFetch& operator=(const ImageFetch&) = delete;
  // Nobody waits for them any more: within a second or so no byte is read. Any thread.
  virtual void cancel() = 0;
};

// Cancels it when the exchange's client goes away.
void cancel_when_gone(HttpExchange& exchange, const std::weak_ptr<ImageFetch>& fetch);

class ImageFetcher {
 public:
  // Called once, on a thread of the fetcher: the images in the place of where they are, as LLM::prepare takes them, or
  // the first error, which names its field where that is at fault. Where it throws, as there is no memory, it's let go
  // of with all that it holds.
  using Done = std::function<void(Result<std::vector<std::string>>&& images)>;

  explicit ImageFetcher(MediaOptions options);
  ~ImageFetcher();  // cancels what is on its way, whose callers are told
  ImageFetcher(const ImageFetcher&) = delete;
  ImageFetcher& operator=(const ImageFetcher&) = delete;

  // Whether something of the dialogue has to be fetched. Files that may be read get the path that they really have.
  // Errors (data): an image that a client may not have read.
  [[nodiscard]] Result<bool> admit(engine::Dialogue& dialogue) const;
  // For a dialogue of which admit() said so. What it gives lives until `done` is called.
  [[nodiscard]] std::weak_ptr<ImageFetch> fetch(const engine::Dialogue& dialogue, Done done);
  [[nodiscard]] std::size_t waiting() const;  // requests whose images are on their way

 private:
  class Batch;
  const MediaOptions options_;
  const std::shared_ptr<ByteBudget> budget_;
  std::mutex mutex_;
  std::unique_ptr<HostTurns> turns_;
  std::unique_ptr<WorkQueue> queue_;  // its threads begin with the first image
  std::shared_ptr<std::atomic<std::size_t>> waiting_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::shared_ptr<std::atomic<bool>> stops_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace tern::server
