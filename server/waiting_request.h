// A request whose images are on their way: what becomes of it until they have come, and of its client meanwhile.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "server/chat_service.h"
#include "server/image_fetcher.h"

namespace tern::server {

// What the client is told where such a request can't go on: there is no memory, say. The log has the reason.
[[nodiscard]] Error unanswered(const std::exception& error);

class WaitingRequest : public RequestHandle, public std::enable_shared_from_this<WaitingRequest> {
 public:
  explicit WaitingRequest(std::shared_ptr<AnswerSink> sink) : sink_(std::move(sink)) {}

  // Fetches the dialogue's images, and then has `begin` begin the request with them, on a thread of the fetcher.
  using Begin = std::function<std::shared_ptr<RequestHandle>(std::vector<std::string>&& images)>;
  void wait(ImageFetcher& fetcher, const engine::Dialogue& dialogue, const std::shared_ptr<RequestRecord>& record,
            Begin begin);
  void abort() override;

 private:
  void expire();
  void come(Result<std::vector<std::string>>&& images, const Begin& begin);

  const std::shared_ptr<AnswerSink> sink_;
  std::mutex mutex_;
  std::weak_ptr<ImageFetch> fetch_;
  std::shared_ptr<RequestHandle> inner_;  // the request that was begun
  bool is_over_ = false;                  // aborted, out of time, failed or begun: nothing is told from here any more
  bool is_aborted_ = false;
};

}  // namespace tern::server
