// Each op on the plugin beside the fp64 oracle, and the laws that the oracle cannot show: threads, rows, repetition.
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/philox.h"
#include "plugin.h"
#include "tests/unit/backend_cpu/op_harness.h"

namespace tern::test {
namespace {

constexpr tern_dtype kFloats[] = {TERN_F32, TERN_BF16, TERN_F16};

template <typename Fn>
void each_float_pair(Fn&& fn) {
  for (const auto in : kFloats) {
    for (const auto out : kFloats) fn(in, out);
  }
}

std::string name(tern_dtype in, tern_dtype out) { return "in " + std::to_string(in) + " out " + std::to_string(out); }

// An output that holds something finite before an accumulating call.
Arg held(const TensorDesc& desc) { return random_real(desc, 99); }

TEST(CpuOps, ElementwiseOfAllFloatDtypes) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (const std::uint32_t accumulate : {0U, 4U}) {
      for (const std::int64_t n : {1, 37, 3000}) {
        const auto x = make_desc(in, {3, n}), y = make_desc(out, {3, n});
        Call call{TERN_OP_AXPBY, {random_real(x, 1), random_real(y, 2), held(y)}, {}, accumulate, {}};
        call.set_attrs(tern_axpby_attrs{1.5F, -0.75F});
        check(call, "axpby " + name(in, out));
        call.args[1] = Arg{};
        check(call, "axpby without y " + name(in, out));
        // y broadcast along rows, x as every second column
        auto row = make_desc(out, {3, n});
        row.strides[0] = 0;
        check({TERN_OP_MUL,
               {random_real(strided(in, {3, n}, {2 * n + 1, 2}), 3), random_real(row, 4), held(y)},
               {},
               accumulate,
               {}},
              "mul " + name(in, out));
        check(
            {TERN_OP_SCALE, {random_real(x, 5), random_real(make_desc(TERN_F32, {1}), 6), held(y)}, {}, accumulate, {}},
            "scale " + name(in, out));
      }
    }
  });
}

TEST(CpuOps, BroadcastAlongTheInnerDimensionAndTransposed) {
  auto column = make_desc(TERN_F32, {40, 50});
  column.strides[0] = 1;
  column.strides[1] = 0;
  check({TERN_OP_MUL,
         {random_real(strided(TERN_BF16, {40, 50}, {1, 40}), 1), random_real(column, 2),
          blank(make_desc(TERN_F32, {40, 50}))},
         {},
         0,
         {}},
        "mul");
  check({TERN_OP_CAST_COPY,
         {random_real(strided(TERN_F32, {2, 3, 5, 7}, {105, 1, 21, 3}), 3),
          blank(strided(TERN_F16, {2, 3, 5, 7}, {240, 80, 8, 1}))},
         {},
         0,
         {}},
        "cast_copy");
}

TEST(CpuOps, CastCopyBetweenAllDtypes) {
  for (int in = 0; in < TERN_DTYPE_COUNT; ++in) {
    for (int out = 0; out < TERN_DTYPE_COUNT; ++out) {
      const auto x = make_desc(in, {5, 31}), y = make_desc(out, {5, 31});
      const bool real = in <= TERN_F64 || in >= TERN_F8_E4M3;
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < 155; ++i) {
        const auto bits = static_cast<std::int64_t>(mix_key(7, static_cast<std::uint64_t>(i)));
        values.push_back(in == TERN_BOOL  ? bits & 1
                         : in == TERN_U8  ? bits & 255
                         : in == TERN_U16 ? bits & 65535
                         : in == TERN_U32 ? bits & 0xffffffff
                         : in == TERN_I8  ? static_cast<std::int8_t>(bits)
                         : in == TERN_I16 ? static_cast<std::int16_t>(bits)
                         : in == TERN_I32 ? static_cast<std::int32_t>(bits)
                                          : bits);
      }
      for (const double scale : {1.0, 300.0, 1e6}) {
        check({TERN_OP_CAST_COPY, {real ? random_real(x, 8, scale) : integers(x, values), blank(y)}, {}, 0, {}},
              name(in, out));
      }
    }
  }
}

TEST(CpuOps, Reductions) {
  for (const auto in : kFloats) {
    for (const std::uint32_t accumulate : {0U, 2U}) {
      for (const auto& [rows, width] : {std::pair{1, 1}, {300, 700}, {5, 3001}, {0, 4}}) {
        const auto x = strided(in, {rows, width}, {width + 3, 1});
        for (const int axis : {0, 1}) {
          Call call{TERN_OP_ROW_SUM,
                    {random_real(x, 1), held(make_desc(TERN_F32, {axis == 0 ? width : rows}))},
                    {},
                    accumulate,
                    {}};
          call.set_attrs(tern_row_sum_attrs{axis});
          check(call, "row_sum");
        }
        check({TERN_OP_SUM_SQUARES, {random_real(x, 2), held(make_desc(TERN_F32, {1}))}, {}, accumulate, {}},
              "sum_squares");
        for (const int before : {0, 1}) {
          check({TERN_OP_ALL_FINITE,
                 {random_real(x, 3), integers(make_desc(TERN_I32, {1}), {before})},
                 {},
                 accumulate,
                 {}},
                "all_finite");
        }
      }
    }
  }
}

TEST(CpuOps, AllFiniteFindsOneBadElementAnywhere) {
  for (const auto dtype : kFloats) {
    for (const int at : {0, 1, 15, 16, 40, 96}) {
      Arg x = random_real(make_desc(dtype, {97}), 5);
      const int size = dtype == TERN_F32 ? 4 : 2;
      const std::uint32_t inf = dtype == TERN_F32 ? 0x7f800000 : dtype == TERN_BF16 ? 0x7f80 : 0x7c00;
      std::memcpy(x.bytes.data() + at * size, &inf, static_cast<std::size_t>(size));
      check({TERN_OP_ALL_FINITE, {x, integers(make_desc(TERN_I32, {1}), {1})}, {}, 0, {}}, "all_finite");
    }
  }
}

TEST(CpuOps, Dropout) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (const std::uint32_t accumulate : {0U, 8U}) {
      for (const std::int64_t width : {1, 6, 1030, 2100}) {
        const auto y = make_desc(out, {3, width});
        Call call{TERN_OP_DROPOUT,
                  {random_real(make_desc(in, {3, width}), 1),
                   integers(make_desc(TERN_I64, {3}), {1, -7, 1LL << 40}),
                   {},
                   held(y)},
                  {},
                  accumulate,
                  {}};
        call.set_attrs(tern_dropout_attrs{0.3F, 5});
        check(call, name(in, out));
        std::vector<std::int64_t> mask;
        for (std::int64_t i = 0; i < 3 * width; ++i) mask.push_back(i % 3 == 0);
        call.args[2] = integers(make_desc(TERN_U8, {3, width}), mask);
        check(call, "mask " + name(in, out));
      }
    }
  });
}

TEST(CpuOps, RowsMoved) {
  const std::vector<std::int64_t> index = {3, -1, 0, 3, 6};
  each_float_pair([&](tern_dtype in, tern_dtype out) {
    const auto ids = integers(make_desc(TERN_I32, {5}), index);
    for (const std::int64_t width : {1, 33, 1500}) {
      check({TERN_OP_GATHER_ROWS,
             {random_real(make_desc(in, {7, width}), 1), ids, blank(strided(in, {5, width}, {width + 2, 1}))},
             {},
             0,
             {}},
            "gather");
      for (const std::uint32_t accumulate : {0U, 4U}) {
        check({TERN_OP_SCATTER_ADD_ROWS,
               {random_real(strided(in, {5, width}, {width + 1, 1}), 2), ids, held(make_desc(out, {7, width}))},
               {},
               accumulate,
               {}},
              "scatter");
      }
      check({TERN_OP_EMBEDDING,
             {random_real(make_desc(in, {7, width}), 3), integers(make_desc(TERN_I32, {3}), {6, 0, 6}),
              blank(make_desc(out, {3, width}))},
             {},
             0,
             {}},
            "embedding");
    }
    check({TERN_OP_KV_WRITE,
           {random_real(make_desc(in, {4, 2, 24}), 4),
            random_real(make_desc(in, {4, 2, 8}), 5),
            integers(make_desc(TERN_I32, {4}), {5, 3, 11, 3}),
            held(strided(out, {3, 4, 2, 24}, {512, 96, 40, 1})),
            held(make_desc(out, {3, 4, 2, 8})),
            {},
            {}},
           {},
           0,
           {}},
          "kv_write");
  });
  check({TERN_OP_KV_WRITE,
         {integers(make_desc(TERN_I32, {2, 1, 1}), {INT32_MIN, 16777217}),
          {},
          integers(make_desc(TERN_I32, {2}), {5, 3}),
          integers(make_desc(TERN_I32, {2, 4, 1, 1}), {9, 9, 9, 9, 1, 2, 3, 4}),
          {},
          {},
          {}},
         {},
         0,
         {}},
        "kv_write i32");
  check({TERN_OP_GATHER_ROWS,
         {integers(make_desc(TERN_I16, {3, 2, 2}), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
          integers(make_desc(TERN_I32, {2}), {2, -1}), blank(make_desc(TERN_I16, {2, 2, 2}))},
         {},
         0,
         {}},
        "gather i16");
}

TEST(CpuOps, QuantisedWeights) {
  for (const auto packing : kBlockPackings) {
    for (const std::int64_t blocks : {1, 3, 65}) {
      const std::int64_t width = blocks * packing_block(packing).elements;
      const auto w = make_quantised_desc(TERN_F32, gguf_scheme(packing), 5, width);
      for (const auto out : kFloats) {
        check({TERN_OP_DEQUANTIZE, {random_real(w, 1), blank(make_desc(out, {5, width}))}, {}, 0, {}}, "dequantize");
        check({TERN_OP_EMBEDDING,
               {random_real(w, 2), integers(make_desc(TERN_I32, {2}), {4, 1}), blank(make_desc(out, {2, width}))},
               {},
               0,
               {}},
              "embedding");
      }
    }
  }
}

TEST(CpuOps, RmsNormAndItsGradient) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {70, 576}, {3, 2500}, {0, 8}}) {
      const auto x = strided(in, {rows, width}, {width + 5, 1}), y = make_desc(out, {rows, width});
      const auto rstd = make_desc(TERN_F32, {rows});
      Call call{TERN_OP_RMS_NORM,
                {random_real(x, 1), {}, random_real(make_desc(in, {width}), 2), blank(y), {}, blank(rstd)},
                {},
                0,
                {}};
      call.set_attrs(tern_rms_norm_attrs{1e-5F, 1.0F});
      check(call, name(in, out));
      call.args[1] = random_real(make_desc(out, {rows, width}), 3);
      call.args[4] = blank(strided(out, {rows, width}, {width + 1, 1}));
      call.args[5] = Arg{};
      check(call, "residual " + name(in, out));
      for (const std::uint32_t accumulate : {0U, 64U}) {
        Call back{TERN_OP_RMS_NORM_BACKWARD,
                  {random_real(y, 4),
                   random_real(x, 5),
                   random_real(make_desc(out, {width}), 6),
                   random_real(rstd, 7),
                   {},
                   blank(x),
                   held(make_desc(TERN_F32, {width}))},
                  {},
                  accumulate,
                  {}};
        back.set_attrs(tern_rms_norm_backward_attrs{0.5F});
        check(back, "backward " + name(in, out));
        back.args[4] = random_real(x, 8);
        if (accumulate == 0) back.args[6] = Arg{};
        check(back, "backward with dsum " + name(in, out));
      }
    }
  });
}

TEST(CpuOps, LayerNormAndItsGradient) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {70, 576}, {3, 2500}, {0, 8}}) {
      const auto x = strided(in, {rows, width}, {width + 5, 1}), y = make_desc(out, {rows, width});
      const auto stats = make_desc(TERN_F32, {rows}), of_width = make_desc(TERN_F32, {width});
      Call call{TERN_OP_LAYER_NORM,
                {random_real(x, 1),
                 {},
                 random_real(make_desc(in, {width}), 2),
                 random_real(make_desc(out, {width}), 9),
                 blank(y),
                 {},
                 blank(stats),
                 blank(stats)},
                {},
                0,
                {}};
      call.set_attrs(tern_layer_norm_attrs{1e-5F});
      check(call, name(in, out));
      call.args[1] = random_real(make_desc(out, {rows, width}), 3);
      call.args[3] = Arg{};
      call.args[5] = blank(strided(out, {rows, width}, {width + 1, 1}));
      call.args[6] = call.args[7] = Arg{};
      check(call, "residual " + name(in, out));
      for (const std::uint32_t accumulate : {0U, 128U, 256U, 384U}) {
        Call back{TERN_OP_LAYER_NORM_BACKWARD,
                  {random_real(y, 4),
                   random_real(x, 5),
                   random_real(make_desc(out, {width}), 6),
                   random_real(stats, 10),
                   random_real(stats, 7),
                   {},
                   blank(x),
                   held(of_width),
                   held(of_width)},
                  {},
                  accumulate,
                  {}};
        check(back, "backward " + name(in, out));
        back.args[5] = random_real(x, 8);
        if ((accumulate & 128U) == 0) back.args[7] = Arg{};
        check(back, "backward with dsum " + name(in, out));
        if ((accumulate & 256U) == 0) back.args[8] = Arg{};
        check(back, "backward without dbias " + name(in, out));
      }
    }
  });
}

TEST(CpuOps, RopeAndNormedRope) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (const int interleaved : {0, 1}) {
      for (const std::int64_t rotary : {64, 20, 6}) {
        const auto x = strided(in, {40, 3, 64}, {400, 70, 1}), y = make_desc(out, {40, 3, 64});
        std::vector<std::int64_t> positions;
        for (std::int64_t i = 0; i < 40; ++i) positions.push_back(i * 7 % 11);
        const auto at = integers(make_desc(TERN_I32, {40}), positions);
        const auto cos = random_real(make_desc(TERN_F32, {11, rotary / 2}), 2),
                   sin = random_real(make_desc(TERN_F32, {11, rotary / 2}), 3);
        for (const std::uint32_t accumulate : {0U, 16U}) {
          Call call{TERN_OP_ROPE, {random_real(x, 1), at, cos, sin, held(y)}, {}, accumulate, {}};
          for (const int inverse : {0, 1}) {
            call.set_attrs(tern_rope_attrs{interleaved, inverse});
            check(call, name(in, out));
          }
        }
        const auto weight = random_real(make_desc(in, {64}), 4);
        Call norm{TERN_OP_QK_NORM_ROPE,
                  {random_real(x, 5), weight, at, cos, sin, blank(y), blank(make_desc(TERN_F32, {40, 3}))},
                  {},
                  0,
                  {}};
        norm.set_attrs(tern_qk_norm_rope_attrs{1e-6F, 0.0F, interleaved});
        check(norm, "norm " + name(in, out));
        Call back{TERN_OP_QK_NORM_ROPE_BACKWARD,
                  {random_real(y, 6), random_real(x, 7), weight, random_real(make_desc(TERN_F32, {40, 3}), 8), at, cos,
                   sin, blank(x), held(make_desc(TERN_F32, {64}))},
                  {},
                  256U,
                  {}};
        back.set_attrs(tern_qk_norm_rope_backward_attrs{1.0F, interleaved});
        check(back, "norm backward " + name(in, out));
      }
    }
  });
}

TEST(CpuOps, Activations) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (int kind = TERN_ACT_SILU; kind <= TERN_ACT_SIGMOID; ++kind) {
      for (const double scale : {1.0, 12.0, 3e4}) {
        const auto x = make_desc(in, {3, 700}), y = make_desc(out, {3, 700});
        Call call{TERN_OP_ACT_MUL, {random_real(x, 1, scale), random_real(x, 2), blank(y)}, {}, 0, {}};
        call.set_attrs(tern_act_mul_attrs{kind});
        check(call, "kind " + std::to_string(kind) + " " + name(in, out));
        Call back{TERN_OP_ACT_MUL_BACKWARD,
                  {random_real(y, 3), random_real(x, 4, scale), random_real(x, 5), blank(y), blank(x)},
                  {},
                  0,
                  {}};
        back.set_attrs(tern_act_mul_backward_attrs{kind});
        check(back, "backward of kind " + std::to_string(kind) + " " + name(in, out));
      }
    }
  });
}

TEST(CpuOps, ActivationsAlone) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (int kind = TERN_ACT_SILU; kind <= TERN_ACT_EXP; ++kind) {
      for (const double scale : {1e-6, 1.0, 12.0, 80.0, 3e4}) {
        const auto x = make_desc(in, {3, 700}), y = make_desc(out, {3, 700});
        Call call{TERN_OP_ACT, {random_real(x, 1, scale), blank(y)}, {}, 0, {}};
        call.set_attrs(tern_act_attrs{kind});
        check(call, "kind " + std::to_string(kind) + " of " + std::to_string(scale) + " " + name(in, out));
        Call back{TERN_OP_ACT_BACKWARD, {random_real(y, 3), random_real(x, 4, scale), blank(x)}, {}, 0, {}};
        back.set_attrs(tern_act_backward_attrs{kind});
        check(back, "backward of kind " + std::to_string(kind) + " of " + std::to_string(scale) + " " + name(in, out));
      }
    }
  });
}

TEST(CpuOps, Softcap) {
  each_float_pair([](tern_dtype in, tern_dtype out) {
    for (const double scale : {1e-4, 1.0, 12.0, 3e4}) {
      for (const std::int64_t n : {1, 37, 3000}) {
        const auto x = strided(in, {3, n}, {2 * n + 1, 2});
        Call call{TERN_OP_SOFTCAP, {random_real(x, 1, scale), blank(make_desc(out, {3, n}))}, {}, 0, {}};
        for (const float cap : {0.25F, 15.0F, 50.0F}) {
          call.set_attrs(tern_softcap_attrs{cap});
          check(call, "cap " + std::to_string(cap) + " of " + std::to_string(scale) + " " + name(in, out));
        }
      }
    }
  });
}

TEST(CpuOps, Adamw) {
  for (const auto dtype : kFloats) {
    const auto p = strided(TERN_F32, {7, 301}, {310, 1});
    Arg v = random_real(p, 3);
    for (std::size_t i = 3; i < v.bytes.size(); i += 4) v.bytes[i] &= std::byte{0x7f};  // a mean square is not negative
    const auto hyper =
        integers(make_desc(TERN_I32, {10}), {0x3c23d70a, 0x3f666666, 0x3f7fbe77, 0x3dcccccd, 0x3a83126f, 0x322bcc77,
                                             0x3dcccccd, 0x3e428f5c, 0x3b03126f, 0x3f000000});
    Arg h = blank(make_desc(TERN_F32, {10}));
    h.bytes = hyper.bytes;
    check({TERN_OP_ADAMW,
           {random_real(p, 1), random_real(p, 2), v, random_real(make_desc(dtype, {7, 301}), 4), h,
            blank(make_desc(dtype, {7, 301}))},
           {},
           0,
           {}},
          "adamw");
  }
}

// Nothing is spent on what nobody reads: the tail keeps what it held.
TEST(CpuOps, DynamicCountsLeaveTheTailAlone) {
  const auto x = with_dynamic(make_desc(TERN_BF16, {64, 100}), 0, 1);
  for (const std::int64_t count : {0, 1, 63, 64}) {
    Call call{TERN_OP_AXPBY, {random_real(x, 1), {}, blank(x)}, {}, 0, {0, count}};
    call.set_attrs(tern_axpby_attrs{2.0F, 0.0F});
    check(call, "count " + std::to_string(count));
    Call raw = call;
    Plugin plugin("baseline", 2);
    run(plugin, raw);
    const auto all =
        ops::ref::decode(make_desc(TERN_BF16, {64, 100}), std::vector<std::span<const std::byte>>{raw.args[2].bytes});
    for (std::size_t i = 0; i < all.real.size(); ++i) {
      ASSERT_EQ(std::isnan(all.real[i]), i >= static_cast<std::size_t>(count) * 100) << i;
    }
  }
}

}  // namespace
}  // namespace tern::test
