#include "server/image_fetcher.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/base64.h"
#include "base/log.h"
#include "base/strings.h"
#include "hub/http.h"
#include "hub/url.h"
#include "server/host_turns.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kFetches = 32;              // at once, as a slow host holds a thread for as long as an image may take
constexpr std::size_t kFetchesOfOne = 4;  // of one request, so that its many images leave others their turn
constexpr int kFetchesOfHost = kFetches / 4;
constexpr std::size_t kMostOfOne = 128;     // images of one request
constexpr int kRedirects = 10;              // as browsers and aiohttp follow at most
constexpr std::size_t kErrorText = 65'536;  // of an answer that is no image
constexpr std::string_view kAnyDomain = "*", kFile = "file://";
constexpr const char* kSendItself = "send the image itself: data:image/png;base64,...";

std::string shown(std::string_view source) {
  constexpr std::size_t kShown = 60;
  return source.size() <= kShown ? std::string(source) : cat(source.substr(0, kShown), "...");
}

bool is_named(const MediaOptions& options, const std::string& host) {
  return std::ranges::any_of(options.allowed_domains, [&](std::string_view domain) {
    return std::ranges::equal(domain, host, [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  });
}

bool takes_any(const MediaOptions& options) {
  return std::ranges::find(options.allowed_domains, kAnyDomain) != options.allowed_domains.end();
}

// Throws where the host is none that clients may have asked.
void require_allowed(const MediaOptions& options, const hub::Url& url, const std::string& place) {
  if (is_named(options, url.host) || takes_any(options)) return;
  throw Failure(data_error(place,
                           "a URL at one of the hosts that this server asks for images (--allowed_media_domains)",
                           shown(url.host), kSendItself));
}

hub::Url url_of(const MediaOptions& options, const std::string& source, const std::string& place) {
  if (options.allowed_domains.empty()) {
    throw Failure(data_error(place, "a data: URL, as this server fetches nothing (--allowed_media_domains)",
                             shown(source), kSendItself));
  }
  auto url = hub::parse_url(source);
  if (!url) throw Failure(data_error(place, "a URL", shown(source), "write it as https://host/path"));
  require_allowed(options, *url, place);
  return std::move(*url);
}

// The path that a file below the folder really has, links followed. Where there is none, or it lies elsewhere, the
// client is told the same: whether there is a file is nothing to ask the server.
std::string local_file(const MediaOptions& options, const std::string& source, const std::string& place) {
  if (options.allowed_local_path.empty()) {
    throw Failure(data_error(place, "a data: URL, as this server reads no files (--allowed_local_media_path)",
                             shown(source), kSendItself));
  }
  std::error_code no_folder, no_file;
  const fs::path folder = fs::canonical(options.allowed_local_path, no_folder);
  const std::string path = source.substr(kFile.size());  // where its escapes are none, it's meant as it is
  const fs::path file = fs::canonical(hub::url_decode(path).value_or(path), no_file);
  const auto [rest, in_file] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (no_folder || no_file || rest != folder.end() || in_file == file.end()) {
    throw Failure(data_error(place, "a file below the folder that this server reads (--allowed_local_media_path)",
                             shown(source), "correct the path"));
  }
  return cat(kFile, file.string());
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Error wrong_image(const std::string& place, std::string_view found) {
  return data_error(place, "the URL of an image", found, cat("correct it, or ", kSendItself));
}

// One image on its way, from URL to URL where hosts send it on.
class ImageDownload {
 public:
  // Why so many bytes more may not be taken.
  using Takes = std::function<std::optional<Error>(std::size_t bytes)>;

  ImageDownload(const MediaOptions& options, const std::string& place, std::function<bool()> stopped)
      : options_(options), place_(place), stopped_(std::move(stopped)) {}

  // Its bytes. Throws Failure (data).
  std::string run(const std::string& source, const Takes& takes) {
    hub::Url url = url_of(options_, source, place_);
    for (int hops = 0;; ++hops) {
      const hub::HttpReply reply = ask(url, takes);
      if (!is_redirect(reply.status) || reply.location.empty()) {
        require_image(reply);
        return std::move(bytes_);
      }
      if (!options_.allow_redirects) throw wrong("a redirect, which this server doesn't follow");
      if (hops == kRedirects) throw wrong(cat("more than ", kRedirects, " redirects"));
      auto next = hub::parse_url(reply.location);
      if (!next || (url.secure && !next->secure)) throw wrong("a redirect to something less safe");
      require_allowed(options_, *next, place_);
      url = std::move(*next);
    }
  }

 private:
  // Who was named by the operator is asked wherever it is, through a proxy where the operator has one. Of others the
  // very address that is connected to has to be public: no proxy may choose it.
  hub::HttpReply ask(const hub::Url& url, const Takes& takes) {
    const std::chrono::duration<double> left = deadline_ - Clock::now();
    hub::HttpRequest request;
    request.url = url.text;
    request.timeout = std::max(0.0, left.count()) + 0.002;  // not before the deadline, which tells that it was this
    request.connect_timeout = request.timeout;
    request.max_text = kErrorText;
    request.follow_redirects = false;
    request.through_proxy = is_named(options_, url.host);
    if (!request.through_proxy) request.may_connect = hub::is_public_address;
    request.stopped = stopped_;
    request.begin = [](long status) { return status == 200; };
    request.sink = [&](std::span<const std::byte> more) {
      too_many_ = takes(more.size());
      if (too_many_) return false;
      bytes_.append(reinterpret_cast<const char*>(more.data()), more.size());
      return true;
    };
    return hub::http_get(request);
  }

  void require_image(const hub::HttpReply& reply) const {
    if (too_many_) throw Failure(*too_many_);
    if (reply.refused) throw wrong("a host whose address is not public");
    if (stopped_() || Clock::now() >= deadline_) {
      throw wrong(cat("no whole answer within ", std::chrono::duration<double>(options_.timeout).count(), " seconds"));
    }
    if (!reply.failure.empty()) throw wrong(reply.failure);
    if (reply.status != 200) throw wrong(cat("the answer ", reply.status));
  }

  [[nodiscard]] Failure wrong(std::string_view found) const { return Failure(wrong_image(place_, found)); }

  const MediaOptions& options_;
  const std::string place_;
  const std::function<bool()> stopped_;
  const Clock::time_point deadline_ = Clock::now() + options_.timeout;
  std::string bytes_;
  std::optional<Error> too_many_;
};

bool is_far(const std::string& source) { return !source.starts_with("data:") && !source.starts_with(kFile); }

std::string place_of(const engine::Dialogue& dialogue, std::size_t at) {
  return at < dialogue.image_places.size() ? dialogue.image_places[at] : "image";
}

}  // namespace

void cancel_when_gone(HttpExchange& exchange, const std::weak_ptr<ImageFetch>& fetch) {
  if (fetch.expired()) return;
  exchange.on_gone([fetch] {
    if (const auto still = fetch.lock()) still->cancel();
  });
}

class ImageFetcher::Batch : public ImageFetch, public std::enable_shared_from_this<Batch> {
 public:
  // Its lanes run while the fetcher is there.
  Batch(ImageFetcher& fetcher, const engine::Dialogue& dialogue, Done done)
      : options_(fetcher.options_),
        queue_(*fetcher.queue_),
        turns_(*fetcher.turns_),
        images_(dialogue.images),
        done_(std::move(done)),
        waiting_(fetcher.waiting_),
        stops_(fetcher.stops_),
        share_(std::in_place, fetcher.budget_) {
    for (std::size_t i = 0; i < images_.size(); ++i) {
      places_.push_back(place_of(dialogue, i));
      if (!is_far(images_[i])) continue;
      far_.push_back(i);
      const auto url = hub::parse_url(images_[i]);
      hosts_.push_back(url ? url->host : "");
    }
    left_ = far_.size();
    lanes_ = std::min(far_.size(), kFetchesOfOne);
    next_ = lanes_.load();
    ++*waiting_;
  }
  ~Batch() override { finish(); }  // the queue dropped it

  void cancel() override { cancelled_ = true; }

  // Each of its lanes begins with another image.
  void begin() {
    for (std::size_t lane = 0; lane < std::min(far_.size(), kFetchesOfOne); ++lane) push(lane);
  }

 private:
  void push(std::size_t at) {
    queue_.push([self = shared_from_this(), at] { self->run(at, false); });
  }

  // A lane's next image; `has_turn`: its host's turn is the lane's. The last lane to end tells.
  void run(std::size_t at, bool has_turn) {
    try {
      if (goes_on(at, has_turn)) return;
    } catch (const std::exception&) {  // no memory
      failed_ = true;
    }
    if (--lanes_ == 0) finish();
  }

  // After each image a lane goes to the end of the queue, where the images of other requests are before it.
  bool goes_on(std::size_t at, bool has_turn) {
    const std::string& host = hosts_[at];
    if (!has_turn && ends()) return false;
    if (!has_turn && !turns_.take(host, [self = shared_from_this(), at] { self->run(at, true); })) return true;
    if (!ends()) fetch_one(far_[at]);
    turns_.give(host, queue_);
    const std::size_t next = next_++;
    if (next >= far_.size() || ends()) return false;
    push(next);
    return true;
  }

  void fetch_one(std::size_t at) {
    try {
      std::string fetched = fetch(at);
      const std::scoped_lock lock(mutex_);
      --left_;
      images_[at] = std::move(fetched);
    } catch (const Failure& failure) {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = failure.error();
      failed_ = true;
    } catch (const std::exception&) {  // no memory
      failed_ = true;
    }
  }

  void finish() {
    const Done done = std::exchange(done_, {});
    if (!done) return;
    --*waiting_;
    share_.reset();  // from here on they are the request's
    try {
      if (left_ > 0 && !error_) error_ = failed_error("the images were not fetched", "ask again");
      done(error_ ? Result<std::vector<std::string>>(*error_) : std::move(images_));
    } catch (const std::exception& error) {
      log_warn(cat("a request whose images have come: ", error.what()));
    }
  }
  [[nodiscard]] bool ends() const { return cancelled_ || failed_ || *stops_; }

  std::optional<Error> take(std::size_t at, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    bytes_ += bytes;
    if (bytes_ > options_.max_bytes) {
      return wrong_image(places_[at], cat("more than ", human_bytes(options_.max_bytes), " of images in one request"));
    }
    if (share_->take(bytes)) return std::nullopt;
    return failed_error("the images of other requests take all the memory that there is for them",
                        "come again in a moment");
  }

  std::string fetch(std::size_t at) {
    ImageDownload download(options_, places_[at], [this] { return ends(); });
    const std::string bytes = download.run(images_[at], [&](std::size_t more) { return take(at, more); });
    return cat("data:image;base64,", encode_base64(bytes));
  }

  const MediaOptions& options_;
  WorkQueue& queue_;
  HostTurns& turns_;
  std::vector<std::string> images_, places_;
  std::vector<std::size_t> far_;    // those that are fetched
  std::vector<std::string> hosts_;  // of these
  Done done_;
  const std::shared_ptr<std::atomic<std::size_t>> waiting_;
  const std::shared_ptr<std::atomic<bool>> stops_;
  std::optional<ByteShare> share_;
  std::atomic<std::size_t> next_{0}, lanes_{0};
  std::atomic<bool> cancelled_{false}, failed_{false};
  std::mutex mutex_;
  std::size_t bytes_ = 0;  // of all its images
  std::size_t left_ = 0;   // images that have not come
  std::optional<Error> error_;
};

ImageFetcher::ImageFetcher(MediaOptions options)
    : options_(std::move(options)),
      budget_(std::make_shared<ByteBudget>(options_.max_total_bytes)),
      turns_(std::make_unique<HostTurns>(kFetchesOfHost)) {}

ImageFetcher::~ImageFetcher() {
  *stops_ = true;
  if (queue_) queue_->stop();
  turns_.reset();  // with those who wait for their turn
}

Result<bool> ImageFetcher::admit(engine::Dialogue& dialogue) const {
  return catching([&] {
    std::size_t far = 0;
    for (std::size_t i = 0; i < dialogue.images.size(); ++i) {
      std::string& source = dialogue.images[i];
      const std::string place = place_of(dialogue, i);
      if (source.starts_with(kFile)) source = local_file(options_, source, place);
      if (!is_far(source)) continue;
      (void)url_of(options_, source, place);
      if (++far > kMostOfOne) {
        throw Failure(data_error(place, cat("at most ", kMostOfOne, " images by URL in a request"), "one more",
                                 "send fewer, or send them as data: URLs"));
      }
    }
    return far > 0;
  });
}

std::weak_ptr<ImageFetch> ImageFetcher::fetch(const engine::Dialogue& dialogue, Done done) {
  {
    const std::scoped_lock lock(mutex_);
    if (!queue_) queue_ = std::make_unique<WorkQueue>(kFetches);
  }
  const auto batch = std::make_shared<Batch>(*this, dialogue, std::move(done));
  batch->begin();
  return batch;
}

std::size_t ImageFetcher::waiting() const { return *waiting_; }

}  // namespace tern::server
