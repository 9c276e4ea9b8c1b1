#include "server/waiting_request.h"

#include <utility>

#include "server/request_record.h"

namespace tern::server {

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
  auto inner = begin(std::move(*images));
  const std::scoped_lock lock(mutex_);
  if (is_aborted_ && inner != nullptr) inner->abort();
  inner_ = std::move(inner);
}

void WaitingRequest::abort() {
  const std::scoped_lock lock(mutex_);
  is_aborted_ = is_over_ = true;
  if (const auto fetch = fetch_.lock()) fetch->cancel();
  if (inner_ != nullptr) inner_->abort();
}

// A request that was begun is told of its time by itself.
void WaitingRequest::expire() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    if (const auto fetch = fetch_.lock()) fetch->cancel();
  }
  sink_->failed(out_of_time(), 504);
}

}  // namespace tern::server
