#include "server/waiting_request.h"

#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "server/request_record.h"

namespace tern::server {

Error unanswered(const std::exception& error) {
  log_warn(cat("a request whose images have come: ", error.what()));
  return failed_error("the request could not be answered", "look at the server's log");
}

void WaitingRequest::wait(ImageFetcher& fetcher, const engine::Dialogue& dialogue,
                          const std::shared_ptr<RequestRecord>& record, Begin begin) {
  const auto fetch =
      fetcher.fetch(dialogue, [self = shared_from_this(), begin = std::move(begin)](
                                  Result<std::vector<std::string>>&& images) { self->come(std::move(images), begin); });
  {
    const std::scoped_lock lock(mutex_);
    fetch_ = fetch;
  }
  if (record == nullptr) return;
  record->on_expiry([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->expire();
  });
}

void WaitingRequest::come(Result<std::vector<std::string>>&& images, const Begin& begin) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_over_, true)) return;
  }
  if (!images) {
    sink_->failed(images.error(), images.error().kind == ErrorKind::data ? 400 : 503);
    return;
  }
  std::shared_ptr<RequestHandle> inner;
  try {
    inner = begin(std::move(*images));
  } catch (const Failure& failure) {
    return sink_->failed(failure.error(), 500);
  } catch (const std::exception& error) {  // no memory
    return sink_->failed(unanswered(error), 500);
  }
  {
    const std::scoped_lock lock(mutex_);
    inner_ = inner;
    if (!is_aborted_) return;
  }
  if (inner != nullptr) inner->abort();
}

// The fetch is let go of outside the lock: where the fetcher ends meanwhile that was the last hold on it, and come() is
// called there and then.
void WaitingRequest::abort() {
  std::shared_ptr<ImageFetch> fetch;
  std::shared_ptr<RequestHandle> inner;
  {
    const std::scoped_lock lock(mutex_);
    is_aborted_ = is_over_ = true;
    fetch = fetch_.lock();
    inner = inner_;
  }
  if (fetch != nullptr) fetch->cancel();
  if (inner != nullptr) inner->abort();
}

// A request that was begun is told of its time by itself.
void WaitingRequest::expire() {
  std::shared_ptr<ImageFetch> fetch;
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    fetch = fetch_.lock();
  }
  if (fetch != nullptr) fetch->cancel();
  sink_->failed(out_of_time(), 504);
}

}  // namespace tern::server
