// Descs of ops that the tests break, one part at a time.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "ops/tensor_desc.h"
#include "tern/plugin.h"

namespace tern::test {

// axpby of [4, 6] in f32, y absent; arguments and attributes are followed by room for those of a later version.
struct AxpbyDesc {
  std::array<tern_tensor_desc, TERN_AXPBY_NUM_ARGS + 1> args{make_desc(TERN_F32, {4, 6}), absent_desc(),
                                                             make_desc(TERN_F32, {4, 6}), absent_desc()};
  std::array<float, 4> attrs{2.0F, 1.0F, 0.0F, 0.0F};
  std::array<std::int8_t, TERN_AXPBY_NUM_ARGS + 1> alias{-1, -1, -1, -1};
  tern_op_desc desc{sizeof(tern_op_desc), TERN_OP_AXPBY, 0, 0, 3, sizeof(tern_axpby_attrs), args.data(),
                    attrs.data(),         alias.data(),  {}};

  AxpbyDesc() = default;
  AxpbyDesc(const AxpbyDesc&) = delete;
  AxpbyDesc& operator=(const AxpbyDesc&) = delete;
  tern_tensor_desc& x() { return args[TERN_AXPBY_X]; }
  tern_tensor_desc& out() { return args[TERN_AXPBY_OUT]; }
};

// attention of up to two sequences, their number dynamic in slot 1: both arrays of lengths have three entries.
struct AttentionDesc {
  std::array<tern_tensor_desc, TERN_ATTENTION_NUM_ARGS> args;
  tern_attention_attrs attrs{1.0F, 0.0F, 1, 0, 4, 4, 0, 0};
  tern_op_desc desc{};

  AttentionDesc() {
    args.fill(absent_desc());
    for (const int i : {TERN_ATTENTION_Q, TERN_ATTENTION_K, TERN_ATTENTION_V, TERN_ATTENTION_OUT}) {
      args[static_cast<std::size_t>(i)] = make_desc(TERN_F32, {8, 2, 4});
    }
    for (const int i : {TERN_ATTENTION_CU_SEQLENS_Q, TERN_ATTENTION_CU_SEQLENS_K}) {
      args[static_cast<std::size_t>(i)] = with_dynamic(make_desc(TERN_I32, {3}), 0, 1);
    }
    desc = {sizeof desc,  TERN_OP_ATTENTION, 0,      0,       TERN_ATTENTION_NUM_ARGS,
            sizeof attrs, args.data(),       &attrs, nullptr, {}};
  }
  AttentionDesc(const AttentionDesc&) = delete;
  AttentionDesc& operator=(const AttentionDesc&) = delete;
};

}  // namespace tern::test
