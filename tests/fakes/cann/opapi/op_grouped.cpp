// GroupedMatmul: many products of one call.
#include "arguments.h"
#include "backends/npu/cann/ops_transformer.h"
#include "numerics_matmul.h"

namespace fake {
namespace {

struct Grouped {
  const aclTensorList *x, *weight, *bias;
  const aclTensor* groups;
  std::int64_t split_item, group_type, list_type, act_type;
  const aclTensorList* out;
};

// Starts of groups from the list on the device: 0 cumulative, 1 counts, 2 pairs [group, count].
std::vector<std::int64_t> starts_of(const Run& run, const Tensor& list, std::int64_t list_type, std::int64_t number,
                                    std::int64_t rows) {
  const std::vector<std::int64_t> values = numerics::load_integers(run.view(list));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(number));
  std::int64_t last = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (list_type == 2) {
      if (i % 2 == 1) counts[static_cast<std::size_t>(values[i - 1] % number)] = values[i];
      continue;
    }
    counts[i] = list_type == 0 ? values[i] - last : values[i];
    last = values[i];
  }
  std::vector<std::int64_t> starts = {0};
  for (const std::int64_t count : counts) starts.push_back(starts.back() + count);
  if (*std::min_element(counts.begin(), counts.end()) < 0 || starts.back() > rows) {
    refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "groupList doesn't rise, or ends past the rows of x.");
  }
  return starts;
}

// "GroupedMatmulV4 A2 A3 310P A5".
void grouped_matmul(Op& op, const Grouped& given) {
  op.generated();
  op.chips(not_910);
  const bool small = op.on(Family::k310P);
  const Dtypes taken = small ? Dtypes{ACL_FLOAT16} : floats;  // "310P (source): FP16, single x/weight/y, groupType 0"
  const std::vector<Tensor> x = op.list("x", given.x, taken), weight = op.list("weight", given.weight, taken);
  std::vector<Tensor> bias = op.list("bias", given.bias, true);
  std::erase_if(bias, [](const Tensor& tensor) { return !tensor.given() || tensor.count() == 0; });
  const std::vector<Tensor> y = op.out_list("out", given.out, taken);
  const Tensor list = op.in("groupList", given.groups, int64);  // "groupList device INT64"
  op.need(x.size() == 1 && weight.size() == 1 && y.size() == 1 && bias.size() <= 1,
          "The fake takes one tensor of x, weight and out.");
  op.need(given.split_item == 2 || given.split_item == 3, "splitItem should be 2 or 3 for one tensor.");
  op.need(given.act_type == 0, "The fake takes no activation.");
  op.need(given.group_type == 0 || (given.group_type == 2 && !small), "groupType should be 0 or 2.");
  op.need(given.list_type >= 0 && given.list_type <= 2, "groupListType should be 0, 1 or 2.");
  op.same_dtype(x[0], weight[0]);
  const bool rows_split = given.group_type == 0;
  op.rank(x[0], 2, 2);
  op.rank(weight[0], rows_split ? 3 : 2, rows_split ? 3 : 2);
  op.rank(y[0], rows_split ? 2 : 3, rows_split ? 2 : 3);
  const std::int64_t number = rows_split ? weight[0].dim(0) : y[0].dim(0);
  op.need(list.rank() == (given.list_type == 2 ? 2 : 1) && list.dim(0) == number,
          "groupList should be of one entry a group.");
  op.need(number > 0 && number <= 1024, "There should be 1 to 1024 groups.");
  for (const Tensor& tensor : {x[0], weight[0], y[0]})
    op.need(tensor.dim(-1) < 65536, "Last dimensions should be below 65536.");
  // "groupType 0 x not transposed, 2 x transposed, no bias"
  const bool plain = x[0].seen.strides[1] == 1 || x[0].dim(1) == 1;
  const bool turned = x[0].seen.strides[0] == 1 || x[0].dim(0) == 1;
  op.need(rows_split ? plain : turned, rows_split ? "x should not be transposed." : "x should be transposed.");
  op.need(rows_split || bias.empty(), "There is no bias with groupType 2.");
  if (!bias.empty() && bias[0].dtype() != (x[0].dtype() == ACL_BF16 ? ACL_FLOAT : x[0].dtype()))
    op.no("The dtype of bias isn't the op's.");
  if (!bias.empty()) op.shape(bias[0], {number, y[0].dim(-1)});
  if (rows_split) {
    op.need(weight[0].dim(1) == x[0].dim(1), "k of x and of weight differ.");
    op.shape(y[0], {x[0].dim(0), weight[0].dim(2)});
  } else {
    op.need(weight[0].dim(0) == x[0].dim(1), "Rows of x and of weight differ.");
    op.shape(y[0], {number, x[0].dim(0), weight[0].dim(1)});
  }
  op.workspace(scratch);
  const std::int64_t list_type = given.list_type;
  op.run([=](Run& run) {
    const View from = run.view(x[0]), factor = run.view(weight[0]), to = run.view(y[0]);
    numerics::GroupedProduct groups;
    groups.starts = starts_of(run, list, list_type, number, from.shape[rows_split ? 0 : 1]);
    if (!rows_split) {
      numerics::grouped_outer(from, factor, groups.starts, to);
      return;
    }
    for (std::int64_t group = 0; group < number; ++group) {
      groups.weights.push_back(numerics::select(factor, 0, group));
      if (!bias.empty()) groups.biases.push_back(numerics::select(run.view(bias[0]), 0, group));
    }
    numerics::grouped_matmul(from, groups, to);
  });
}

}  // namespace
}  // namespace fake

using namespace fake;

FAKE_OP(GroupedMatmulV4, const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
        const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
        const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
        const aclTensorList* perTokenScaleOptional, const aclTensor* groupListOptional,
        const aclTensorList* activationInputOptional, const aclTensorList* activationQuantScaleOptional,
        const aclTensorList* activationQuantOffsetOptional, int64_t splitItem, int64_t groupType, int64_t groupListType,
        int64_t actType, aclTensorList* out, aclTensorList* activationFeatureOutOptional,
        aclTensorList* dynQuantScaleOutOptional) {
  return plan("aclnnGroupedMatmulV4", workspaceSize, executor, [&](Op& op) {
    for (const aclTensorList* list :
         {scaleOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional, perTokenScaleOptional,
          activationInputOptional, activationQuantScaleOptional, activationQuantOffsetOptional}) {
      absent("A scale or an activation's input", list);
    }
    absent("activationFeatureOut", activationFeatureOutOptional);
    absent("dynQuantScaleOut", dynQuantScaleOutOptional);
    grouped_matmul(op, {x, weight, biasOptional, groupListOptional, splitItem, groupType, groupListType, actType, out});
  });
}
FAKE_OP(GroupedMatmulV5, const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
        const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
        const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
        const aclTensorList* perTokenScaleOptional, const aclTensor* groupListOptional,
        const aclTensorList* activationInputOptional, const aclTensorList* activationQuantScaleOptional,
        const aclTensorList* activationQuantOffsetOptional, int64_t splitItem, int64_t groupType, int64_t groupListType,
        int64_t actType, aclIntArray* tuningConfigOptional, aclTensorList* out,
        aclTensorList* activationFeatureOutOptional, aclTensorList* dynQuantScaleOutOptional) {
  return plan("aclnnGroupedMatmulV5", workspaceSize, executor, [&](Op& op) {
    for (const aclTensorList* list :
         {scaleOptional, offsetOptional, antiquantScaleOptional, antiquantOffsetOptional, perTokenScaleOptional,
          activationInputOptional, activationQuantScaleOptional, activationQuantOffsetOptional}) {
      absent("A scale or an activation's input", list);
    }
    static_cast<void>(tuningConfigOptional);
    absent("activationFeatureOut", activationFeatureOutOptional);
    absent("dynQuantScaleOut", dynQuantScaleOutOptional);
    grouped_matmul(op, {x, weight, biasOptional, groupListOptional, splitItem, groupType, groupListType, actType, out});
  });
}
