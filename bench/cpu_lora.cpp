// What adapters cost on the cpu backend, through its C interface: cpu_lora [threads] [seconds a case]. Each line
// compares lora_segmented with lora_shrink and matmul of one adapter, as many of them as there are adapters: the same
// bytes. Best of all runs, over so many copies of the adapters that none is in a cache; for numbers that count, on an
// idle machine.
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
  std::int64_t rows, adapters, in, out, rank;
  tern_dtype dtype;  // of A and B
};

constexpr Shape kShapes[] = {
    {1, 1, 2048, 2048, 16, TERN_F32},   {16, 1, 2048, 2048, 16, TERN_F32},  {16, 8, 2048, 2048, 16, TERN_F32},
    {16, 16, 2048, 2048, 16, TERN_F32}, {16, 8, 2048, 2048, 16, TERN_BF16}, {16, 1, 2048, 2048, 64, TERN_F32},
    {16, 8, 2048, 2048, 64, TERN_F32},  {16, 1, 576, 1536, 8, TERN_F32},    {16, 8, 576, 1536, 8, TERN_F32},
    {512, 1, 2048, 2048, 16, TERN_F32}, {512, 4, 2048, 2048, 16, TERN_F32}, {512, 4, 2048, 2048, 16, TERN_BF16},
};
constexpr std::int64_t kCold = 96 << 20;  // bytes of all copies, more than a cache has

void must(tern_status status, const char* what) {
  if (status == TERN_OK) return;
  std::fprintf(stderr, "cpu_lora: %s failed with status %d\n", what, status);
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
  double segmented(const Shape& s, double budget) {
    std::vector<std::vector<tern_bound>> copies(static_cast<std::size_t>(num_copies(s)));
    const tern_tensor x = tensor(TERN_F32, {s.rows, s.in}), y = tensor(TERN_F32, {s.rows, s.out});
    const tern_tensor slots = tensor(TERN_I32, {s.rows});
    auto* slot = static_cast<std::int32_t*>(pointer(slots.planes[0].buffer));
    for (std::int64_t r = 0; r < s.rows; ++r) slot[r] = static_cast<std::int32_t>(r % s.adapters);
    for (auto& calls : copies) {
      const tern_tensor a = tensor(s.dtype, {s.adapters, s.rank, s.in}),
                        b = tensor(s.dtype, {s.adapters, s.out, s.rank});
      calls = {bind(TERN_OP_LORA_SEGMENTED, {x, a, b, slots, y}, nullptr, 0, 1U << TERN_LORA_SEGMENTED_Y)};
    }
    return finish(copies, budget);
  }

  double one_by_one(const Shape& s, double budget) {
    const std::int64_t rows = s.rows / s.adapters;
    std::vector<std::vector<tern_bound>> copies(static_cast<std::size_t>(num_copies(s)));
    const tern_tensor x = tensor(TERN_F32, {rows, s.in}), y = tensor(TERN_F32, {rows, s.out});
    const tern_tensor h = tensor(TERN_F32, {rows, s.rank});
    const tern_lora_shrink_attrs shrink{0.0F, 0, 1.0F};
    const tern_matmul_attrs expand{0, 1, TERN_F32, 1.0F};
    for (auto& calls : copies) {
      for (std::int64_t i = 0; i < s.adapters; ++i) {
        const tern_tensor a = tensor(s.dtype, {s.rank, s.in}), b = tensor(s.dtype, {s.out, s.rank});
        calls.push_back(bind(TERN_OP_LORA_SHRINK, {x, a, absent(), absent(), h}, &shrink, sizeof shrink, 0));
        calls.push_back(bind(TERN_OP_MATMUL, {h, b, absent(), y}, &expand, sizeof expand, 1U << TERN_MATMUL_OUT));
      }
    }
    return finish(copies, budget);
  }

 private:
  static std::int64_t num_copies(const Shape& s) {
    return kCold / (s.adapters * s.rank * (s.in + s.out) * tern::dtype_bytes(s.dtype)) + 1;
  }

  double finish(const std::vector<std::vector<tern_bound>>& copies, double budget) {
    using clock = std::chrono::steady_clock;
    const auto seconds = [](clock::duration d) { return std::chrono::duration<double>(d).count(); };
    tern_host_args host_args{};
    host_args.size = sizeof host_args;
    const auto begin = clock::now();
    double best = 1e30;
    for (std::size_t i = 0; seconds(clock::now() - begin) < budget; i = (i + 1) % copies.size()) {
      const auto start = clock::now();
      for (tern_bound bound : copies[i]) must(backend_->launch(bound, &host_args, stream_, nullptr), "launch");
      must(backend_->stream_synchronize(stream_), "synchronize");
      best = std::min(best, seconds(clock::now() - start));
    }
    for (const auto& calls : copies) {
      for (tern_bound bound : calls) must(backend_->unbind(bound), "unbind");
    }
    for (tern_plan plan : plans_) must(backend_->plan_destroy(plan), "plan_destroy");
    for (tern_buffer buffer : buffers_) must(backend_->buffer_destroy(buffer), "buffer_destroy");
    plans_.clear();
    buffers_.clear();
    return best;
  }

  tern_bound bind(std::uint32_t op, const std::vector<tern_tensor>& args, const void* attrs, std::size_t attrs_size,
                  std::uint32_t accumulate) {
    std::vector<tern_tensor_desc> descs;
    for (const auto& arg : args) descs.push_back(arg.desc);
    const std::vector<std::int8_t> alias(args.size(), -1);
    tern_op_desc desc{};
    desc.size = sizeof desc;
    desc.op = op;
    desc.num_args = static_cast<std::uint32_t>(args.size());
    desc.attrs_size = static_cast<std::uint32_t>(attrs_size);
    desc.accumulate = accumulate;
    desc.args = descs.data();
    desc.attrs = attrs;
    desc.alias = alias.data();
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof info;
    must(backend_->plan(device_, &desc, nullptr, &plan, &info), "plan");
    plans_.push_back(plan);
    tern_bound bound = nullptr;
    tern_bind_args bind{};
    bind.size = sizeof bind;
    bind.num_args = desc.num_args;
    bind.args = args.data();
    bind.workspace = plane(info.workspace_bytes);
    must(backend_->bind(plan, &bind, &bound), "bind");
    return bound;
  }

  void* pointer(tern_buffer buffer) {
    void* at = nullptr;
    must(backend_->buffer_host_pointer(buffer, &at), "buffer_host_pointer");
    return at;
  }

  tern_plane plane(std::uint64_t bytes) {
    tern_buffer buffer = nullptr;
    must(backend_->buffer_create(device_, std::max<std::uint64_t>(bytes, 64), 0, &buffer), "buffer_create");
    buffers_.push_back(buffer);
    std::memset(pointer(buffer), 0x3c, bytes);  // a small number in every dtype
    return {buffer, 0};
  }

  tern_tensor tensor(tern_dtype dtype, const std::vector<std::int64_t>& shape) {
    tern_tensor made = absent();
    made.desc.dtype = dtype;
    made.desc.rank = static_cast<std::int32_t>(shape.size());
    std::int64_t elements = 1;
    for (std::size_t d = shape.size(); d-- > 0; elements *= shape[d]) {
      made.desc.shape[d] = shape[d];
      made.desc.strides[d] = elements;
    }
    made.planes[0] = plane(static_cast<std::uint64_t>(elements * tern::dtype_bytes(dtype)));
    return made;
  }

  static tern_tensor absent() {
    tern_tensor none{};
    none.desc.dynamic_dim = -1;
    return none;
  }

  tern_host host_;
  const tern_backend* backend_ = nullptr;
  tern_device device_ = nullptr;
  tern_stream stream_ = nullptr;
  std::vector<tern_buffer> buffers_;
  std::vector<tern_plan> plans_;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.3;
  Bench bench(threads);
  std::printf("%5s %8s %5s %5s %5s  %-5s %12s %12s %6s\n", "rows", "adapters", "in", "out", "rank", "dtype",
              "segmented us", "one each us", "ratio");
  for (const Shape& s : kShapes) {
    const double together = bench.segmented(s, budget), apart = bench.one_by_one(s, budget);
    std::printf("%5lld %8lld %5lld %5lld %5lld  %-5s %12.1f %12.1f %6.2f\n", static_cast<long long>(s.rows),
                static_cast<long long>(s.adapters), static_cast<long long>(s.in), static_cast<long long>(s.out),
                static_cast<long long>(s.rank), s.dtype == TERN_F32 ? "f32" : "bf16", together * 1e6, apart * 1e6,
                together / apart);
  }
  return 0;
}
