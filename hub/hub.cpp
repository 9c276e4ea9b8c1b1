#include "hub/hub.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "hub/http.h"
#include "io/checksum.h"
#include "io/file_writer.h"
#include "io/mapped_file.h"
#include "io/system_error.h"

namespace tern::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFetchAgain = "run it again; what was fetched is kept";

// Held while a file is fetched; the hubs' own tools lock the same file the same way.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) {
    fs::create_directories(path.parent_path());
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) throw Failure(io::write_error(path.string(), errno));
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() { ::close(fd_); }

 private:
  int fd_ = -1;
};

std::string plural(HubKind kind) { return kind == HubKind::model ? "models" : "datasets"; }

class Fetcher {
 public:
  Fetcher(const HubId& id, const HubOptions& options) : id_(id), options_(options) {
    std::string folder = id.repository;
    folder.replace(folder.find('/'), 1, "--");
    if (id.hub == Hub::hugging_face) {
      folder = cat(plural(id.kind), "--", folder);
      root_ = options.cache / folder;
      locks_ = options.cache / ".locks" / folder;
    } else {
      root_ = options.cache / plural(id.kind) / folder;
      locks_ = options.cache / ".locks" / cat(plural(id.kind), "--", folder);
    }
    revision_ = !id.revision.empty() ? id.revision : id.hub == Hub::hugging_face ? "main" : "master";
    name_ = cat(id.hub == Hub::hugging_face ? "hf::" : "ms::", id.repository);
  }

  fs::path run() {
    if (options_.offline) return cached();
    const HubListing listing = list();
    commit_ = listing.commit;
    std::vector<std::string> names;
    for (const HubFile& file : listing.files) names.push_back(file.path);
    for (const HubFile& file : listing.files) {
      const bool take = options_.wanted ? options_.wanted(file.path, names)
                                        : id_.kind == HubKind::dataset || wanted_file(file.path, names);
      if (take) files_.push_back(file);
    }
    if (files_.empty())
      throw Failure(data_error(name_, "files to fetch", "none in the repository",
                               "name a repository with a model's or a dataset's files"));
    for (const HubFile& file : files_) total_ += file.size;
    check_room();
    fetch_all();
    if (id_.hub == Hub::hugging_face && revision_ != commit_) remember_revision();
    return snapshot();
  }

 private:
  [[nodiscard]] fs::path snapshot() const {
    return root_ / "snapshots" / (id_.hub == Hub::hugging_face ? commit_ : revision_);
  }

  fs::path cached() {
    commit_ = revision_;
    if (id_.hub == Hub::hugging_face) {
      if (auto text = io::read_text_file(root_ / "refs" / revision_, 4096); text.ok()) commit_ = trim(*text);
      if (commit_.find('/') != std::string::npos || commit_ == "..") commit_ = revision_;
    }
    std::error_code ignored;
    if (fs::is_directory(snapshot(), ignored)) return snapshot();
    throw Failure(data_error(name_,
                             cat("revision ", revision_, " in ", options_.cache.string(), ", as HF_HUB_OFFLINE is set"),
                             "none", "fetch it once with the network"));
  }

  [[nodiscard]] std::string listing_url(int page) const {
    const std::string repository = url_encode(id_.repository, true);
    const std::string revision = url_encode(revision_, false);
    if (id_.hub == Hub::hugging_face)
      return cat(options_.endpoint, "/api/", plural(id_.kind), "/", repository, "/revision/", revision, "?blobs=true");
    if (id_.kind == HubKind::model)
      return cat(options_.endpoint, "/api/v1/models/", repository, "/repo/files?Revision=", revision,
                 "&Recursive=True");
    return cat(options_.endpoint, "/api/v1/datasets/", repository, "/repo/tree?Revision=", revision,
               "&Recursive=True&PageNumber=", page, "&PageSize=", kPage);
  }

  [[nodiscard]] std::string file_url(const HubFile& file) const {
    const std::string repository = url_encode(id_.repository, true);
    if (id_.hub == Hub::hugging_face) {
      return cat(options_.endpoint, id_.kind == HubKind::dataset ? "/datasets/" : "/", repository, "/resolve/", commit_,
                 "/", url_encode(file.path, true));
    }
    return cat(options_.endpoint, "/api/v1/", plural(id_.kind), "/", repository,
               "/repo?Revision=", url_encode(revision_, false), "&FilePath=", url_encode(file.path, false));
  }

  [[nodiscard]] HttpRequest request(std::string url) const {
    HttpRequest out;
    out.url = std::move(url);
    if (!options_.token.empty()) {
      out.headers.push_back(cat("Authorization: Bearer ", options_.token));
      if (id_.hub == Hub::modelscope) out.headers.push_back(cat("Cookie: m_session_id=", options_.token));
    }
    return out;
  }

  HubListing list() {
    HubListing all;
    for (int page = 1;; ++page) {
      const std::string url = listing_url(page);
      HttpReply reply;
      for (int attempt = 1;; ++attempt) {
        reply = http_get(request(url));
        if (reply.failure.empty() && reply.status == 200) break;
        wait_or_throw(reply, url, attempt);
      }
      HubListing part = parse_hub_listing(id_.hub, reply.text, url).value();
      all.commit = part.commit;
      const std::size_t got = part.files.size();
      std::move(part.files.begin(), part.files.end(), std::back_inserter(all.files));
      if (id_.hub == Hub::hugging_face || id_.kind == HubKind::model || got < kPage || page >= 1000) return all;
    }
  }

  // A mistake that another attempt cannot mend throws; else this waits.
  void wait_or_throw(const HttpReply& reply, const std::string& url, int attempt) {
    const char* variable = id_.hub == Hub::hugging_face ? "HF_TOKEN" : "MODELSCOPE_API_TOKEN";
    const bool token = !options_.token.empty();
    if (reply.failure.empty()) {
      if (reply.status == 401) {
        throw Failure(
            data_error(name_, "a repository that may be read",
                       token ? "401: the hub does not know the token" : "401: it does not exist, or needs a token",
                       cat("check the name, and set ", variable)));
      }
      if (reply.status == 403)
        throw Failure(data_error(name_, "a repository that may be read", "403: access denied",
                                 "ask for access on its page, with the account of the token"));
      if (reply.status == 404)
        throw Failure(data_error(name_, cat("a repository with revision ", revision_), "404: none such",
                                 "check the name and the hub (hf:: or ms::)"));
      const bool passing = reply.status == 408 || reply.status == 429 || reply.status >= 500;
      if (!passing)
        throw Failure(data_error(url, "status 200", cat(static_cast<std::int64_t>(reply.status)),
                                 "check the endpoint, and that the hub is well"));
    }
    const std::string problem =
        reply.failure.empty() ? cat("status ", static_cast<std::int64_t>(reply.status)) : reply.failure;
    if (attempt >= options_.attempts) {
      throw Failure(
          failed_error(cat("cannot fetch ", url, " in ", attempt, attempt == 1 ? " attempt: " : " attempts: ", problem),
                       kFetchAgain));
    }
    double seconds =
        std::min(60.0, options_.first_wait * static_cast<double>(std::uint64_t{1} << std::min(attempt - 1, 20)));
    if (const auto after = reply.headers.find("retry-after"); after != reply.headers.end()) {
      double asked = 0;
      const auto [end, code] =
          std::from_chars(after->second.data(), after->second.data() + after->second.size(), asked);
      if (code == std::errc() && end == after->second.data() + after->second.size() && asked >= 0)
        seconds = std::min(asked, 300.0);
    }
    log_debug(cat(url, ": ", problem, "; trying again in ", fixed(seconds, 1), " s"));
    // In small steps, so that a stop elsewhere ends the wait.
    std::unique_lock lock(mutex_);
    stop_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return failed_.has_value(); });
  }

  void check_room() {
    std::uint64_t missing = 0;
    for (const HubFile& file : files_) {
      std::error_code code;
      if (!fs::exists(destination(file), code)) missing += file.size;
    }
    fs::create_directories(root_);
    std::error_code code;
    const fs::space_info space = fs::space(root_, code);
    if (!code && missing > space.available) {
      throw Failure(failed_error(cat("the download needs ", human_bytes(missing), ", and ",
                                     human_bytes(space.available), " are free in ", root_.string()),
                                 "free some space there, or move the cache"));
    }
  }

  void fetch_all() {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < files_.size() && !stopped(); i = next++) {
        try {
          fetch(files_[i]);
        } catch (const Failure& failure) {
          fail(failure.error());
        } catch (const fs::filesystem_error& why) {
          fail(io::write_error(why.path1().string(), why.code().value()));
        } catch (const std::exception& why) {
          fail(failed_error(cat("cannot fetch ", name_, ": ", why.what()), kFetchAgain));
        }
      }
    };
    std::vector<std::thread> threads;
    const int count = std::clamp(options_.parallel, 1, 64);
    for (int i = 1; i < count && static_cast<std::size_t>(i) < files_.size(); ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    if (failed_) throw Failure(*failed_);
  }

  bool stopped() {
    const std::lock_guard lock(mutex_);
    return failed_.has_value();
  }

  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = std::move(error);
    stop_.notify_all();
  }

  // The content's name in the cache: what Hugging Face calls the etag.
  static std::string etag(const HubFile& file) { return !file.sha256.empty() ? file.sha256 : file.git_sha1; }

  [[nodiscard]] fs::path destination(const HubFile& file) const {
    return id_.hub == Hub::hugging_face && !etag(file).empty() ? root_ / "blobs" / etag(file) : snapshot() / file.path;
  }

  void fetch(const HubFile& file) {
    const fs::path target = destination(file);
    const std::string lock_name = etag(file).empty() || id_.hub == Hub::modelscope
                                      ? io::xxh3_64(std::as_bytes(std::span(file.path)))
                                      : etag(file);
    {
      const FileLock lock(locks_ / (lock_name + ".lock"));
      std::error_code ignored;
      const bool there =
          fs::is_regular_file(target, ignored) && (file.size == 0 || fs::file_size(target, ignored) == file.size);
      if (there) {
        advance(static_cast<std::int64_t>(file.size));
      } else {
        fs::create_directories(target.parent_path());
        download(file, target);
      }
    }
    if (id_.hub == Hub::hugging_face && target != snapshot() / file.path) link(target, snapshot() / file.path);
  }

  void download(const HubFile& file, const fs::path& target) {
    fs::path partial = target;
    partial += ".incomplete";
    bool fresh = false;  // this run began it: a wrong checksum is then the hub's fault
    int attempt = 1;
    std::uint64_t counted = 0;  // of this file's bytes, in the progress
    for (;;) {
      std::error_code ignored;
      std::uint64_t have = fs::exists(partial, ignored) ? fs::file_size(partial) : 0;
      if (file.size != 0 && have > file.size) have = 0;
      fresh = fresh || have == 0;
      const bool complete = file.size != 0 && have == file.size;
      const HttpReply reply = complete ? HttpReply{.status = 206} : transfer(file, partial, have, counted);
      if (complete) count_to(counted, have);
      if (reply.aborted) throw Failure(*transfer_error(partial));
      if (reply.status == 416) fs::remove(partial);
      const std::uint64_t now = fs::exists(partial, ignored) ? fs::file_size(partial) : 0;
      const bool whole =
          reply.failure.empty() && (reply.status == 200 || reply.status == 206) && (file.size == 0 || now == file.size);
      if (!whole) {
        // A cut after progress is no failed attempt: the next one goes on from there.
        if (now > have && !reply.failure.empty()) attempt = 0;
        HttpReply cut = reply;
        if (cut.failure.empty() && (cut.status == 200 || cut.status == 206 || cut.status == 416)) {
          cut.failure = cat(now, " of ", file.size, " bytes came");
          if (now > file.size && file.size != 0) fs::remove(partial);
        }
        wait_or_throw(cut, file_url(file), std::max(attempt, 1));
        ++attempt;
        continue;
      }
      if (checksum_holds(file, partial)) break;
      fs::remove(partial);
      count_to(counted, 0);
      if (fresh)
        throw Failure(data_error(file_url(file), cat("content with checksum ", etag(file)), "other content",
                                 "fetch it again; if that repeats, report it to the hub"));
      fresh = true;
    }
    io::sync_file(partial).value();
    fs::rename(partial, target);
    io::sync_directory(target.parent_path()).value();
  }

  HttpReply transfer(const HubFile& file, const fs::path& partial, std::uint64_t have, std::uint64_t& counted) {
    const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) throw Failure(io::write_error(partial.string(), errno));
    std::uint64_t at = have;
    count_to(counted, have);
    HttpRequest get = request(file_url(file));
    get.resume_from = have;
    get.begin = [&](long status) {
      if (status == 206 && have > 0) return true;
      // From the start: the hub does not resume, or there is nothing to resume.
      at = 0;
      count_to(counted, 0);
      if (::ftruncate(fd, 0) == 0) return true;
      fail(io::write_error(partial.string(), errno));
      return false;
    };
    get.sink = [&](std::span<const std::byte> bytes) {
      while (!bytes.empty()) {
        const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
          fail(io::write_error(partial.string(), count < 0 ? errno : EIO));
          return false;
        }
        at += static_cast<std::uint64_t>(count);
        bytes = bytes.subspan(static_cast<std::size_t>(count));
        if (!count_to(counted, at)) return false;
      }
      return !stopped();
    };
    HttpReply reply = http_get(get);
    ::close(fd);
    return reply;
  }

  std::optional<Error> transfer_error(const fs::path& partial) {
    const std::lock_guard lock(mutex_);
    return failed_ ? failed_ : io::write_error(partial.string(), EIO);
  }

  static bool checksum_holds(const HubFile& file, const fs::path& path) {
    if (file.sha256.empty() && file.git_sha1.empty()) return true;
    const auto mapped = io::MappedFile::open(path).value();
    io::Digest digest = file.sha256.empty() ? io::Digest::git_sha1(mapped->bytes().size()) : io::Digest::sha256();
    constexpr std::size_t kPart = std::size_t{16} << 20;
    for (std::size_t at = 0; at < mapped->bytes().size(); at += kPart) {
      digest.update(mapped->bytes().subspan(at, std::min(kPart, mapped->bytes().size() - at)));
      mapped->done_with(at, kPart);
    }
    return digest.hex() == etag(file);
  }

  // snapshots/<commit>/<path> is a relative link to the blob, put in place in one step.
  static void link(const fs::path& blob, const fs::path& place) {
    fs::create_directories(place.parent_path());
    const fs::path relative = blob.lexically_relative(place.parent_path());
    std::error_code code;
    if (fs::read_symlink(place, code) == relative && !code) return;
    fs::path temporary = place;
    temporary += cat(".tmp-", static_cast<std::int64_t>(::getpid()));
    fs::remove(temporary, code);
    fs::create_symlink(relative, temporary, code);
    if (code) fs::copy_file(blob, temporary);  // a file system without links
    fs::rename(temporary, place);
  }

  void remember_revision() const {
    const fs::path place = root_ / "refs" / revision_;
    fs::create_directories(place.parent_path());
    io::write_file(place, commit_).value();
  }

  bool count_to(std::uint64_t& counted, std::uint64_t now) {
    const std::int64_t more = static_cast<std::int64_t>(now) - static_cast<std::int64_t>(counted);
    counted = now;
    return advance(more);
  }

  // False once the user asked to stop.
  bool advance(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (!options_.progress || options_.progress(static_cast<std::uint64_t>(std::max<std::int64_t>(done_, 0)), total_))
      return true;
    if (!failed_) failed_ = failed_error(cat("the download of ", name_, " was stopped"), kFetchAgain);
    stop_.notify_all();
    return false;
  }

  static constexpr std::size_t kPage = 200;
  const HubId& id_;
  const HubOptions& options_;
  fs::path root_;
  fs::path locks_;
  std::string revision_;
  std::string commit_;
  std::string name_;
  std::vector<HubFile> files_;
  std::uint64_t total_ = 0;
  std::int64_t done_ = 0;
  std::mutex mutex_;
  std::condition_variable stop_;
  std::optional<Error> failed_;
};

}  // namespace

Result<fs::path> fetch_repository(const HubId& id, const HubOptions& options) {
  return catching([&] {
    try {
      return Fetcher(id, options).run();
    } catch (const fs::filesystem_error& why) {
      throw Failure(io::write_error(why.path1().string(), why.code().value()));
    }
  });
}

}  // namespace tern::hub
