// Collectives of several ranks: a thread and a device of the backend each, every call against its definition.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/dtype.h"
#include "base/half.h"
#include "conformance/capabilities/tools.h"

namespace tern::conformance {

using accel::Buffer;

namespace {

constexpr int kMostRanks = 3;
constexpr tern_dtype kDtypes[] = {TERN_F32, TERN_F16, TERN_BF16, TERN_I32, TERN_I64, TERN_U8};
constexpr std::size_t kCounts[] = {1, 7, 1000};

using Numbers = std::vector<double>;

Bytes encode(tern_dtype dtype, const Numbers& numbers) {
  const std::size_t size = total_bytes(make_desc(dtype, {1}));
  Bytes out(numbers.size() * size);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto put = [&](auto value) { std::memcpy(out.data() + i * size, &value, size); };
    switch (dtype) {
      case TERN_F32:
        put(static_cast<float>(numbers[i]));
        break;
      case TERN_F16:
        put(float_to_fp16(static_cast<float>(numbers[i])));
        break;
      case TERN_BF16:
        put(float_to_bf16(static_cast<float>(numbers[i])));
        break;
      case TERN_I64:
        put(static_cast<std::int64_t>(numbers[i]));
        break;
      default:
        put(static_cast<std::int32_t>(numbers[i]));  // u8: its low byte
    }
  }
  return out;
}

Numbers decode(tern_dtype dtype, const Bytes& bytes) {
  const std::size_t size = total_bytes(make_desc(dtype, {1}));
  Numbers out(bytes.size() / size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto get = [&]<typename T>(T value) {
      std::memcpy(&value, bytes.data() + i * size, size);
      return value;
    };
    switch (dtype) {
      case TERN_F32:
        out[i] = get(0.0F);
        break;
      case TERN_F16:
        out[i] = fp16_to_float(get(std::uint16_t{0}));
        break;
      case TERN_BF16:
        out[i] = bf16_to_float(get(std::uint16_t{0}));
        break;
      case TERN_I64:
        out[i] = static_cast<double>(get(std::int64_t{0}));
        break;
      default:
        out[i] = get(std::int32_t{0});
    }
  }
  return out;
}

// Small whole numbers, other ones for each rank: exact in every dtype, and so is every sum of them.
Numbers data_of(int rank, std::size_t count) {
  Numbers out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<double>((7 * i + i * i + 3 * static_cast<std::size_t>(rank)) % 5 + 1);
  return out;
}

Numbers reduced(int ranks, std::size_t count, std::int32_t reduce) {
  Numbers out = data_of(0, count);
  for (int r = 1; r < ranks; ++r) {
    const Numbers other = data_of(r, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (reduce == TERN_REDUCE_MAX) {
        out[i] = std::max(out[i], other[i]);
      } else if (reduce == TERN_REDUCE_MIN) {
        out[i] = std::min(out[i], other[i]);
      } else {
        out[i] += other[i];
      }
    }
  }
  if (reduce == TERN_REDUCE_AVERAGE) {
    for (double& number : out) number /= ranks;
  }
  return out;
}

class Rank {
 public:
  Rank(accel::DevicePtr device, const tern_comm_id& id, int ranks, int rank)
      : device_(std::move(device)), stream_(device_->make_stream()), ranks_(ranks), rank_(rank) {
    tern_comm_options options{};
    options.size = sizeof(options);
    options.timeout_ms = 60'000;
    tern_comm raw = nullptr;
    must(api().comm_init(device_->raw(), &id, ranks, rank, &options, &raw), "comm_init");
    comm_ = Comm(device_, raw);
  }

  // The first thing that is wrong, or "". Whatever it is, the rank makes every call: the others wait for it.
  std::string check() {
    for (const tern_dtype dtype : kDtypes) {
      // Nobody has floats to sum that the device doesn't store.
      if (dtype_info(dtype).floating && (device_->info().storage_dtypes >> dtype & 1U) == 0) continue;
      for (const std::size_t count : kCounts) {
        where_ = cat(dtype_name(dtype), ", count ", count);
        check_reductions(dtype, count);
        check_gathers(dtype, count);
        check_broadcast(dtype, count);
        check_exchange(dtype, count);
      }
    }
    return problem_.empty() ? problem_ : cat("rank ", rank_, " of ", ranks_, ": ", problem_);
  }

 private:
  using Comm = accel::Handle<tern_comm, &tern_backend::comm_destroy>;

  [[nodiscard]] const tern_backend& api() const { return device_->api(); }
  void must(tern_status status, const char* call) const {
    accel::check(status, device_->backend(), call, " of rank ", rank_);
  }

  [[nodiscard]] Buffer put(tern_dtype dtype, const Numbers& numbers) {
    const Bytes bytes = encode(dtype, numbers);
    Buffer buffer = device_->allocate(bytes.size(), "collectives");
    device_->copy_to_device(buffer.plane(), bytes, stream_);
    stream_.synchronize();
    return buffer;
  }
  // Memory that holds nothing that any rank could give.
  [[nodiscard]] Buffer room(tern_dtype dtype, std::size_t count) {
    const std::size_t bytes = total_bytes(make_desc(dtype, {static_cast<std::int64_t>(count)}));
    Buffer buffer = device_->allocate(bytes, "collectives");
    device_->fill(buffer.plane(), 0x7b, bytes, stream_);
    return buffer;
  }

  void compare(const char* call, tern_dtype dtype, const Buffer& buffer, const Numbers& expected) {
    Bytes bytes(total_bytes(make_desc(dtype, {static_cast<std::int64_t>(expected.size())})));
    device_->copy_to_host(bytes, buffer.plane(), stream_);
    stream_.synchronize();
    const Numbers found = decode(dtype, bytes);
    // Only averages are rounded: once in the sum's precision, once in the dtype.
    const double unit = dtype == TERN_BF16 ? 0x1p-8 : dtype == TERN_F16 ? 0x1p-11 : 0x1p-23;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool whole = expected[i] == std::floor(expected[i]);
      if (std::fabs(found[i] - expected[i]) <= (whole ? 0.0 : 2 * unit * std::fabs(expected[i]))) continue;
      if (problem_.empty()) {
        problem_ = cat(call, ": element ", i, " is ", found[i], ", expected ", expected[i], " (", where_, ")");
      }
    }
  }

  void check_reductions(tern_dtype dtype, std::size_t count) {
    if (dtype == TERN_U8) return;  // bytes are moved, not summed
    const auto ranks = static_cast<std::size_t>(ranks_);
    const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank_) * count);
    for (const std::int32_t reduce : {TERN_REDUCE_SUM, TERN_REDUCE_MAX, TERN_REDUCE_MIN, TERN_REDUCE_AVERAGE}) {
      if (reduce == TERN_REDUCE_AVERAGE && !dtype_info(dtype).floating) continue;
      const Numbers all = reduced(ranks_, count, reduce);
      const Buffer own = put(dtype, data_of(rank_, count));
      const Buffer apart = room(dtype, count);
      must(api().all_reduce(comm_.raw(), apart.plane(), own.plane(), count, dtype, reduce, stream_.raw()),
           "all_reduce");
      must(api().all_reduce(comm_.raw(), own.plane(), own.plane(), count, dtype, reduce, stream_.raw()), "all_reduce");
      const Numbers sums = reduced(ranks_, ranks * count, reduce);
      const Numbers part(sums.begin() + begin, sums.begin() + begin + static_cast<std::ptrdiff_t>(count));
      const Buffer whole = put(dtype, data_of(rank_, ranks * count));
      const Buffer scattered = room(dtype, count);
      must(api().reduce_scatter(comm_.raw(), scattered.plane(), whole.plane(), count, dtype, reduce, stream_.raw()),
           "reduce_scatter");
      compare("all_reduce", dtype, apart, all);
      compare("all_reduce in place", dtype, own, all);
      compare("reduce_scatter", dtype, scattered, part);
    }
  }

  void check_gathers(tern_dtype dtype, std::size_t count) {
    Numbers all;
    for (int r = 0; r < ranks_; ++r) {
      const Numbers part = data_of(r, count);
      all.insert(all.end(), part.begin(), part.end());
    }
    const Buffer own = put(dtype, data_of(rank_, count));
    const Buffer to = room(dtype, all.size());
    must(api().all_gather(comm_.raw(), to.plane(), own.plane(), count, dtype, stream_.raw()), "all_gather");
    // In place: this rank's part already lies where it belongs.
    Numbers holed(all.size(), 0.0);
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank_) * count);
    std::copy_n(all.begin() + at, count, holed.begin() + at);
    const Buffer place = put(dtype, holed);
    const std::uint64_t offset = total_bytes(make_desc(dtype, {static_cast<std::int64_t>(at)}));
    must(api().all_gather(comm_.raw(), place.plane(), place.plane(offset), count, dtype, stream_.raw()), "all_gather");
    compare("all_gather", dtype, to, all);
    compare("all_gather in place", dtype, place, all);
  }

  void check_broadcast(tern_dtype dtype, std::size_t count) {
    for (int root = 0; root < ranks_; ++root) {
      const Buffer data = put(dtype, data_of(rank_, count));
      must(api().broadcast(comm_.raw(), data.plane(), count, dtype, root, stream_.raw()), "broadcast");
      compare("broadcast", dtype, data, data_of(root, count));
    }
  }

  // Rank s sends count + s + r elements to rank r; then everybody gives to the next in a ring.
  void check_exchange(tern_dtype dtype, std::size_t count) {
    const auto size = [&](int from, int to) { return count + static_cast<std::size_t>(from + to); };
    const auto parcel = [&](int from, int to) {
      Numbers out = data_of(from, size(from, to));
      for (double& number : out) number += 5 * to;
      return out;
    };
    std::vector<std::uint64_t> sends, receives;
    Numbers given, expected;
    for (int r = 0; r < ranks_; ++r) {
      sends.push_back(size(rank_, r));
      receives.push_back(size(r, rank_));
      const Numbers to = parcel(rank_, r), from = parcel(r, rank_);
      given.insert(given.end(), to.begin(), to.end());
      expected.insert(expected.end(), from.begin(), from.end());
    }
    const Buffer source = put(dtype, given);
    const Buffer target = room(dtype, expected.size());
    must(api().all_to_all(comm_.raw(), target.plane(), source.plane(), sends.data(), receives.data(), dtype,
                          stream_.raw()),
         "all_to_all");
    const int next = (rank_ + 1) % ranks_, last = (rank_ + ranks_ - 1) % ranks_;
    const Buffer own = put(dtype, data_of(rank_, count));
    const Buffer ring = room(dtype, count);
    must(api().group_begin(comm_.raw()), "group_begin");
    must(api().send(comm_.raw(), own.plane(), count, dtype, next, stream_.raw()), "send");
    must(api().receive(comm_.raw(), ring.plane(), count, dtype, last, stream_.raw()), "receive");
    must(api().group_end(comm_.raw()), "group_end");
    compare("all_to_all", dtype, target, expected);
    compare("send and receive", dtype, ring, data_of(last, count));
  }

  accel::DevicePtr device_;
  accel::Stream stream_;
  int ranks_;
  int rank_;
  Comm comm_;
  std::string where_;
  std::string problem_;
};

}  // namespace

std::string check_collectives_of_ranks(Bench& bench, std::string& skipped) {
  std::int32_t devices = 0;
  accel::check(bench.device->api().device_count(&devices, {nullptr, 0}), bench.device->backend(), "device_count");
  const int ranks = std::min(devices, kMostRanks);
  if (ranks < 2) {
    skipped = "the backend has one device";
    return {};
  }
  const auto backend = same_backend(bench);
  tern_comm_id id{};
  accel::check(bench.device->api().comm_unique_id(&id), bench.device->backend(), "comm_unique_id");
  std::vector<std::string> problems(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      std::string& problem = problems[static_cast<std::size_t>(r)];
      try {
        problem = Rank(accel::Device::open(backend, r).value(), id, ranks, r).check();
      } catch (const Failure& failure) {
        problem = failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return first_problem(problems);
}

}  // namespace tern::conformance
