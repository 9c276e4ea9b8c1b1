// The collectives themselves, each a call of HCCL in the order of its stream.
#include <algorithm>
#include <numeric>

#include "backends/npu/comm.h"
#include "backends/npu/interface.h"

namespace tern::npu {

std::uint64_t element_bytes(tern_dtype dtype) {
  if (dtype < 0 || dtype >= TERN_DTYPE_COUNT) throw Error(TERN_INVALID_ARGUMENT, "a collective: no such dtype");
  return static_cast<std::uint64_t>(tern_plugin_dtype_bytes(dtype));
}

HcclDataType moved_dtype(tern_dtype dtype) {
  switch (element_bytes(dtype)) {
    case 1:
      return HCCL_DATA_TYPE_UINT8;
    case 2:
      return HCCL_DATA_TYPE_UINT16;
    case 4:
      return HCCL_DATA_TYPE_UINT32;
    default:
      return HCCL_DATA_TYPE_UINT64;
  }
}

namespace {

bool is_float(tern_dtype dtype) { return dtype == TERN_F32 || dtype == TERN_F16 || dtype == TERN_BF16; }

HcclDataType summed_dtype(tern_dtype dtype) {
  switch (dtype) {
    case TERN_F32:
      return HCCL_DATA_TYPE_FP32;
    case TERN_F16:
      return HCCL_DATA_TYPE_FP16;
    case TERN_BF16:
      return HCCL_DATA_TYPE_BFP16;
    case TERN_I8:
      return HCCL_DATA_TYPE_INT8;
    case TERN_I16:
      return HCCL_DATA_TYPE_INT16;
    case TERN_I32:
      return HCCL_DATA_TYPE_INT32;
    case TERN_I64:
      return HCCL_DATA_TYPE_INT64;
    default:
      throw Error(TERN_UNSUPPORTED, std::string("HCCL doesn't reduce ") + tern_plugin_dtype_name(dtype));
  }
}

HcclReduceOp reduction_of(std::int32_t reduce, tern_dtype dtype) {
  switch (reduce) {
    case TERN_REDUCE_AVERAGE:
      if (!is_float(dtype)) throw Error(TERN_INVALID_ARGUMENT, "only floats have an average");
      return HCCL_REDUCE_SUM;
    case TERN_REDUCE_SUM:
      return HCCL_REDUCE_SUM;
    case TERN_REDUCE_MAX:
      return HCCL_REDUCE_MAX;
    case TERN_REDUCE_MIN:
      return HCCL_REDUCE_MIN;
    default:
      throw Error(TERN_INVALID_ARGUMENT, "a collective: no such reduction");
  }
}

aclrtStream stream_of(const Comm* comm, Stream* stream, const char* what) {
  if (comm == nullptr) throw Error(TERN_INVALID_ARGUMENT, std::string(what) + ": no communicator");
  (void)use(stream, what);
  if (stream->shared != comm->shared) {
    throw Error(TERN_INVALID_ARGUMENT, std::string(what) + ": the stream is another device's");
  }
  if (stream->recording() != nullptr) {
    throw Error(TERN_UNSUPPORTED, std::string(what) + ": collectives aren't captured");
  }
  return stream->handle;
}

// Now, or at the end of the group.
void start(Comm& comm, std::function<void()> call) {
  if (comm.grouped) {
    comm.calls.push_back(std::move(call));
  } else {
    call();
  }
}

struct OnePlace final : Places {
  std::byte* data = nullptr;
  [[nodiscard]] std::byte* address(std::int32_t) const override { return data; }
};

// data = data / ranks: HCCL has no average.
void divide(Comm& comm, std::byte* data, std::uint64_t count, tern_dtype dtype, Stream& stream) {
  tern_op_desc none{};
  Composer composer(*comm.shared->chip, none, {});
  const View view = contiguous_view(0, 0, acl_dtype(dtype), {static_cast<std::int64_t>(count)});
  composer.muls(view, 1.0 / comm.ranks, view);
  OnePlace place;
  place.data = data;
  Prepared prepared(*comm.shared, composer, place, 0, false);
  if (const std::uint64_t bytes = prepared.scratch_bytes();
      bytes > 0 && (comm.scratch.empty() || comm.scratch.back().second < bytes)) {
    comm.scratch.emplace_back(comm.shared->allocate(bytes), bytes);  // earlier ones may still be in use
  }
  prepared.run(comm.scratch.empty() ? nullptr : static_cast<std::byte*>(comm.scratch.back().first), stream.handle);
}

// A message is in its place of an order that all ranks know, so that those that wait for each other never wait in a
// ring.
std::pair<std::pair<std::int32_t, std::int32_t>, bool> turn(const Comm::Message& message) {
  return {{std::min(message.from, message.to), std::max(message.from, message.to)}, message.from > message.to};
}

tern_status queue_message(tern_comm comm, tern_plane plane, uint64_t count, tern_dtype dtype, int32_t peer,
                          tern_stream stream, bool send) {
  const char* what = send ? "send" : "receive";
  return guarded([&]() -> tern_status {
    const aclrtStream handle = stream_of(comm, stream, what);
    if (peer < 0 || peer >= comm->ranks || peer == comm->rank) {
      return fail(TERN_INVALID_ARGUMENT, std::string(what) + ": rank " + std::to_string(comm->rank) + " of " +
                                             std::to_string(comm->ranks) + " has no peer " + std::to_string(peer));
    }
    std::byte* data = plane_address(plane, count * element_bytes(dtype), what);
    if (count == 0) return TERN_OK;
    const HcclComm own = comm->handle;
    Comm::Message message{
        send ? comm->rank : peer, send ? peer : comm->rank, [=] {
          const auto call = send ? hccl().HcclSend : hccl().HcclRecv;
          check_hccl(call(data, count, moved_dtype(dtype), static_cast<std::uint32_t>(peer), own, handle), what);
        }};
    if (comm->grouped) {
      comm->messages.push_back(std::move(message));
    } else {
      message.start();
    }
    return TERN_OK;
  });
}

}  // namespace

tern_status all_reduce(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype, int32_t reduce,
                       tern_stream stream) {
  return guarded([&]() -> tern_status {
    const aclrtStream handle = stream_of(comm, stream, "all_reduce");
    const HcclReduceOp op = reduction_of(reduce, dtype);
    const HcclDataType kind = summed_dtype(dtype);
    std::byte* from = plane_address(src, count * element_bytes(dtype), "all_reduce: source");
    std::byte* to = plane_address(dst, count * element_bytes(dtype), "all_reduce: destination");
    if (count == 0) return TERN_OK;
    start(*comm, [=] {
      check_hccl(hccl().HcclAllReduce(from, to, count, kind, op, comm->handle, handle), "all_reduce");
      if (reduce == TERN_REDUCE_AVERAGE) divide(*comm, to, count, dtype, *stream);
    });
    return TERN_OK;
  });
}

tern_status all_gather(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                       tern_stream stream) {
  return guarded([&]() -> tern_status {
    const aclrtStream handle = stream_of(comm, stream, "all_gather");
    const std::uint64_t bytes = count * element_bytes(dtype);
    std::byte* from = plane_address(src, bytes, "all_gather: source");
    std::byte* to = plane_address(dst, bytes * static_cast<std::uint64_t>(comm->ranks), "all_gather: destination");
    if (count == 0) return TERN_OK;
    start(*comm, [=] {
      check_hccl(hccl().HcclAllGather(from, to, count, moved_dtype(dtype), comm->handle, handle), "all_gather");
    });
    return TERN_OK;
  });
}

tern_status reduce_scatter(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                           int32_t reduce, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const aclrtStream handle = stream_of(comm, stream, "reduce_scatter");
    const HcclReduceOp op = reduction_of(reduce, dtype);
    const HcclDataType kind = summed_dtype(dtype);
    const std::uint64_t bytes = count * element_bytes(dtype);
    std::byte* from = plane_address(src, bytes * static_cast<std::uint64_t>(comm->ranks), "reduce_scatter: source");
    std::byte* to = plane_address(dst, bytes, "reduce_scatter: destination");
    if (count == 0) return TERN_OK;
    start(*comm, [=] {
      check_hccl(hccl().HcclReduceScatter(from, to, count, kind, op, comm->handle, handle), "reduce_scatter");
      if (reduce == TERN_REDUCE_AVERAGE) divide(*comm, to, count, dtype, *stream);
    });
    return TERN_OK;
  });
}

tern_status broadcast(tern_comm comm, tern_plane data, uint64_t count, tern_dtype dtype, int32_t root,
                      tern_stream stream) {
  return guarded([&]() -> tern_status {
    const aclrtStream handle = stream_of(comm, stream, "broadcast");
    if (root < 0 || root >= comm->ranks) {
      return fail(TERN_INVALID_ARGUMENT, "broadcast: rank " + std::to_string(root) + " is none");
    }
    std::byte* memory = plane_address(data, count * element_bytes(dtype), "broadcast");
    if (count == 0) return TERN_OK;
    start(*comm, [=] {
      check_hccl(hccl().HcclBroadcast(memory, count, moved_dtype(dtype), static_cast<std::uint32_t>(root), comm->handle,
                                      handle),
                 "broadcast");
    });
    return TERN_OK;
  });
}

tern_status all_to_all(tern_comm comm, tern_plane dst, tern_plane src, const uint64_t* send_counts,
                       const uint64_t* receive_counts, tern_dtype dtype, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const aclrtStream handle = stream_of(comm, stream, "all_to_all");
    if (send_counts == nullptr || receive_counts == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "all_to_all: no counts");
    }
    const auto list = [&](const uint64_t* counts) { return std::vector<std::uint64_t>(counts, counts + comm->ranks); };
    const auto begins = [](const std::vector<std::uint64_t>& counts) {
      std::vector<std::uint64_t> out(counts.size());
      std::exclusive_scan(counts.begin(), counts.end(), out.begin(), std::uint64_t{0});
      return out;
    };
    const auto total = [&](const std::vector<std::uint64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) * element_bytes(dtype);
    };
    const std::vector<std::uint64_t> sends = list(send_counts), receives = list(receive_counts);
    std::byte* from = plane_address(src, total(sends), "all_to_all: source");
    std::byte* to = plane_address(dst, total(receives), "all_to_all: destination");
    start(*comm, [=] {
      const HcclDataType kind = moved_dtype(dtype);
      const auto send_begins = begins(sends), receive_begins = begins(receives);
      check_hccl(hccl().HcclAlltoAllV(from, sends.data(), send_begins.data(), kind, to, receives.data(),
                                      receive_begins.data(), kind, comm->handle, handle),
                 "all_to_all");
    });
    return TERN_OK;
  });
}

tern_status send(tern_comm comm, tern_plane src, uint64_t count, tern_dtype dtype, int32_t peer, tern_stream stream) {
  return queue_message(comm, src, count, dtype, peer, stream, true);
}

tern_status receive(tern_comm comm, tern_plane dst, uint64_t count, tern_dtype dtype, int32_t peer,
                    tern_stream stream) {
  return queue_message(comm, dst, count, dtype, peer, stream, false);
}

tern_status group_begin(tern_comm comm) {
  return guarded([&]() -> tern_status {
    if (comm == nullptr) return fail(TERN_INVALID_ARGUMENT, "group_begin: no communicator");
    if (comm->grouped) return fail(TERN_INVALID_ARGUMENT, "group_begin: groups don't nest");
    comm->grouped = true;
    return TERN_OK;
  });
}

tern_status group_end(tern_comm comm) {
  return guarded([&]() -> tern_status {
    if (comm == nullptr) return fail(TERN_INVALID_ARGUMENT, "group_end: no communicator");
    if (!comm->grouped) return fail(TERN_INVALID_ARGUMENT, "group_end: no group was begun");
    comm->grouped = false;
    const auto calls = std::exchange(comm->calls, {});
    auto messages = std::exchange(comm->messages, {});
    std::stable_sort(messages.begin(), messages.end(),
                     [](const Comm::Message& a, const Comm::Message& b) { return turn(a) < turn(b); });
    comm->shared->use();
    for (const auto& call : calls) call();
    for (const Comm::Message& message : messages) message.start();
    return TERN_OK;
  });
}

}  // namespace tern::npu
