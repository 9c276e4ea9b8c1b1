#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "base/strings.h"
#include "io/system_error.h"

namespace tern::io {
namespace {

// What the signal handler may read: no lock, no allocation. A slot is free where begin == 0, claimed where begin == 1.
struct Slot {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> damaged{false};
};

constexpr std::uintptr_t kClaimed = 1;
constexpr std::size_t kSlots = 4096;
std::array<Slot, kSlots> g_slots;  // a signal handler has no other way to reach its state
std::uintptr_t g_page = 4096;
struct sigaction g_previous;

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0 && g_previous.sa_sigaction != nullptr) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    // As it would have ended without us: the signal is pending until this handler returns.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool fault = info->si_code > 0;  // else another process sent it, and there is no address
  for (Slot& slot : g_slots) {
    if (!fault) break;
    const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    if (begin <= kClaimed || address < begin || address >= slot.end.load(std::memory_order_acquire)) continue;
    slot.damaged.store(true, std::memory_order_release);
    void* page = static_cast<std::byte*>(info->si_addr) - (address & (g_page - 1));
    void* zeros = mmap(page, g_page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = saved;
    if (zeros != MAP_FAILED) return;
  }
  pass_on(signal, info, context);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    g_page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &g_previous);
  });
}

int claim_slot(std::uintptr_t begin, std::size_t size) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    std::uintptr_t expected = 0;
    if (!g_slots[i].begin.compare_exchange_strong(expected, kClaimed)) continue;
    g_slots[i].damaged.store(false);
    g_slots[i].end.store(begin + size);
    g_slots[i].begin.store(begin, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path.string();
  file->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd_ < 0) return read_error(file->path_, errno);
  struct stat status = {};
  if (fstat(file->fd_, &status) != 0) return read_error(file->path_, errno);
  if (!S_ISREG(status.st_mode)) {
    return data_error(file->path_, "a regular file", S_ISDIR(status.st_mode) ? "a directory" : "a special file",
                      S_ISDIR(status.st_mode) ? "name a file in it" : "name a regular file");
  }
  file->size_ = static_cast<std::size_t>(status.st_size);
  if (file->size_ == 0) return std::shared_ptr<const MappedFile>(std::move(file));
  install_handler();
  void* data = mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->fd_, 0);
  if (data == MAP_FAILED) {
    const int code = errno;
    file->size_ = 0;
    return read_error(file->path_, code);
  }
  file->data_ = static_cast<const std::byte*>(data);
  file->slot_ = claim_slot(reinterpret_cast<std::uintptr_t>(data), file->size_);
  if (file->slot_ < 0) {
    return failed_error(cat("cannot map ", file->path_, ": ", kSlots, " files are mapped already"),
                        "use fewer, larger shards");
  }
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) g_slots[static_cast<std::size_t>(slot_)].begin.store(0, std::memory_order_release);
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

Status MappedFile::intact() const {
  struct stat status = {};
  const bool shrunk = fd_ >= 0 && (fstat(fd_, &status) != 0 || static_cast<std::size_t>(status.st_size) < size_);
  const bool damaged = slot_ >= 0 && g_slots[static_cast<std::size_t>(slot_)].damaged.load(std::memory_order_acquire);
  if (!shrunk && !damaged) return Unit{};
  return data_error(
      path_, cat("the ", size_, " bytes it had when it was opened"),
      shrunk ? cat(static_cast<std::uint64_t>(status.st_size), " bytes") : std::string("an unreadable page"),
      "another program changed it, or the disk fails; restore the file and start again");
}

// Pages wholly inside the range (inward: what lies beside it stays) or touching it.
void MappedFile::advise(std::size_t offset, std::size_t size, int advice, bool inward) const {
  if (data_ == nullptr || offset >= size_) return;
  const std::size_t page = g_page;
  std::size_t begin = offset;
  std::size_t end = offset + std::min(size, size_ - offset);
  begin = inward ? (begin + page - 1) / page * page : begin / page * page;
  if (inward && end != size_) end = end / page * page;
  if (begin >= end) return;
  // A hint: a kernel that refuses it only reads later.
  (void)madvise(const_cast<std::byte*>(data_) + begin, end - begin, advice);
}

void MappedFile::will_need(std::size_t offset, std::size_t size) const { advise(offset, size, MADV_WILLNEED, false); }
void MappedFile::done_with(std::size_t offset, std::size_t size) const { advise(offset, size, MADV_DONTNEED, true); }

void MappedFile::will_need(std::span<const std::byte> part) const {
  if (part.data() >= data_ && part.data() < data_ + size_) {
    will_need(static_cast<std::size_t>(part.data() - data_), part.size());
  }
}
void MappedFile::done_with(std::span<const std::byte> part) const {
  if (part.data() >= data_ && part.data() < data_ + size_) {
    done_with(static_cast<std::size_t>(part.data() - data_), part.size());
  }
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return read_error(path.string(), errno);
  std::string text;
  std::array<char, 1 << 16> chunk;
  for (;;) {
    const ssize_t count = ::read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      ::close(fd);
      return read_error(path.string(), code);
    }
    if (count == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(count));
    if (text.size() > limit) {
      ::close(fd);
      return data_error(path.string(), cat("at most ", human_bytes(limit)), "a larger file",
                        "check that it is the file meant");
    }
  }
  ::close(fd);
  return text;
}

}  // namespace tern::io
