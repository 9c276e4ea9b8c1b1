// attention_paged: keys and values in the blocks of a cache.
#include <algorithm>
#include <array>

#include "backends/cpu/attention_forward.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr ForwardPlaces kPlaces = {
    TERN_ATTENTION_PAGED_SINKS, TERN_ATTENTION_PAGED_MASK, TERN_ATTENTION_PAGED_OUT, TERN_ATTENTION_PAGED_LSE, 4, true};
static_assert(TERN_ATTENTION_PAGED_Q == 0 && TERN_ATTENTION_PAGED_K_CACHE == 1 && TERN_ATTENTION_PAGED_V_CACHE == 2);

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &k = desc.arg(TERN_ATTENTION_PAGED_K_CACHE), &v = desc.arg(TERN_ATTENTION_PAGED_V_CACHE);
  Check check(desc, reason);
  const bool has_codes = panel_dtype(k.dtype) != k.dtype;
  check.that((panel_dtype(v.dtype) != v.dtype) == has_codes, "k_cache and v_cache are both of 8 bits, or neither");
  for (const int scale : {TERN_ATTENTION_PAGED_K_SCALE, TERN_ATTENTION_PAGED_V_SCALE}) {
    check.that(desc.present(scale) == has_codes, "scales come with caches of 8 bits");
    check.dtype(scale, TERN_F32).rank(scale, 3);
    for (int d = 0; d < 3; ++d) check.dim(scale, d, k.shape[d]);
  }
  return check.ok() && forward_supports(desc, kPlaces, reason);
}

void run(const KernelArgs& args) {
  const TensorView& k = args[TERN_ATTENTION_PAGED_K_CACHE];
  const TensorView& v = args[TERN_ATTENTION_PAGED_V_CACHE];
  const TensorView& table = args[TERN_ATTENTION_PAGED_BLOCK_TABLE];
  auto f = make_forward<tern_attention_paged_attrs>(args, kPlaces);
  const auto cu_q = read_lengths(args, 0, TERN_ATTENTION_PAGED_CU_SEQLENS_Q);
  const auto kv_lens = read_lengths(args, 1, TERN_ATTENTION_PAGED_KV_LENS);
  check_cumulated(cu_q, args[TERN_ATTENTION_PAGED_Q].dim(0), "cu_seqlens_q");
  for (std::size_t s = 0; s + 1 < cu_q.size() && s < kv_lens.size(); ++s) {
    const Sequence sequence{cu_q[s], cu_q[s + 1] - cu_q[s], 0, kv_lens[s]};
    f.sequences.push_back(sequence);
    if (sequence.len_q > 0) {
      const std::int64_t first_seen = sequence.len_k > 0 ? f.geometry.visible(sequence, 0).lo : 0;
      check_pages(k, table, static_cast<std::int64_t>(s), {first_seen, kv_lens[s]});
    }
    f.keys.push_back(paged_rows(k, table, static_cast<std::int64_t>(s)));
    f.values.push_back(paged_rows(v, table, static_cast<std::int64_t>(s)));
    add_scales(args[TERN_ATTENTION_PAGED_K_SCALE], f.rows, f.keys.back());
    add_scales(args[TERN_ATTENTION_PAGED_V_SCALE], f.rows, f.values.back());
  }
  check_keys(f.sequences, f.geometry.has_borders(), table.dim(1) * k.dim(1), args[TERN_ATTENTION_PAGED_MASK],
             "kv_lens");
  run_forward(f, cu_q, *args.pool);
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_ATTENTION_PAGED, "flash", supports, forward_workspace, nullptr, run},
};

}  // namespace

KernelList attention_paged_kernels() { return kKernels; }

}  // namespace tern::cpu
