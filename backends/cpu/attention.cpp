// attention: keys and values of sequences end to end.
#include <array>

#include "backends/cpu/attention_forward.h"
#include "backends/cpu/kernels.h"

namespace tern::cpu {
namespace {

constexpr ForwardPlaces kPlaces = {TERN_ATTENTION_SINKS, TERN_ATTENTION_MASK, TERN_ATTENTION_OUT, TERN_ATTENTION_LSE,
                                   3};
static_assert(TERN_ATTENTION_Q == 0 && TERN_ATTENTION_K == 1 && TERN_ATTENTION_V == 2);

bool supports(const PlanDesc& desc, std::string& reason) { return forward_supports(desc, kPlaces, reason); }

void run(const KernelArgs& args) {
  const TensorView& k = args[TERN_ATTENTION_K];
  const TensorView& v = args[TERN_ATTENTION_V];
  auto f = make_forward<tern_attention_attrs>(args, kPlaces);
  const auto cu_q = read_lengths(args, 0, TERN_ATTENTION_CU_SEQLENS_Q);
  const auto cu_k = read_lengths(args, 1, TERN_ATTENTION_CU_SEQLENS_K);
  check_cumulated(cu_q, args[TERN_ATTENTION_Q].dim(0), "cu_seqlens_q");
  check_cumulated(cu_k, k.dim(0), "cu_seqlens_k");
  f.sequences = packed_sequences(cu_q, cu_k);
  check_keys(f.sequences, f.geometry.has_borders(), k.dim(0), args[TERN_ATTENTION_MASK], "cu_seqlens_k");
  for (const Sequence& s : f.sequences) {
    f.keys.push_back(head_rows(k, s.k0));
    f.values.push_back(head_rows(v, s.k0));
  }
  run_forward(f, cu_q, *args.pool);
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_ATTENTION, "flash", supports, forward_workspace, nullptr, run},
};

}  // namespace

KernelList attention_kernels() { return kKernels; }

}  // namespace tern::cpu
