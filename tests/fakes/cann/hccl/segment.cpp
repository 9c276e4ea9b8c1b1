#include "tests/fakes/cann/hccl/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace tern::fake_hccl {
namespace {

constexpr std::int32_t kTimeout = 9;  // HCCL_E_TIMEOUT
constexpr std::int32_t kRemote = 21;  // HCCL_E_REMOTE
constexpr const char* kFormat = "fake-hccl %d %d %llx";

// A child that was killed and not waited for yet is gone too.
bool is_running(std::int32_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return false;
  char state = 'Z';
  const int found = std::fscanf(file, "%*d (%*[^)]) %c", &state);
  std::fclose(file);
  return found == 1 && state != 'Z' && state != 'X';
}

std::size_t header_bytes() { return (sizeof(Header) + 4095) / 4096 * 4096; }
std::size_t segment_bytes() {
  return header_bytes() + kMostRanks * kAreaBytes + std::size_t{kMostRanks} * kMostRanks * kBoxBytes;
}

void make_shared_locks(Header& header) {
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);  // a killed rank may hold it
  pthread_mutex_init(&header.lock, &mutex);
  pthread_mutexattr_destroy(&mutex);
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
  pthread_cond_init(&header.changed, &condition);
  pthread_condattr_destroy(&condition);
}

}  // namespace

Deadline deadline_of(const char* variable, int seconds) {
  if (const char* text = std::getenv(variable); text != nullptr && std::atoi(text) > 0) seconds = std::atoi(text);
  const char* scale = std::getenv("TERN_FAKE_CANN_HCCL_SECOND_MS");
  const std::int64_t second = scale == nullptr ? 1000 : std::atoi(scale);
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(seconds * second);
}

Segment::Segment(int fd) : fd_(fd) {
  void* memory = mmap(nullptr, segment_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  header_ = memory == MAP_FAILED ? nullptr : static_cast<Header*>(memory);
}

// The maker's file stays open while it lives, as others find it through its number.
Segment::~Segment() {
  if (header_ != nullptr) munmap(header_, segment_bytes());
  close(fd_);
}

std::shared_ptr<Segment> Segment::create(std::span<char> name) {
  const int fd = memfd_create("fake-hccl", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, static_cast<off_t>(segment_bytes())) != 0) {
    close(fd);
    return nullptr;
  }
  std::shared_ptr<Segment> made(new Segment(fd));
  if (made->header_ == nullptr) return nullptr;
  std::random_device random;
  made->header_->nonce = (std::uint64_t{random()} << 32) | random();
  make_shared_locks(*made->header_);
  std::memset(name.data(), 0, name.size());
  std::snprintf(name.data(), name.size(), kFormat, getpid(), fd, static_cast<unsigned long long>(made->header_->nonce));
  return made;
}

std::shared_ptr<Segment> Segment::open(std::span<const char> name) {
  int pid = 0, number = 0;
  unsigned long long nonce = 0;
  if (std::memchr(name.data(), 0, name.size()) == nullptr) return nullptr;
  if (std::sscanf(name.data(), kFormat, &pid, &number, &nonce) != 3) return nullptr;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, number);
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) != segment_bytes()) {
    close(fd);
    return nullptr;
  }
  std::shared_ptr<Segment> opened(new Segment(fd));
  return opened->header_ == nullptr || opened->header_->nonce != nonce ? nullptr : opened;
}

std::byte* Segment::area(std::uint32_t rank) {
  return reinterpret_cast<std::byte*>(header_) + header_bytes() + rank * kAreaBytes;
}

std::byte* Segment::box(std::uint32_t from, std::uint32_t to) {
  return area(kMostRanks) + (std::size_t{from} * kMostRanks + to) * kBoxBytes;
}

Segment::Lock::Lock(Segment& segment) : segment_(segment) {
  if (pthread_mutex_lock(&segment.header_->lock) == EOWNERDEAD) pthread_mutex_consistent(&segment.header_->lock);
}

Segment::Lock::~Lock() { pthread_mutex_unlock(&segment_.header_->lock); }

void Segment::wake() { pthread_cond_broadcast(&header_->changed); }

void Segment::fail(std::int32_t result, const std::string& why) {
  if (header_->failure == 0) {
    header_->failure = result;
    std::snprintf(header_->why, sizeof header_->why, "%s", why.c_str());
  }
  wake();
}

// HCCL's heartbeat tells of a rank that has ended within some tens of seconds.
bool Segment::watch_processes() {
  for (std::uint32_t rank = 0; rank < header_->ranks; ++rank) {
    const std::int32_t pid = header_->seats[rank].pid;
    if (pid <= 0 || is_running(pid)) continue;
    fail(kRemote, "heartbeat of rank " + std::to_string(rank) + " is lost");
    return false;
  }
  return true;
}

bool Segment::wait(Deadline deadline, const std::function<bool()>& ready, const char* what) {
  while (header_->failure == 0) {
    if (ready()) return true;
    if (std::chrono::steady_clock::now() >= deadline) {
      fail(kTimeout, std::string(what) + ": the other ranks did not come within the deadline");
      return false;
    }
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    constexpr long kLook = 20'000'000;  // a woken process may have missed its call: look again after 20 ms
    until.tv_nsec += kLook;
    if (until.tv_nsec >= 1'000'000'000) {
      until.tv_nsec -= 1'000'000'000;
      ++until.tv_sec;
    }
    const int status = pthread_cond_timedwait(&header_->changed, &header_->lock, &until);
    if (status == EOWNERDEAD) pthread_mutex_consistent(&header_->lock);
    if (status == ETIMEDOUT && !watch_processes()) return false;
  }
  return false;
}

bool Segment::barrier(Deadline deadline, const char* what) {
  const Lock lock(*this);
  if (header_->failure != 0) return false;
  const std::uint64_t generation = header_->generation;
  if (++header_->arrived == header_->ranks) {
    header_->arrived = 0;
    ++header_->generation;
    wake();
    return true;
  }
  return wait(
      deadline, [&] { return header_->generation != generation; }, what);
}

}  // namespace tern::fake_hccl
