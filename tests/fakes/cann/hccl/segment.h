// The memory that the ranks of a communicator share, and how they wait for each other in it.
#pragma once

#include <pthread.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace tern::fake_hccl {

inline constexpr std::uint32_t kMostRanks = 16;                  // of one machine: A3 has 16 chips
inline constexpr std::size_t kAreaBytes = std::size_t{1} << 18;  // a rank's part of a collective, at a time
inline constexpr std::size_t kBoxBytes = std::size_t{1} << 16;   // a part of a message from one rank to another

// What a rank says about the collective that it has come to: all ranks must say the same.
struct Signature {
  std::int32_t kind;
  std::int32_t dtype;
  std::int32_t reduce;
  std::uint32_t root;
  std::uint64_t count;
};

struct Seat {
  std::int32_t pid;  // 0: nobody has sat down yet
  std::int32_t device;
  std::uint64_t host;  // a number of the process: two ranks of one process may not share a device
  Signature signature;
  std::uint64_t parcels[kMostRanks];  // bytes that an all-to-all sends to each rank
};

// A piece of a message under way.
struct Box {
  std::uint32_t full;
  std::int32_t dtype;
  std::uint64_t total;  // bytes of the whole message
  std::uint64_t bytes;  // of this piece
};

struct Header {
  std::uint64_t nonce;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  std::uint32_t ranks;  // 0 until the first has joined
  std::uint32_t joined;
  std::uint32_t arrived;
  std::uint64_t generation;
  std::int32_t failure;  // a HcclResult
  char why[256];
  Seat seats[kMostRanks];
  Box boxes[kMostRanks][kMostRanks];  // [from][to]
};

using Deadline = std::chrono::steady_clock::time_point;

// What HCCL_CONNECT_TIMEOUT or HCCL_EXEC_TIMEOUT say, from now on.
[[nodiscard]] Deadline deadline_of(const char* variable, int seconds);

class Segment {
 public:
  // A new one; its root info is written to `name`. Null if there is no memory.
  static std::shared_ptr<Segment> create(std::span<char> name);
  // The one that a root info names; null if that is none, or its maker is gone.
  static std::shared_ptr<Segment> open(std::span<const char> name);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] Header& header() { return *header_; }
  [[nodiscard]] std::byte* area(std::uint32_t rank);
  [[nodiscard]] std::byte* box(std::uint32_t from, std::uint32_t to);

  class Lock {
   public:
    explicit Lock(Segment& segment);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Segment& segment_;
  };

  // With the lock held: waits until `ready`; false if the communicator failed or the deadline passed first, which fails
  // it. It also fails when the process of a rank has ended.
  bool wait(Deadline deadline, const std::function<bool()>& ready, const char* what);
  // Every rank comes here before any goes on.
  bool barrier(Deadline deadline, const char* what);
  void fail(std::int32_t result, const std::string& why);
  void wake();

 private:
  explicit Segment(int fd);
  bool watch_processes();

  Header* header_ = nullptr;
  int fd_ = -1;
};

}  // namespace tern::fake_hccl
