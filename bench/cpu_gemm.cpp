// Rates of the cpu backend's products, through its C interface: cpu_gemm [threads] [seconds a case]. Best of all runs;
// for numbers that count, on an idle machine.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"

namespace {

struct Shape {
  std::int64_t rows, out, in;
};

struct Weight {
  const char* name;
  tern_dtype dtype;
  tern_packing packing;
  bool packed;  // in the device's private layout
  tern_dtype compute;
};

constexpr Shape kShapes[] = {{512, 1536, 576}, {512, 576, 1536}, {512, 49152, 576}, {64, 1536, 576},
                             {16, 1536, 576},  {8, 1536, 576},   {16, 49152, 576},  {1, 1536, 576},
                             {1, 49152, 576},  {512, 16, 576},   {512, 576, 16}};
constexpr Weight kWeights[] = {{"f32", TERN_F32, TERN_PACK_NONE, false, TERN_F32},
                               {"f32 packed", TERN_F32, TERN_PACK_NONE, true, TERN_F32},
                               {"bf16", TERN_BF16, TERN_PACK_NONE, false, TERN_BF16},
                               {"bf16 packed", TERN_BF16, TERN_PACK_NONE, true, TERN_BF16},
                               {"q4_1", TERN_F32, TERN_PACK_GGUF_Q4_1, false, TERN_BF16},
                               {"q4_1 int8", TERN_F32, TERN_PACK_GGUF_Q4_1, false, TERN_COMPUTE_INT8},
                               {"q4_1 x15", TERN_F32, TERN_PACK_GGUF_Q4_1, false, TERN_COMPUTE_X15},
                               {"q8_0", TERN_F32, TERN_PACK_GGUF_Q8_0, false, TERN_BF16},
                               {"q8_0 int8", TERN_F32, TERN_PACK_GGUF_Q8_0, false, TERN_COMPUTE_INT8},
                               {"q8_0 x15", TERN_F32, TERN_PACK_GGUF_Q8_0, false, TERN_COMPUTE_X15}};

void must(tern_status status, const char* what) {
  if (status == TERN_OK) return;
  std::fprintf(stderr, "cpu_gemm: %s failed with status %d\n", what, status);
  std::exit(1);
}

class Bench {
 public:
  explicit Bench(int threads) : host_{sizeof(tern_host), TERN_ABI_MAJOR, TERN_ABI_MINOR, threads, nullptr, nullptr} {
    backend_ = tern_backend_entry(&host_);
    constexpr tern_open_args first = {.size = sizeof(tern_open_args)};
    must(backend_->device_open(&first, &device_), "device_open");
    must(backend_->stream_create(device_, 0, &stream_), "stream_create");
  }

  // Seconds of the fastest run.
  double run(const Shape& s, const Weight& w, double budget) {
    std::vector<tern_tensor> args(TERN_MATMUL_Q_NUM_ARGS);
    args[TERN_MATMUL_Q_X] = tensor(TERN_F32, TERN_PACK_NONE, s.rows, s.in);
    args[TERN_MATMUL_Q_W] = weight(s, w);
    args[TERN_MATMUL_Q_BIAS].desc.dynamic_dim = -1;
    args[TERN_MATMUL_Q_Y] = tensor(TERN_F32, TERN_PACK_NONE, s.rows, s.out);
    std::vector<tern_tensor_desc> descs;
    for (const auto& arg : args) descs.push_back(arg.desc);
    const tern_matmul_q_attrs attrs{1, w.compute};
    const std::vector<std::int8_t> alias(args.size(), -1);
    tern_op_desc desc{};
    desc.size = sizeof desc;
    desc.op = TERN_OP_MATMUL_Q;
    desc.num_args = TERN_MATMUL_Q_NUM_ARGS;
    desc.attrs_size = sizeof attrs;
    desc.args = descs.data();
    desc.attrs = &attrs;
    desc.alias = alias.data();
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof info;
    must(backend_->plan(device_, &desc, nullptr, &plan, &info), "plan");
    tern_bound bound = nullptr;
    tern_bind_args bind{};
    bind.size = sizeof bind;
    bind.num_args = TERN_MATMUL_Q_NUM_ARGS;
    bind.args = args.data();
    bind.workspace = plane(info.workspace_bytes);
    must(backend_->bind(plan, &bind, &bound), "bind");
    tern_host_args host_args{};
    host_args.size = sizeof host_args;
    const double best = fastest(bound, host_args, budget);
    must(backend_->unbind(bound), "unbind");
    must(backend_->plan_destroy(plan), "plan_destroy");
    for (tern_buffer buffer : buffers_) must(backend_->buffer_destroy(buffer), "buffer_destroy");
    buffers_.clear();
    return best;
  }

 private:
  double fastest(tern_bound bound, const tern_host_args& host_args, double budget) {
    using clock = std::chrono::steady_clock;
    const auto seconds = [](clock::duration d) { return std::chrono::duration<double>(d).count(); };
    const auto begin = clock::now();
    double best = 1e30;
    do {
      const auto start = clock::now();
      must(backend_->launch(bound, &host_args, stream_, nullptr), "launch");
      must(backend_->stream_synchronize(stream_), "synchronize");
      best = std::min(best, seconds(clock::now() - start));
    } while (seconds(clock::now() - begin) < budget);
    return best;
  }

  tern_plane plane(std::uint64_t bytes) {
    tern_buffer buffer = nullptr;
    must(backend_->buffer_create(device_, std::max<std::uint64_t>(bytes, 64), 0, &buffer), "buffer_create");
    buffers_.push_back(buffer);
    void* at = nullptr;
    must(backend_->buffer_host_pointer(buffer, &at), "buffer_host_pointer");
    std::memset(at, 0x3c, bytes);  // a small number in every dtype
    return {buffer, 0};
  }

  tern_tensor tensor(tern_dtype dtype, tern_packing packing, std::int64_t rows, std::int64_t columns) {
    tern_tensor made{};
    made.desc.dtype = dtype;
    made.desc.rank = 2;
    made.desc.dynamic_dim = -1;
    made.desc.shape[0] = rows;
    made.desc.shape[1] = made.desc.strides[0] = columns;
    made.desc.strides[1] = 1;
    made.desc.scheme.packing = packing;
    std::int64_t bytes = rows * columns * tern::dtype_bytes(dtype);
    if (packing != TERN_PACK_NONE) {
      const tern::BlockSize block = tern::packing_block(packing);
      made.desc.scheme.group_rows = 1;
      made.desc.scheme.group_cols = block.elements;
      bytes = rows * columns / block.elements * block.bytes;
    }
    made.planes[0] = plane(static_cast<std::uint64_t>(bytes));
    return made;
  }

  tern_tensor weight(const Shape& s, const Weight& w) {
    const tern_packing packing = s.in % 32 == 0 ? w.packing : tern_packing{TERN_PACK_NONE};
    tern_tensor plain = tensor(w.dtype, packing, s.out, s.in);
    if (!w.packed) return plain;
    tern_packed_info info{};
    info.size = sizeof info;
    must(backend_->packed_info(device_, &plain.desc, TERN_USE_FORWARD, &info), "packed_info");
    tern_tensor packed = plain;
    packed.desc.layout = info.layout;
    packed.planes[0] = plane(info.bytes);
    must(backend_->pack(packed, plain, TERN_USE_FORWARD, stream_), "pack");
    return packed;
  }

  tern_host host_;
  const tern_backend* backend_ = nullptr;
  tern_device device_ = nullptr;
  tern_stream stream_ = nullptr;
  std::vector<tern_buffer> buffers_;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.3;
  Bench bench(threads);
  std::printf("%6s %6s %6s  %-12s %10s %10s\n", "rows", "out", "in", "weight", "ms", "GF/s");
  for (const Shape& s : kShapes) {
    for (const Weight& w : kWeights) {
      if (s.in % 32 != 0 && w.compute > TERN_COMPUTE_BF16) continue;
      const double seconds = bench.run(s, w, budget);
      std::printf("%6lld %6lld %6lld  %-12s %10.3f %10.1f\n", static_cast<long long>(s.rows),
                  static_cast<long long>(s.out), static_cast<long long>(s.in), w.name, seconds * 1e3,
                  2e-9 * static_cast<double>(s.rows * s.out * s.in) / seconds);
    }
  }
  return 0;
}
