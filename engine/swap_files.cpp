#include "engine/swap_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "engine/swap_folders.h"
#include "io/checksum.h"
#include "io/file_writer.h"
#include "io/system_error.h"

namespace tern::engine {
namespace {

namespace fs = std::filesystem;

// What a file begins with.
struct Header {
  std::array<char, 8> magic = {'t', 'e', 'r', 'n', 'k', 'v', '0', '1'};
  BlockHash about{};
  BlockHash hash{};
  std::uint64_t bytes = 0;
  std::array<char, 16> checksum{};  // of what is before it and of the block
};
static_assert(sizeof(Header) == 96);

std::array<char, 16> checksum_of(const Header& header, std::span<const std::byte> block) {
  io::Xxh3 sum;
  sum.update(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum)));
  sum.update(block);
  std::array<char, 16> digits{};
  const std::string hex = sum.hex();
  std::copy_n(hex.begin(), digits.size(), digits.begin());
  return digits;
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

bool read_all(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

SwapFiles::SwapFiles(SwapFilesOptions options)
    : options_(std::move(options)),
      about_(hash_of_text(options_.about)),
      directory_(options_.folder / hex_of(about_).substr(0, kFolderDigits)) {}

Result<std::unique_ptr<SwapFiles>> SwapFiles::open(const SwapFilesOptions& options) {
  std::unique_ptr<SwapFiles> files(new SwapFiles(options));
  if (const Status begun = files->begin(); !begun) return begun.error();
  return files;
}

Status SwapFiles::begin() {
  if (file_bytes() > options_.bytes) {
    return usage_error(cat("--swap_dir_space allows ", human_bytes(options_.bytes), ", and the file of a block takes ",
                           human_bytes(file_bytes())),
                       "raise it");
  }
  if (Status made = io::make_directories(directory_); !made) return made;
  if (Status locked = lock(); !locked) return locked;
  if (Status told = io::replace_file(directory_ / kAboutFile, options_.about); !told) return told;
  find_files();
  count_room();
  make_room();
  log_info(cat("swap folder ", directory_.string(), ": ", by_use_.size(), " blocks of earlier runs, room for ", most_));
  thread_ = std::thread([this] { work(); });
  return Unit{};
}

Status SwapFiles::lock() {
  const fs::path file = directory_ / kLockFile;
  lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return io::write_error(file.string(), errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    (void)::futimens(lock_, nullptr);
    return Unit{};
  }
  if (errno != EWOULDBLOCK) return io::write_error(file.string(), errno);
  return usage_error(cat("--swap_dir ", options_.folder.string(), " is in use by another server of the same model"),
                     "give each server a folder of its own");
}

// By the time of their last use; what is no whole file of this size goes.
void SwapFiles::find_files() {
  std::vector<std::pair<fs::file_time_type, BlockHash>> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (!it->is_regular_file(gone) || it.depth() == 0) continue;
    const auto hash = hash_from_hex(it->path().filename().string());
    if (!hash || it->file_size(gone) != file_bytes()) {
      fs::remove(it->path(), gone);
    } else {
      found.emplace_back(it->last_write_time(gone), *hash);
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& [time, hash] : found) {
    by_use_.push_front(hash);
    files_.emplace(hash, by_use_.begin());
  }
}

SwapFiles::~SwapFiles() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (lock_ >= 0) ::close(lock_);
}

std::uint64_t SwapFiles::file_bytes() const { return sizeof(Header) + options_.block_bytes; }

fs::path SwapFiles::path_of(const BlockHash& hash) const {
  const std::string name = hex_of(hash);
  return directory_ / name.substr(0, 2) / name;
}

bool SwapFiles::has(const BlockHash& hash) const {
  const std::scoped_lock lock(mutex_);
  return files_.contains(hash);
}

std::int64_t SwapFiles::num_blocks() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(files_.size());
}

bool SwapFiles::read(const BlockHash& hash, std::span<std::byte> bytes) {
  if (!has(hash)) return false;
  const fs::path path = path_of(hash);
  const Descriptor file(path, O_RDONLY);
  Header header, expected;
  expected.about = about_;
  expected.hash = hash;
  expected.bytes = options_.block_bytes;
  const bool is_read = file.get() >= 0 && read_all(file.get(), std::as_writable_bytes(std::span(&header, 1))) &&
                       read_all(file.get(), bytes);
  expected.checksum = checksum_of(expected, bytes);
  const bool is_sound = is_read && std::memcmp(&header, &expected, sizeof header) == 0;
  const std::scoped_lock lock(mutex_);
  const auto found = files_.find(hash);
  if (is_sound) return true;
  if (found == files_.end()) return false;  // it had to make room meanwhile
  log_warn(cat("swap folder: ", path.string(), " is ", file.get() < 0 ? "gone" : "damaged",
               ", so its tokens are computed again"));
  drop(hash);
  return false;
}

void SwapFiles::will_read(const BlockHash& hash) const {
  if (!has(hash)) return;
  const Descriptor file(path_of(hash), O_RDONLY);
  if (file.get() >= 0) (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED);
}

void SwapFiles::use(const BlockHash& hash) {
  const std::scoped_lock lock(mutex_);
  const auto found = files_.find(hash);
  if (found == files_.end()) return;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  (void)::utimensat(AT_FDCWD, path_of(hash).c_str(), nullptr, 0);
}

void SwapFiles::write(const BlockHash& hash, std::span<const std::byte> bytes, std::int32_t place) {
  const std::scoped_lock lock(mutex_);
  const bool is_queued =
      writing_ == hash || std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.hash == hash; });
  if (!writes_ || is_queued || files_.contains(hash)) {
    written_.push_back(place);
    return;
  }
  jobs_.push_back({hash, bytes, place});
  changed_.notify_all();
}

std::vector<std::int32_t> SwapFiles::written() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(written_, {});
}

void SwapFiles::wait_for_writes() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !writing_; });
}

void SwapFiles::drop(const BlockHash& hash) {
  const auto found = files_.find(hash);
  if (found == files_.end()) return;
  std::error_code gone;
  fs::remove(path_of(hash), gone);
  by_use_.erase(found->second);
  files_.erase(found);
}

void SwapFiles::count_room() {
  const std::uint64_t own = std::min(options_.bytes, (files_.size() + 1) * file_bytes());
  const std::uint64_t others = make_room_among_others(options_.folder, directory_, options_.bytes - own);
  others_stay_ = others > options_.bytes - own;
  others_ = others;
  most_ = static_cast<std::int64_t>((options_.bytes - std::min(options_.bytes, others_)) / file_bytes());
}

// Other models' folders go before anything of this one does.
void SwapFiles::make_room() {
  if (static_cast<std::int64_t>(files_.size()) > most_ && others_ > 0 && !others_stay_) count_room();
  while (static_cast<std::int64_t>(files_.size()) > most_) drop(BlockHash(by_use_.back()));
}

void SwapFiles::forget(const BlockHash& hash) {
  const std::scoped_lock lock(mutex_);
  drop(hash);
  if (writing_ == hash) is_void_ = true;
  const auto is_it = [&](const Job& job) { return job.hash == hash; };
  for (const Job& job : jobs_) {
    if (is_it(job)) written_.push_back(job.place);
  }
  std::erase_if(jobs_, is_it);
}

void SwapFiles::forget_all() {
  const std::scoped_lock lock(mutex_);
  while (!by_use_.empty()) drop(BlockHash(by_use_.front()));
  is_void_ = writing_.has_value();
  for (const Job& job : jobs_) written_.push_back(job.place);
  jobs_.clear();
}

void SwapFiles::end_writing() {
  const std::scoped_lock lock(mutex_);
  writes_ = false;
}

void SwapFiles::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    writing_ = job.hash;
    is_void_ = false;
    const bool writes = writes_;
    lock.unlock();
    const Status wrote = writes ? write_file(job, path_of(job.hash)) : Status(Unit{});
    lock.lock();
    if (writes) finish(job, wrote);
    written_.push_back(job.place);
    writing_.reset();
    changed_.notify_all();
  }
}

// Beside its place: a file that lies in it is whole, unless the machine itself went down, which the checksum finds.
Status SwapFiles::write_file(const Job& job, const fs::path& path) const {
  Header header;
  header.about = about_;
  header.hash = job.hash;
  header.bytes = job.bytes.size();
  header.checksum = checksum_of(header, job.bytes);
  std::error_code ignored;
  fs::create_directory(path.parent_path(), ignored);
  fs::path beside = path;
  beside += ".tmp";
  const Descriptor file(beside, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.get() >= 0 && write_all(file.get(), std::as_bytes(std::span(&header, 1))) &&
      write_all(file.get(), job.bytes) && ::rename(beside.c_str(), path.c_str()) == 0) {
    return Unit{};
  }
  const int code = errno;
  fs::remove(beside, ignored);
  return io::write_error(beside.string(), code);
}

void SwapFiles::finish(const Job& job, const Status& wrote) {
  if (!wrote) {
    log_warn(cat("swap folder: no further block is written: ", wrote.error().line()));
    writes_ = false;
    return;
  }
  by_use_.push_front(job.hash);
  files_.emplace(job.hash, by_use_.begin());
  if (is_void_) drop(job.hash);
  make_room();
}

}  // namespace tern::engine
