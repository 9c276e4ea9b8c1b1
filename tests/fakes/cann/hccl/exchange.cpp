#include "tests/fakes/cann/hccl/exchange.h"

#include <algorithm>
#include <cstring>

#include "tests/fakes/cann/hccl/numbers.h"

namespace tern::fake_hccl {
namespace {

constexpr std::int32_t kParameter = 1;   // HCCL_E_PARA
constexpr int kExecutionSeconds = 1836;  // HCCL_EXEC_TIMEOUT's default
constexpr const char* kExecution = "HCCL_EXEC_TIMEOUT";

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return "AllReduce";
    case Kind::all_gather:
      return "AllGather";
    case Kind::reduce_scatter:
      return "ReduceScatter";
    case Kind::broadcast:
      return "Broadcast";
    case Kind::all_to_all:
      return "AlltoAllV";
    case Kind::barrier:
      return "Barrier";
    default:
      return "SendRecv";
  }
}

// One rank's side of a collective, piece by piece.
class Side {
 public:
  Side(Segment& segment, std::uint32_t rank, const Exchange& exchange)
      : segment_(segment),
        rank_(rank),
        ranks_(segment.header().ranks),
        exchange_(exchange),
        deadline_(deadline_of(kExecution, kExecutionSeconds)),
        unit_(exchange.kind == Kind::all_to_all ? 1 : bytes_of(exchange.dtype)) {}

  // All ranks must have come with the same call: HCCL itself hangs or gives rubbish.
  bool agree() {
    Seat& mine = segment_.header().seats[rank_];
    mine.signature = {static_cast<std::int32_t>(exchange_.kind), exchange_.dtype, exchange_.reduce, exchange_.root,
                      exchange_.count};
    for (std::size_t r = 0; r < exchange_.parcels.size(); ++r) mine.parcels[r] = exchange_.parcels[r].send_bytes;
    if (!meet()) return false;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      const Seat& other = segment_.header().seats[r];
      const bool differs = std::memcmp(&other.signature, &mine.signature, sizeof(Signature)) != 0;
      const bool parcel =
          exchange_.kind == Kind::all_to_all && other.parcels[rank_] != exchange_.parcels[r].receive_bytes;
      if (!differs && !parcel) continue;
      const Segment::Lock lock(segment_);
      segment_.fail(kParameter, std::string(name_of(exchange_.kind)) + ": rank " + std::to_string(r) +
                                    (parcel ? " sends another number of elements than are expected"
                                            : " makes another call, or one of another count, dtype or root") +
                                    " than rank " + std::to_string(rank_));
      return false;
    }
    return meet();
  }

  bool all_reduce() {
    return pieces(exchange_.count, [&](std::uint64_t at, std::size_t count) {
      post(exchange_.send + at * unit_, count);
      return meet() && (reduce(exchange_.receive + at * unit_, count), true);
    });
  }

  bool reduce_scatter() {
    for (std::uint32_t owner = 0; owner < ranks_; ++owner) {
      const bool done = pieces(exchange_.count, [&](std::uint64_t at, std::size_t count) {
        post(exchange_.send + (owner * exchange_.count + at) * unit_, count);
        if (!meet()) return false;
        if (owner == rank_) reduce(exchange_.receive + at * unit_, count);
        return true;
      });
      if (!done) return false;
    }
    return true;
  }

  bool all_gather() {
    return pieces(exchange_.count, [&](std::uint64_t at, std::size_t count) {
      post(exchange_.send + at * unit_, count);
      if (!meet()) return false;
      for (std::uint32_t r = 0; r < ranks_; ++r) {
        std::memcpy(exchange_.receive + (r * exchange_.count + at) * unit_, segment_.area(r), count * unit_);
      }
      return true;
    });
  }

  bool broadcast() {
    return pieces(exchange_.count, [&](std::uint64_t at, std::size_t count) {
      if (rank_ == exchange_.root) post(exchange_.send + at * unit_, count);
      if (!meet()) return false;
      if (rank_ != exchange_.root) {
        std::memcpy(exchange_.receive + at * unit_, segment_.area(exchange_.root), count * unit_);
      }
      return true;
    });
  }

  // In turn k, each rank sends to the one k places on.
  bool all_to_all() {
    for (std::uint32_t turn = 0; turn < ranks_; ++turn) {
      const std::uint32_t to = (rank_ + turn) % ranks_, from = (rank_ + ranks_ - turn) % ranks_;
      const Parcel& out = exchange_.parcels[to];
      const Parcel& in = exchange_.parcels[from];
      std::uint64_t longest = 0;
      for (std::uint32_t r = 0; r < ranks_; ++r) {
        longest = std::max(longest, segment_.header().seats[r].parcels[(r + turn) % ranks_]);
      }
      const auto part = [](std::uint64_t bytes, std::uint64_t at, std::size_t piece) {
        return static_cast<std::size_t>(std::min<std::uint64_t>(bytes - std::min(bytes, at), piece));
      };
      const bool done = pieces(longest, [&](std::uint64_t at, std::size_t piece) {
        post(exchange_.send + out.send_offset + at, part(out.send_bytes, at, piece));
        if (!meet()) return false;
        std::memcpy(exchange_.receive + in.receive_offset + at, segment_.area(from), part(in.receive_bytes, at, piece));
        return true;
      });
      if (!done) return false;
    }
    return true;
  }

 private:
  bool meet() { return segment_.barrier(deadline_, name_of(exchange_.kind)); }

  void post(const std::byte* data, std::size_t count) {
    if (count > 0) std::memcpy(segment_.area(rank_), data, count * unit_);
  }

  void reduce(std::byte* into, std::size_t count) {
    const std::byte* parts[kMostRanks];
    for (std::uint32_t r = 0; r < ranks_; ++r) parts[r] = segment_.area(r);
    reduce_parts(into, parts, ranks_, count, exchange_.dtype, exchange_.reduce);
  }

  // `step` takes a piece at a time; nobody writes the next one before all have read this one.
  template <typename Step>
  bool pieces(std::uint64_t count, const Step& step) {
    const std::size_t most = kAreaBytes / unit_;
    for (std::uint64_t at = 0; at < count; at += most) {
      if (!step(at, static_cast<std::size_t>(std::min<std::uint64_t>(most, count - at))) || !meet()) return false;
    }
    return true;
  }

  Segment& segment_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  const Exchange& exchange_;
  Deadline deadline_;
  std::size_t unit_;
};

// Messages of one call move side by side, each in order; a send ends once its last piece has been taken.
class Mail {
 public:
  Mail(Segment& segment, std::uint32_t rank, const std::vector<Message>& messages)
      : segment_(segment), rank_(rank), messages_(messages), at_(messages.size()), over_(messages.size()) {}

  bool run() {
    const Deadline deadline = deadline_of(kExecution, kExecutionSeconds);
    const Segment::Lock lock(segment_);
    return segment_.wait(
        deadline, [&] { return advance(); }, "SendRecv");
  }

 private:
  // Whether all are over.
  bool advance() {
    bool moved = true;
    while (moved && segment_.header().failure == 0) {
      moved = false;
      for (std::size_t i = 0; i < messages_.size(); ++i) {
        if (!over_[i] && is_first(i)) moved = (messages_[i].send ? send(i) : receive(i)) || moved;
      }
      if (moved) segment_.wake();
    }
    return std::all_of(over_.begin(), over_.end(), [](bool over) { return over; });
  }

  bool is_first(std::size_t index) const {
    for (std::size_t i = 0; i < index; ++i) {
      if (!over_[i] && messages_[i].send == messages_[index].send && messages_[i].peer == messages_[index].peer) {
        return false;
      }
    }
    return true;
  }

  bool send(std::size_t i) {
    const Message& message = messages_[i];
    Box& box = segment_.header().boxes[rank_][message.peer];
    if (box.full != 0) return false;
    if (at_[i] == message.bytes) {
      over_[i] = true;
      return true;
    }
    const std::size_t piece = std::min<std::uint64_t>(kBoxBytes, message.bytes - at_[i]);
    std::memcpy(segment_.box(rank_, message.peer), message.data + at_[i], piece);
    box = {1, message.dtype, message.bytes, piece};
    at_[i] += piece;
    return true;
  }

  bool receive(std::size_t i) {
    const Message& message = messages_[i];
    if (message.bytes == 0) {
      over_[i] = true;
      return true;
    }
    Box& box = segment_.header().boxes[message.peer][rank_];
    if (box.full == 0) return false;
    if (box.total != message.bytes || box.dtype != message.dtype) {
      segment_.fail(kParameter, "Recv: rank " + std::to_string(message.peer) + " sends " + std::to_string(box.total) +
                                    " bytes, rank " + std::to_string(rank_) + " expects " +
                                    std::to_string(message.bytes) + ", or the dtypes differ");
      return true;
    }
    std::memcpy(message.data + at_[i], segment_.box(message.peer, rank_), box.bytes);
    at_[i] += box.bytes;
    box.full = 0;
    over_[i] = at_[i] == message.bytes;
    return true;
  }

  Segment& segment_;
  std::uint32_t rank_;
  const std::vector<Message>& messages_;
  std::vector<std::uint64_t> at_;
  std::vector<bool> over_;
};

}  // namespace

bool run_exchange(Segment& segment, std::uint32_t rank, const Exchange& exchange) {
  if (exchange.kind == Kind::messages) return Mail(segment, rank, exchange.messages).run();
  Side side(segment, rank, exchange);
  if (!side.agree()) return false;
  switch (exchange.kind) {
    case Kind::all_reduce:
      return side.all_reduce();
    case Kind::all_gather:
      return side.all_gather();
    case Kind::reduce_scatter:
      return side.reduce_scatter();
    case Kind::broadcast:
      return side.broadcast();
    case Kind::all_to_all:
      return side.all_to_all();
    default:
      return true;
  }
}

}  // namespace tern::fake_hccl
