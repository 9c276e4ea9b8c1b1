// Buffers, streams, captures, plans and their errors, through the C interface.
#include <cmath>
#include <cstring>
#include <string>

#include "plugin.h"
#include "tests/unit/backend_cpu/calls.h"

namespace tern::test {
namespace {

tern_device_info info_of(const Plugin& p) {
  tern_device_info info{};
  info.size = sizeof info;
  EXPECT_EQ(p.table->device_info(0, &info), TERN_OK);
  return info;
}

class CpuRuntime : public ::testing::Test {
 protected:
  Plugin plugin{"", 2};
  const tern_backend& t = *plugin.table;

  tern_buffer buffer(std::uint64_t bytes) {
    tern_buffer made = nullptr;
    EXPECT_EQ(t.buffer_create(plugin.device, bytes, 0, &made), TERN_OK) << plugin.last_error();
    return made;
  }
  float* floats(tern_buffer of) {
    void* pointer = nullptr;
    EXPECT_EQ(t.buffer_host_pointer(of, &pointer), TERN_OK);
    return static_cast<float*>(pointer);
  }
};

// y = 2 x over [8, 4], rows dynamic.
struct Doubling {
  tern_plan plan = nullptr;
  tern_bound bound = nullptr;
  tern_buffer x, y;
};

Doubling doubling(const Plugin& p, tern_buffer x, tern_buffer y) {
  Doubling d{nullptr, nullptr, x, y};
  const auto desc = with_dynamic(make_desc(TERN_F32, {8, 4}), 0, 2);
  const tern_tensor_desc args[3] = {desc, absent_desc(), desc};
  const tern_axpby_attrs attrs{2.0F, 0.0F};
  const tern_op_desc op{sizeof(tern_op_desc), TERN_OP_AXPBY, 0, 0, 3, sizeof attrs, args, &attrs, nullptr};
  tern_plan_info info{};
  info.size = sizeof info;
  EXPECT_EQ(p.table->plan(p.device, &op, nullptr, &d.plan, &info), TERN_OK);
  tern_tensor tensors[3] = {};
  tensors[0].desc = tensors[2].desc = desc;
  tensors[0].planes[0].buffer = x;
  tensors[2].planes[0].buffer = y;
  const tern_bind_args given = placed(tensors);
  EXPECT_EQ(p.table->bind(d.plan, &given, &d.bound), TERN_OK) << p.last_error();
  return d;
}

tern_host_args rows(std::int64_t count) {
  tern_host_args args{};
  args.size = sizeof args;
  args.counts[2] = count;
  return args;
}

TEST_F(CpuRuntime, SaysWhatItIs) {
  const auto info = info_of(plugin);
  EXPECT_STRNE(info.name, "");
  EXPECT_GT(info.memory_bytes, 0U);
  EXPECT_EQ(info.compute_units, 2);
  EXPECT_NE(info.capabilities & TERN_CAP_CAPTURE, 0U);
  EXPECT_EQ(info.capabilities & (TERN_CAP_PEER_COPY | TERN_CAP_IPC | TERN_CAP_WHOLE_GRAPH | TERN_CAP_COLLECTIVES), 0U);
  std::uint8_t handle[128];
  EXPECT_EQ(t.ipc_export(nullptr, handle), TERN_UNSUPPORTED);
  EXPECT_EQ(t.comm_unique_id(nullptr), TERN_UNSUPPORTED);
  EXPECT_EQ(t.copy_peer({}, {}, 0, plugin.stream), TERN_UNSUPPORTED);
  EXPECT_EQ(t.recipe_destroy(nullptr), TERN_UNSUPPORTED);
  std::uint32_t check = 0;
  for (std::int32_t level = -1; t.doctor(check, &level, {nullptr, 0}) == TERN_OK; ++check)
    EXPECT_GE(level, TERN_LOG_INFO);
  EXPECT_GE(check, 3U);
}

TEST_F(CpuRuntime, AForcedTargetThatIsNoneIsExplained) {
  setenv("TERN_CPU_TARGET", "pentium", 1);
  std::int32_t count = -1;
  char reason[256] = "";
  EXPECT_EQ(t.device_count(&count, {reason, sizeof reason}), TERN_OK);
  tern_device device = nullptr;
  EXPECT_EQ(t.device_open(&kFirstDevice, &device), TERN_UNSUPPORTED);
  unsetenv("TERN_CPU_TARGET");
  EXPECT_EQ(count, 0);
  EXPECT_NE(std::string(reason).find("TERN_CPU_TARGET"), std::string::npos);
  EXPECT_NE(std::string(reason).find("pentium"), std::string::npos);
  EXPECT_NE(std::string(reason).find("baseline"), std::string::npos);
}

TEST_F(CpuRuntime, CountsMemoryAndRefusesWhatIsNotThere) {
  tern_memory_info before{}, during{}, after{};
  before.size = during.size = after.size = sizeof before;
  ASSERT_EQ(t.memory_info(plugin.device, &before), TERN_OK);
  const tern_buffer held = buffer(5 << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats(held)) % 64, 0U);
  ASSERT_EQ(t.memory_info(plugin.device, &during), TERN_OK);
  t.buffer_destroy(held);
  ASSERT_EQ(t.memory_info(plugin.device, &after), TERN_OK);
  EXPECT_EQ(during.in_use_by_process - before.in_use_by_process, 5U << 20);
  EXPECT_EQ(after.in_use_by_process, before.in_use_by_process);
  EXPECT_GE(after.peak_by_process, during.in_use_by_process);
  tern_buffer none = nullptr;
  EXPECT_EQ(t.buffer_create(plugin.device, std::uint64_t{1} << 60, 0, &none), TERN_OUT_OF_MEMORY);
  EXPECT_NE(plugin.last_error().find("free"), std::string::npos);
  EXPECT_EQ(t.buffer_create(plugin.device, UINT64_MAX, 0, &none), TERN_OUT_OF_MEMORY);
}

TEST_F(CpuRuntime, CopiesStayInsideTheirBuffers) {
  const tern_buffer a = buffer(64);
  float data[16] = {1, 2, 3};
  EXPECT_EQ(t.copy_to_device({a, 0}, data, 64, plugin.stream), TERN_OK);
  EXPECT_EQ(t.copy_to_device({a, 1}, data, 64, plugin.stream), TERN_INVALID_ARGUMENT);
  EXPECT_EQ(t.copy_to_host(data, {a, UINT64_MAX}, 64, plugin.stream), TERN_INVALID_ARGUMENT);
  EXPECT_EQ(t.fill({a, 60}, 0, 5, plugin.stream), TERN_INVALID_ARGUMENT);
  EXPECT_EQ(floats(a)[2], 3.0F);
  t.buffer_destroy(a);
}

TEST_F(CpuRuntime, ImportedMemoryIsUsedInPlace) {
  float mine[32];
  for (int i = 0; i < 32; ++i) mine[i] = static_cast<float>(i);
  tern_buffer x = nullptr;
  ASSERT_EQ(t.import_host(plugin.device, mine, sizeof mine, &x), TERN_OK);
  const tern_buffer y = buffer(sizeof mine);
  const Doubling d = doubling(plugin, x, y);
  mine[31] = 50.0F;
  ASSERT_EQ(t.launch(d.bound, nullptr, plugin.stream, nullptr), TERN_OK);
  EXPECT_EQ(floats(y)[31], 100.0F);
  t.unbind(d.bound);
  t.plan_destroy(d.plan);
  t.buffer_destroy(x);
  t.buffer_destroy(y);
  EXPECT_EQ(mine[31], 50.0F);
}

// Nothing runs while capturing; replays see new data and updated counts, and a plan may be gone by then.
TEST_F(CpuRuntime, ACaptureReplaysWithUpdatedCounts) {
  const tern_buffer x = buffer(128), y = buffer(128), z = buffer(128);
  for (int i = 0; i < 32; ++i) floats(x)[i] = 1.0F;
  for (int i = 0; i < 32; ++i) floats(y)[i] = floats(z)[i] = -1.0F;
  const Doubling d = doubling(plugin, x, y);
  tern_stream other = nullptr;
  tern_event event = nullptr;
  ASSERT_EQ(t.stream_create(plugin.device, 0, &other), TERN_OK);
  ASSERT_EQ(t.event_create(plugin.device, 1, &event), TERN_OK);
  ASSERT_EQ(t.capture_begin(plugin.stream), TERN_OK);
  EXPECT_EQ(t.capture_begin(plugin.stream), TERN_INVALID_ARGUMENT);
  std::uint64_t node = 77;
  auto args = rows(2);
  ASSERT_EQ(t.launch(d.bound, &args, plugin.stream, &node), TERN_OK);
  ASSERT_EQ(t.event_record(event, plugin.stream), TERN_OK);
  ASSERT_EQ(t.stream_wait_event(other, event), TERN_OK);
  ASSERT_EQ(t.copy_on_device({z, 0}, {y, 0}, 128, other), TERN_OK);
  EXPECT_EQ(floats(y)[0], -1.0F);
  EXPECT_EQ(t.stream_synchronize(plugin.stream), TERN_INVALID_ARGUMENT);
  tern_capture capture = nullptr;
  EXPECT_EQ(t.capture_end(other, &capture), TERN_INVALID_ARGUMENT);
  ASSERT_EQ(t.capture_end(plugin.stream, &capture), TERN_OK);
  t.unbind(d.bound);
  t.plan_destroy(d.plan);
  args = rows(7);
  ASSERT_EQ(t.capture_launch(capture, plugin.stream), TERN_OK);
  EXPECT_EQ(floats(z)[7], 2.0F);
  EXPECT_EQ(floats(z)[8], -1.0F);  // beyond the count: as it was
  tern_node_update update{node, &args};
  ASSERT_EQ(t.capture_update(capture, plugin.stream, &update, 1), TERN_OK);
  update.node = node + 1;
  EXPECT_EQ(t.capture_update(capture, plugin.stream, &update, 1), TERN_INVALID_ARGUMENT);
  floats(x)[27] = 4.0F;
  ASSERT_EQ(t.capture_launch(capture, plugin.stream), TERN_OK);
  EXPECT_EQ(floats(z)[27], 8.0F);
  EXPECT_EQ(t.event_query(event), TERN_OK);
  ASSERT_EQ(t.copy_on_device({z, 0}, {x, 0}, 4, other), TERN_OK);  // the other stream records no longer
  EXPECT_EQ(floats(z)[0], 1.0F);
  t.capture_destroy(capture);
  t.event_destroy(event);
  t.stream_destroy(other);
  for (const tern_buffer b : {x, y, z}) t.buffer_destroy(b);
}

TEST_F(CpuRuntime, BrokenCallsAreRefusedInPlainWords) {
  const tern_buffer x = buffer(128), y = buffer(127);
  const auto desc = make_desc(TERN_F32, {8, 4});
  tern_tensor_desc args[3] = {desc, absent_desc(), desc};
  const tern_axpby_attrs attrs{1.0F, 0.0F};
  tern_op_desc op{sizeof(tern_op_desc), TERN_OP_AXPBY, 0, 0, 3, sizeof attrs, args, &attrs, nullptr};
  tern_plan plan = nullptr;
  tern_plan_info info{};
  info.size = sizeof info;
  char reason[256] = "";
  EXPECT_EQ(t.supports(plugin.device, &op, {reason, sizeof reason}), TERN_OK) << reason;
  ASSERT_EQ(t.plan(plugin.device, &op, nullptr, &plan, &info), TERN_OK);
  const std::string choice = info.choice;
  EXPECT_EQ(choice, std::string("axpby@") + info_of(plugin).arch);
  tern_plan again = nullptr;
  tern_plan_options options = choosing(choice.c_str());
  ASSERT_EQ(t.plan(plugin.device, &op, &options, &again, &info), TERN_OK);
  t.plan_destroy(again);
  options.choice = "axpby@z80";
  EXPECT_EQ(t.plan(plugin.device, &op, &options, &again, &info), TERN_UNSUPPORTED);
  EXPECT_NE(plugin.last_error().find("z80"), std::string::npos);
  tern_tensor tensors[3] = {};
  for (int i = 0; i < 3; ++i) tensors[i].desc = args[i];
  tensors[0].planes[0].buffer = x;
  tensors[2].planes[0].buffer = y;
  tern_bound bound = nullptr;
  const tern_bind_args given = placed(tensors);
  EXPECT_EQ(t.bind(plan, &given, &bound), TERN_INVALID_ARGUMENT);
  EXPECT_NE(plugin.last_error().find("axpby: out"), std::string::npos) << plugin.last_error();
  tensors[2].desc.shape[0] = 7;
  EXPECT_EQ(t.bind(plan, &given, &bound), TERN_INVALID_ARGUMENT);
  t.plan_destroy(plan);

  op.accumulate = 1;  // an input
  EXPECT_EQ(t.supports(plugin.device, &op, {reason, sizeof reason}), TERN_INVALID_ARGUMENT);
  op.accumulate = 0;
  args[2].shape[0] = 7;
  EXPECT_EQ(t.supports(plugin.device, &op, {reason, sizeof reason}), TERN_UNSUPPORTED);
  args[2] = make_desc(TERN_I32, {8, 4});
  EXPECT_EQ(t.supports(plugin.device, &op, {reason, sizeof reason}), TERN_UNSUPPORTED);
  EXPECT_NE(std::string(reason).find("i32"), std::string::npos);
  args[2] = desc;
  args[2].strides[0] = INT64_MAX;
  EXPECT_EQ(t.supports(plugin.device, &op, {reason, sizeof reason}), TERN_INVALID_ARGUMENT);
  op.op = 4000;
  EXPECT_EQ(t.supports(plugin.device, &op, {reason, sizeof reason}), TERN_UNSUPPORTED);
  t.buffer_destroy(x);
  t.buffer_destroy(y);
}

// An index outside of its table must not be followed.
TEST_F(CpuRuntime, AnIndexOutsideIsAnError) {
  for (const std::int64_t id : {std::int64_t{-2}, std::int64_t{7}}) {
    const auto table = make_desc(TERN_F32, {7, 4}), ids = make_desc(TERN_I32, {1}), out = make_desc(TERN_F32, {1, 4});
    const tern_tensor_desc args[3] = {table, ids, out};
    const tern_op_desc op{sizeof(tern_op_desc), TERN_OP_EMBEDDING, 0, 0, 3, 0, args, nullptr, nullptr};
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof info;
    ASSERT_EQ(t.plan(plugin.device, &op, nullptr, &plan, &info), TERN_OK);
    tern_tensor tensors[3] = {};
    for (int i = 0; i < 3; ++i) {
      tensors[i].desc = args[i];
      tensors[i].planes[0].buffer = buffer(128);
    }
    *reinterpret_cast<std::int32_t*>(floats(tensors[1].planes[0].buffer)) = static_cast<std::int32_t>(id);
    tern_bound bound = nullptr;
    const tern_bind_args given = placed(tensors);
    ASSERT_EQ(t.bind(plan, &given, &bound), TERN_OK);
    EXPECT_EQ(t.launch(bound, nullptr, plugin.stream, nullptr), TERN_INVALID_ARGUMENT);
    EXPECT_NE(plugin.last_error().find("embedding"), std::string::npos);
    t.unbind(bound);
    t.plan_destroy(plan);
    for (auto& tensor : tensors) t.buffer_destroy(tensor.planes[0].buffer);
  }
}

// Nor sequences that the arguments have no seats for, or that are longer than was said.
TEST_F(CpuRuntime, SequencesBeyondWhatWasSaidAreAnError) {
  struct Wrong {
    std::int32_t max_seqlen;
    std::int64_t seats;
    const char* expected;
  };
  for (const auto& [longest, seats, expected] :
       {Wrong{2, 1, "expected a seat for each of 2 sequences, found 1"},
        Wrong{1, 2, "expected sequences of at most 1 rows, found 2"}, Wrong{2, 2, ""}}) {
    const auto x = make_desc(TERN_F32, {4, 2}), weight = make_desc(TERN_F32, {2, 2});
    const auto each = with_dynamic(make_desc(TERN_I32, {2}), 0, 1);
    const tern_tensor_desc args[8] = {
        x, weight, absent_desc(), make_desc(TERN_I32, {3}), each, each, make_desc(TERN_F32, {3, 1, 2}), x};
    const tern_causal_conv1d_attrs attrs{longest};
    const tern_op_desc op{sizeof(tern_op_desc), TERN_OP_CAUSAL_CONV1D, 0, 0, 8, sizeof attrs, args, &attrs, nullptr};
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof info;
    ASSERT_EQ(t.plan(plugin.device, &op, nullptr, &plan, &info), TERN_OK) << plugin.last_error();
    tern_tensor tensors[8] = {};
    for (int i = 0; i < 8; ++i) {
      tensors[i].desc = args[i];
      if (is_present(args[i])) tensors[i].planes[0].buffer = buffer(128);
    }
    const auto fill = [&](int arg, std::initializer_list<std::int32_t> values) {
      std::copy(values.begin(), values.end(), reinterpret_cast<std::int32_t*>(floats(tensors[arg].planes[0].buffer)));
    };
    fill(TERN_CAUSAL_CONV1D_CU_SEQLENS, {0, 2, 4});
    fill(TERN_CAUSAL_CONV1D_KV_LENS, {2, 2});
    fill(TERN_CAUSAL_CONV1D_SEATS, {1, 2});
    const tern_buffer workspace = buffer(std::max<std::uint64_t>(info.workspace_bytes, 64));
    tern_plane scratch{};
    scratch.buffer = workspace;
    const tern_bind_args given = placed(tensors, scratch);
    tern_bound bound = nullptr;
    ASSERT_EQ(t.bind(plan, &given, &bound), TERN_OK) << plugin.last_error();
    tern_host_args counts{};
    counts.size = sizeof counts;
    counts.counts[1] = seats;
    const tern_status status = t.launch(bound, &counts, plugin.stream, nullptr);
    EXPECT_EQ(status, *expected == '\0' ? TERN_OK : TERN_INVALID_ARGUMENT);
    if (*expected != '\0') {
      EXPECT_NE(plugin.last_error().find(expected), std::string::npos) << plugin.last_error();
    }
    t.unbind(bound);
    t.plan_destroy(plan);
    t.buffer_destroy(workspace);
    for (auto& tensor : tensors) {
      if (tensor.planes[0].buffer != nullptr) t.buffer_destroy(tensor.planes[0].buffer);
    }
  }
}

// Sums are split at fixed places: the number of threads changes no bit, and neither do the other rows.
TEST(CpuLaws, ThreadsAndOtherRowsChangeNoBit) {
  const std::int64_t rows = 150, width = 1100;
  const auto x = make_desc(TERN_F32, {rows, width}), w = make_desc(TERN_F32, {width}), r = make_desc(TERN_F32, {rows});
  Call back{TERN_OP_RMS_NORM_BACKWARD,
            {random_real(x, 1), random_real(x, 2), random_real(w, 3), random_real(r, 4), {}, blank(x), blank(w)},
            {},
            0,
            {}};
  back.set_attrs(tern_rms_norm_backward_attrs{0.0F});
  Call columns{TERN_OP_ROW_SUM, {random_real(x, 5), blank(w)}, {}, 0, {}};
  columns.set_attrs(tern_row_sum_attrs{0});
  Call squares{TERN_OP_SUM_SQUARES, {random_real(x, 6), blank(make_desc(TERN_F32, {1}))}, {}, 0, {}};
  for (const Call& call : {back, columns, squares}) {
    Call one = call, many = call;
    {
      Plugin plugin("", 1);
      run(plugin, one);
    }
    Plugin plugin("", 5);
    run(plugin, many);
    for (std::size_t i = 0; i < one.args.size(); ++i)
      EXPECT_EQ(one.args[i].bytes, many.args[i].bytes) << call.op << " " << i;
  }
  Call all{TERN_OP_RMS_NORM, {random_real(x, 7), {}, random_real(w, 8), blank(x), {}, blank(r)}, {}, 0, {}};
  all.set_attrs(tern_rms_norm_attrs{1e-5F, 0.0F});
  Call alone = all;
  const auto row = make_desc(TERN_F32, {1, width});
  alone.args[0] = {row, {all.args[0].bytes.begin() + 99 * width * 4, all.args[0].bytes.begin() + 100 * width * 4}};
  alone.args[3] = blank(row);
  alone.args[5] = blank(make_desc(TERN_F32, {1}));
  Plugin plugin("", 3);
  run(plugin, all);
  run(plugin, alone);
  EXPECT_EQ(std::memcmp(alone.args[3].bytes.data(), all.args[3].bytes.data() + 99 * width * 4,
                        static_cast<std::size_t>(width) * 4),
            0);
}

// NaN and infinity go where the formula takes them.
TEST(CpuLaws, NonFiniteInputsAreNotHidden) {
  const auto desc = make_desc(TERN_F32, {3});
  for (int kind = TERN_ACT_SILU; kind <= TERN_ACT_SIGMOID; ++kind) {
    for (const char* target : kTargets) {
      Plugin plugin(target, 1);
      if (plugin.device == nullptr) continue;
      Call call{TERN_OP_ACT_MUL, {blank(desc), random_real(desc, 1), blank(desc)}, {}, 0, {}};
      call.set_attrs(tern_act_mul_attrs{kind});
      const float gate[3] = {NAN, 1.0F, INFINITY}, up[3] = {1.0F, NAN, 1.0F};
      std::memcpy(call.args[0].bytes.data(), gate, 12);
      std::memcpy(call.args[1].bytes.data(), up, 12);
      run(plugin, call);
      float y[3];
      std::memcpy(y, call.args[2].bytes.data(), 12);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1])) << kind << " " << target;
      EXPECT_EQ(y[2], kind == TERN_ACT_SIGMOID ? 1.0F : INFINITY) << kind << " " << target;
    }
  }
}

TEST(CpuLaws, NonFiniteInputsOfAnActivationAreNotHidden) {
  const auto desc = make_desc(TERN_F32, {6});
  for (int kind = TERN_ACT_SILU; kind <= TERN_ACT_EXP; ++kind) {
    for (const char* target : kTargets) {
      SCOPED_TRACE(std::to_string(kind) + " " + target);
      Plugin plugin(target, 1);
      if (plugin.device == nullptr) continue;
      Call call{TERN_OP_ACT, {blank(desc), blank(desc)}, {}, 0, {}};
      call.set_attrs(tern_act_attrs{kind});
      const float x[6] = {NAN, INFINITY, 88.5F, 89.0F, -104.5F, -INFINITY};
      std::memcpy(call.args[0].bytes.data(), x, sizeof x);
      run(plugin, call);
      float y[6];
      std::memcpy(y, call.args[1].bytes.data(), sizeof y);
      EXPECT_TRUE(std::isnan(y[0]));
      EXPECT_EQ(y[1], kind == TERN_ACT_SIGMOID ? 1.0F : INFINITY);
      if (kind == TERN_ACT_EXP) {
        EXPECT_NEAR(y[2] / 2.7e38F, std::exp(88.5) / 2.7e38, 1e-6);
        EXPECT_EQ(y[3], INFINITY);
        EXPECT_EQ(y[5], 0.0F);
      }
      if (kind == TERN_ACT_SOFTPLUS) {
        EXPECT_EQ(y[3], 89.0F);
        EXPECT_NEAR(y[4], std::exp(-104.5), 1e-38);
        EXPECT_EQ(y[5], 0.0F);
      }
    }
  }
}

TEST_F(CpuRuntime, AHandleTakesNoMoreThanItsLimit) {
  const tern_option option{"memory_limit", "1048576"};
  tern_open_args args = kFirstDevice;
  args.options = &option;
  args.num_options = 1;
  tern_device device = nullptr;
  ASSERT_EQ(t.device_open(&args, &device), TERN_OK) << plugin.last_error();
  tern_buffer made = nullptr;
  tern_buffer more = nullptr;
  ASSERT_EQ(t.buffer_create(device, 1 << 19, TERN_BUFFER_RECLAIMABLE, &made), TERN_OK);
  EXPECT_EQ(t.buffer_create(device, 1 << 20, 0, &more), TERN_OUT_OF_MEMORY);
  tern_memory_info memory{};
  memory.size = sizeof memory;
  EXPECT_EQ(t.memory_info(device, &memory), TERN_OK);
  EXPECT_EQ(memory.total, 1U << 20);
  EXPECT_EQ(memory.free, 1U << 19);
  EXPECT_EQ(t.buffer_evict(made), TERN_OK);
  EXPECT_EQ(t.buffer_create(device, 1 << 20, 0, &more), TERN_OK);
  EXPECT_EQ(t.buffer_restore(made), TERN_OUT_OF_MEMORY);
  EXPECT_EQ(t.buffer_destroy(more), TERN_OK);
  EXPECT_EQ(t.buffer_restore(made), TERN_OK);
  EXPECT_EQ(t.buffer_destroy(made), TERN_OK);
  EXPECT_EQ(t.device_close(device), TERN_OK);
}

TEST_F(CpuRuntime, AnEvictedBufferIsNotTouched) {
  tern_buffer made = nullptr;
  ASSERT_EQ(t.buffer_create(plugin.device, 8192, TERN_BUFFER_RECLAIMABLE, &made), TERN_OK);
  EXPECT_EQ(t.fill({made, 0}, 1, 8192, plugin.stream), TERN_OK);
  ASSERT_EQ(t.buffer_evict(made), TERN_OK);
  EXPECT_EQ(t.fill({made, 0}, 1, 1, plugin.stream), TERN_INVALID_ARGUMENT);
  EXPECT_NE(plugin.last_error().find("evicted"), std::string::npos);
  EXPECT_DEATH(*const_cast<volatile float*>(floats(made)) = 1.0F, "") << "a host that kept the address";
  ASSERT_EQ(t.buffer_restore(made), TERN_OK);
  EXPECT_EQ(floats(made)[0], 0.0F);
  EXPECT_EQ(t.buffer_destroy(made), TERN_OK);
}

TEST_F(CpuRuntime, EveryInstructionSetCanBeDescribedHere) {
  int described = 0;
  for (const char* const* profile = t.profiles; *profile != nullptr; ++profile, ++described) {
    tern_device_info info{};
    info.size = sizeof info;
    ASSERT_EQ(t.device_describe(*profile, &info), TERN_OK) << plugin.last_error();
    EXPECT_STREQ(info.arch, *profile);
    EXPECT_EQ(info.described, 1U);
    tern_open_args args = kFirstDevice;
    args.ordinal = -1;
    args.profile = *profile;
    tern_device device = nullptr;
    ASSERT_EQ(t.device_open(&args, &device), TERN_OK) << plugin.last_error();
    const tern_tensor_desc desc = make_desc(TERN_F32, {64, 64});
    const tern_tensor_desc descs[] = {desc, desc, absent_desc(), desc};
    const tern_matmul_attrs attrs{};
    const tern_op_desc op{sizeof(tern_op_desc), TERN_OP_MATMUL, 0, 0, 4, sizeof attrs, descs, &attrs, nullptr};
    tern_plan plan = nullptr;
    tern_plan_info planned{};
    planned.size = sizeof planned;
    ASSERT_EQ(t.plan(device, &op, nullptr, &plan, &planned), TERN_OK) << plugin.last_error();
    const std::string choice = planned.choice;
    EXPECT_EQ(choice.substr(choice.find('@') + 1), *profile);
    tern_tensor tensors[4] = {};
    const tern_bind_args given = placed(tensors);
    tern_bound bound = nullptr;
    EXPECT_EQ(t.bind(plan, &given, &bound), TERN_UNSUPPORTED);
    EXPECT_EQ(t.plan_destroy(plan), TERN_OK);
    EXPECT_EQ(t.device_close(device), TERN_OK);
  }
  EXPECT_GE(described, 2);
}

}  // namespace
}  // namespace tern::test
