// The collectives themselves, each a call of NCCL in the order of its stream.
#include <algorithm>
#include <bit>
#include <numeric>

#include "backends/cuda/comm.h"
#include "backends/cuda/interface.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

std::uint64_t element_bytes(tern_dtype dtype) {
  if (dtype < 0 || dtype >= TERN_DTYPE_COUNT) throw Error(TERN_INVALID_ARGUMENT, "a collective: no such dtype");
  return static_cast<std::uint64_t>(tern_plugin_dtype_bytes(dtype));
}

bool is_float(tern_dtype dtype) {
  return dtype == TERN_F32 || dtype == TERN_F16 || dtype == TERN_BF16 || dtype == TERN_F64;
}

ncclDataType_t summed_dtype(tern_dtype dtype) {
  switch (dtype) {
    case TERN_F32:
      return ncclFloat32;
    case TERN_F16:
      return ncclFloat16;
    case TERN_BF16:
      return ncclBfloat16;
    case TERN_F64:
      return ncclFloat64;
    case TERN_I8:
      return ncclInt8;
    case TERN_U8:
      return ncclUint8;
    case TERN_I32:
      return ncclInt32;
    case TERN_U32:
      return ncclUint32;
    case TERN_I64:
      return ncclInt64;
    case TERN_U64:
      return ncclUint64;
    default:
      throw Error(TERN_UNSUPPORTED, cat("NCCL doesn't reduce ", tern_plugin_dtype_name(dtype)));
  }
}

struct Reduction {
  ncclRedOp_t op;
  bool divides;  // the sum, on our own, once it is there
};

// NCCL multiplies by 1/ranks in the dtype before it adds: exact for powers of two alone.
Reduction reduction_of(std::int32_t reduce, tern_dtype dtype, std::int32_t ranks) {
  switch (reduce) {
    case TERN_REDUCE_AVERAGE:
      if (!is_float(dtype)) throw Error(TERN_INVALID_ARGUMENT, "only floats have an average");
      if (std::has_single_bit(static_cast<std::uint32_t>(ranks))) return {ncclAvg, false};
      if (dtype == TERN_F64) throw Error(TERN_UNSUPPORTED, "this device takes no averages of f64");
      return {ncclSum, true};
    case TERN_REDUCE_SUM:
      return {ncclSum, false};
    case TERN_REDUCE_MAX:
      return {ncclMax, false};
    case TERN_REDUCE_MIN:
      return {ncclMin, false};
    default:
      throw Error(TERN_INVALID_ARGUMENT, "a collective: no such reduction");
  }
}

void require_comm(const Comm* comm, Stream* stream, const char* what) {
  if (comm == nullptr) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": no communicator"));
  (void)use(stream, what);
  if (stream->state != comm->state) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": the stream is another device's"));
  if (stream->recording() != nullptr) throw Error(TERN_UNSUPPORTED, cat(what, ": collectives aren't captured"));
  auto& aborted = stream->aborted;
  if (std::find(aborted.begin(), aborted.end(), comm->aborted) == aborted.end()) aborted.push_back(comm->aborted);
}

void* pointer(Place place) {
  return reinterpret_cast<void*>(place);  // NOLINT(performance-no-int-to-ptr): an address of the device's
}

// data = data / ranks, in fp32.
void divide(const Comm& comm, Place data, std::uint64_t count, tern_dtype dtype, Stream& stream) {
  const DeviceTensor tensor{data, dtype, 0};
  Call(comm.state->modules.get("divide_all"), stream)
      .arg(tensor)
      .arg(static_cast<std::int64_t>(count))
      .arg(static_cast<float>(comm.ranks))
      .run(static_cast<std::int64_t>(count), 256);
}

// Starts a call now, or at the end of the group; `after` follows it on the stream.
void start(Comm& comm, Stream& stream, const char* what, std::uint64_t bytes,
           const std::function<ncclResult_t(ncclComm_t)>& call, std::function<void()> after = {}) {
  if (comm.grouped) {
    comm.calls.emplace_back([&comm, call, what] { check_nccl(call(comm.handle), what); });
    if (after) comm.after.push_back(std::move(after));
    return;
  }
  submit(stream, TERN_PROFILE_COLLECTIVE, what, bytes, [&] {
    comm.run(what, call);
    return CUDA_SUCCESS;
  });
  if (after) after();
}

// Calls that start together.
ncclResult_t together(const std::function<void()>& calls) {
  const Nccl& api = nccl();
  check_nccl(api.GroupStart(), "a group of collectives");
  try {
    calls();
  } catch (...) {
    (void)api.GroupEnd();
    throw;
  }
  return api.GroupEnd();
}

tern_status queue_message(tern_comm comm, tern_plane plane, uint64_t count, tern_dtype dtype, int32_t peer,
                          tern_stream stream, bool sends) {
  const char* const what = sends ? "send" : "receive";
  return guarded([&]() -> tern_status {
    require_comm(comm, stream, what);
    if (peer < 0 || peer >= comm->ranks || peer == comm->rank) {
      return fail(TERN_INVALID_ARGUMENT, cat(what, ": rank ", comm->rank, " of ", comm->ranks, " has no peer ", peer));
    }
    const std::uint64_t bytes = count * element_bytes(dtype);
    void* const data = pointer(find_place(plane, bytes, what));
    if (count == 0) return TERN_OK;
    const CUstream queue = stream->handle;
    start(*comm, *stream, what, bytes, [=](ncclComm_t handle) {
      return sends ? nccl().Send(data, bytes, ncclUint8, peer, handle, queue)
                   : nccl().Recv(data, bytes, ncclUint8, peer, handle, queue);
    });
    return TERN_OK;
  });
}

}  // namespace

tern_status all_reduce(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype, int32_t reduce,
                       tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_comm(comm, stream, "all_reduce");
    const Reduction how = reduction_of(reduce, dtype, comm->ranks);
    const ncclDataType_t kind = summed_dtype(dtype);
    const std::uint64_t bytes = count * element_bytes(dtype);
    const Place from = find_place(src, bytes, "all_reduce: source");
    const Place to = find_place(dst, bytes, "all_reduce: destination");
    if (count == 0) return TERN_OK;
    const CUstream queue = stream->handle;
    std::function<void()> after;
    if (how.divides) after = [=] { divide(*comm, to, count, dtype, *stream); };
    start(
        *comm, *stream, "all_reduce", bytes,
        [=](ncclComm_t handle) {
          return nccl().AllReduce(pointer(from), pointer(to), count, kind, how.op, handle, queue);
        },
        std::move(after));
    return TERN_OK;
  });
}

tern_status all_gather(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                       tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_comm(comm, stream, "all_gather");
    const std::uint64_t bytes = count * element_bytes(dtype);
    const Place from = find_place(src, bytes, "all_gather: source");
    const Place to = find_place(dst, bytes * static_cast<std::uint64_t>(comm->ranks), "all_gather: destination");
    if (count == 0) return TERN_OK;
    const CUstream queue = stream->handle;
    start(*comm, *stream, "all_gather", bytes, [=](ncclComm_t handle) {
      return nccl().AllGather(pointer(from), pointer(to), bytes, ncclUint8, handle, queue);
    });
    return TERN_OK;
  });
}

tern_status reduce_scatter(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                           int32_t reduce, tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_comm(comm, stream, "reduce_scatter");
    const Reduction how = reduction_of(reduce, dtype, comm->ranks);
    const ncclDataType_t kind = summed_dtype(dtype);
    const std::uint64_t bytes = count * element_bytes(dtype);
    const Place from = find_place(src, bytes * static_cast<std::uint64_t>(comm->ranks), "reduce_scatter: source");
    const Place to = find_place(dst, bytes, "reduce_scatter: destination");
    if (count == 0) return TERN_OK;
    const CUstream queue = stream->handle;
    std::function<void()> after;
    if (how.divides) after = [=] { divide(*comm, to, count, dtype, *stream); };
    start(
        *comm, *stream, "reduce_scatter", bytes,
        [=](ncclComm_t handle) {
          return nccl().ReduceScatter(pointer(from), pointer(to), count, kind, how.op, handle, queue);
        },
        std::move(after));
    return TERN_OK;
  });
}

tern_status broadcast(tern_comm comm, tern_plane data, uint64_t count, tern_dtype dtype, int32_t root,
                      tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_comm(comm, stream, "broadcast");
    if (root < 0 || root >= comm->ranks) return fail(TERN_INVALID_ARGUMENT, cat("broadcast: rank ", root, " is none"));
    const std::uint64_t bytes = count * element_bytes(dtype);
    void* const memory = pointer(find_place(data, bytes, "broadcast"));
    if (count == 0) return TERN_OK;
    const CUstream queue = stream->handle;
    start(*comm, *stream, "broadcast", bytes,
          [=](ncclComm_t handle) { return nccl().Broadcast(memory, memory, bytes, ncclUint8, root, handle, queue); });
    return TERN_OK;
  });
}

tern_status all_to_all(tern_comm comm, tern_plane dst, tern_plane src, const uint64_t* send_counts,
                       const uint64_t* receive_counts, tern_dtype dtype, tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_comm(comm, stream, "all_to_all");
    if (send_counts == nullptr || receive_counts == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "all_to_all: no counts");
    }
    const std::uint64_t unit = element_bytes(dtype);
    const auto bytes_of = [&](const uint64_t* counts) {
      std::vector<std::uint64_t> bytes(counts, counts + comm->ranks);
      for (std::uint64_t& each : bytes) each *= unit;
      return bytes;
    };
    const std::vector<std::uint64_t> sends = bytes_of(send_counts), receives = bytes_of(receive_counts);
    const auto total = [](const std::vector<std::uint64_t>& bytes) {
      return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
    };
    const Place from = find_place(src, total(sends), "all_to_all: source");
    const Place to = find_place(dst, total(receives), "all_to_all: destination");
    const CUstream queue = stream->handle;
    start(*comm, *stream, "all_to_all", total(sends), [=](ncclComm_t handle) {
      return together([&] {
        Place out = from, in = to;
        for (std::size_t r = 0; r < sends.size(); ++r) {
          const int peer = static_cast<int>(r);
          if (sends[r] > 0) {
            check_nccl(nccl().Send(pointer(out), sends[r], ncclUint8, peer, handle, queue), "all_to_all");
          }
          if (receives[r] > 0) {
            check_nccl(nccl().Recv(pointer(in), receives[r], ncclUint8, peer, handle, queue), "all_to_all");
          }
          out += sends[r];
          in += receives[r];
        }
      });
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
    const auto after = std::exchange(comm->after, {});
    comm->state->use();
    if (calls.empty()) return TERN_OK;
    comm->run("a group of collectives", [&](ncclComm_t) {
      return together([&] {
        for (const auto& call : calls) call();
      });
    });
    for (const auto& call : after) call();
    return TERN_OK;
  });
}

}  // namespace tern::cuda
