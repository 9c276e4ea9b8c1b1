// tern selftest --model: a model's own ops against the oracle, on every kind of device.
#include <gtest/gtest.h>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

TEST(SelftestModel, PassesOnEveryKindOfDevice) {
  const Scratch scratch;
  write_tiny_model(scratch.path() / "tiny");
  for (const std::string personality : {"", "discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    Options options;
    options.folder = scratch.path();
    options.variables["TERN_HOME"] = (scratch.path() / "home").string();
    if (!personality.empty()) options.variables["TERN_SIM"] = personality;
    // What a device cannot do at all may run on the host: this is about what it does.
    const Outcome outcome = run({"selftest", "--model", "tiny", "--device", personality.empty() ? "cpu" : "sim:0",
                                 "--fallback", "allow", "--json"},
                                options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("\"passed\": true, \"first\": null"), std::string::npos) << outcome.out;
    // Training, its optimizer, the paged path and the draw of tokens all took part. A device that draws no random bits
    // takes the adapter's product apart.
    const char* adapted = personality == "ascend" ? "dropout" : "lora_shrink";
    for (const char* op :
         {"attention", "attention_backward", "attention_paged", "linear_cross_entropy", "adamw", adapted, "sample"}) {
      EXPECT_NE(outcome.out.find(std::string("{\"op\": \"") + op + "\", \"calls\": "), std::string::npos) << op;
    }
  }
}

TEST(SelftestModel, TakesAModelOrOps) {
  const Outcome outcome = run({"selftest", "--model", "absent", "--op", "matmul"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.last_error_line(),
            "tern: error: --op and --model cannot be used together: with a model, its own ops are tested; drop one.");
}

TEST(SelftestOps, FallBackNowhere) {
  const Outcome outcome = run({"selftest", "--op", "matmul", "--fallback", "allow"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.last_error_line(),
            "tern: error: --fallback has no effect: no model is tested; give --model, or remove it.");
}

// A device that leaves one to the host is shown by tests/out_of_tree.
TEST(SelftestOps, AreTheDevicesOwnWhereACommandRequiresThem) {
  const Scratch scratch;
  for (const char* device : {"cpu", "sim:0"}) {
    Options options;
    options.folder = scratch.path();
    options.variables["TERN_SIM"] = "embedded";
    EXPECT_EQ(
        run({"selftest", "--device", device, "--op", "act_mul", "sample", "--require", "infer,train", "serve"}, options)
            .status,
        0);
  }
}

TEST(SelftestOps, AreRequiredByTheCommandsThatThereAre) {
  const Outcome outcome = run({"selftest", "--require", "infer,deploy"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(
      outcome.last_error_line(),
      "tern: error: --require is \"deploy\", and must be infer, train or serve; for example --require infer,train.");
}

}  // namespace
}  // namespace tern::e2e
