// docs/deploy.md and examples/deploy: each command serves, each request is answered, each file's flags are flags, and
// the metrics that others read are there.
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>

#include "deployed.h"
#include "page.h"
#include "tests/support/exposition.h"

namespace tern::e2e {
namespace {

std::string text_in(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  EXPECT_FALSE(out.str().empty()) << file;
  return out.str();
}

const std::filesystem::path kSource = TERN_SOURCE_DIR;

TEST(DeployPage, CommandsServe) {
  run_page("docs/deploy.md", 4,
           std::string(R"(
export HOME=$PWD
for name in maths style; do
  test -d output/$name || command env PATH=")") +
               std::filesystem::path(TERN_PROGRAM).parent_path().string() +
               R"(:$PATH" tern sft --model smollm2-135m --dataset examples/gsm8k/train.jsonl#16 \
    --max_steps 4 --per_device_train_batch_size 4 --output_dir output/$name --add_version false --device cpu
done
mkdir -p models
test -d models/one || cp -r smollm2-135m models/one
)" + kServesAndEnds);
}

// Each curl, with a tiny model in the place of the bundled one.
TEST(DeployPage, RequestsAreAnswered) {
  const Scratch scratch;
  const auto model = scratch.path() / "smollm2-135m";
  write_tiny_model(model);
  const std::string output = (scratch.path() / "output").string();
  const std::string rows = scratch.write("rows.jsonl", sums(16));
  const Outcome trained =
      run({"sft", "--model", model.string(), "--dataset", rows, "--max_steps", "4", "--learning_rate", "0.05",
           "--output_dir", output + "/maths", "--add_version", "false", "--device", "cpu"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::filesystem::copy(output + "/maths", output + "/style", std::filesystem::copy_options::recursive);
  Deployed server(model, {"--adapters", "maths=" + output + "/maths/checkpoint-4", "--enable_lora", "true"});
  TinyModel classifier;
  classifier.labels = 3;
  write_tiny_model(scratch.path() / "classifier", classifier);
  const Deployed labels(scratch.path() / "classifier", {});
  std::ifstream page(kSource / "docs/deploy.md");
  int asked = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("curl ")) continue;
    const bool words = line.find("8001") == std::string::npos;
    line.replace(line.find(words ? "8000" : "8001"), 4, std::to_string((words ? server : labels).port()));
    if (const auto at = line.find("output/"); at != std::string::npos) line.replace(at, 6, output);
    const std::string log = (scratch.path() / "log").string();
    EXPECT_EQ(std::system((line + " --fail >" + log + " 2>&1").c_str()), 0) << line;
    ++asked;
  }
  EXPECT_GE(asked, 10);
}

// The metrics that the page's table names, each with the labels that it names.
TEST(DeployPage, MetricsOfEndpointPickersAreThere) {
  const Scratch scratch;
  write_tiny_model(scratch.path() / "tiny");
  Deployed server(scratch.path() / "tiny", {"--enable_lora", "true"});
  ASSERT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})").status, 200);
  const std::string metrics = ask(server.port(), "GET", "/metrics").body;
  std::istringstream page(text_in(kSource / "docs/deploy.md"));
  const std::regex word("`([^`]+)`");
  int named = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ") || line.find("`vllm:") == std::string::npos) continue;
    std::string metric;
    for (std::sregex_iterator at(line.begin(), line.end(), word), end; at != end; ++at) {
      const std::string name = (*at)[1];
      if (name.starts_with("vllm:")) {
        metric = name;
        EXPECT_TRUE(std::regex_search(metrics, std::regex("\n" + name + "\\{"))) << name;
      } else {
        EXPECT_TRUE(std::regex_search(metrics, std::regex("\n" + metric + "\\{[^}]*" + name + "=\""))) << name;
      }
      ++named;
    }
  }
  EXPECT_GE(named, 10);
}

// The whole page is what Prometheus reads, of one model and of several, and what is counted never falls.
TEST(DeployPage, MetricsAreAnExposition) {
  const Scratch scratch;
  for (const char* name : {"one", "two"}) write_tiny_model(scratch.path() / "models" / name);
  const std::vector<std::string> several = {"--models", (scratch.path() / "models").string(), "--max_loaded_models",
                                            "2"};
  for (const auto& [model, flags] :
       {std::pair{scratch.path() / "models/one", std::vector<std::string>{"--enable_lora", "true"}},
        {std::filesystem::path(), several}}) {
    Deployed server(model, flags);
    std::optional<test::Exposition> before;
    for (int turn = 0; turn < 2; ++turn) {
      for (const char* name : {"one", "two"}) {
        const std::string body =
            std::string(R"({"max_tokens": 3, "prompt": "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "model": ")") + name + "\"}";
        EXPECT_EQ(server.post("/v1/completions", body).status, name == std::string("one") || model.empty() ? 200 : 404);
      }
      const HttpReply reply = ask(server.port(), "GET", "/metrics");
      EXPECT_EQ(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
      const auto page = test::read_exposition(reply.body);
      for (const std::string& error : page.errors) ADD_FAILURE() << error;
      EXPECT_GE(page.families.size(), 25U);
      EXPECT_EQ(page.families.at("vllm:generation_tokens_total").samples.size(), model.empty() ? 2U : 1U);
      if (before) {
        for (const std::string& series : test::counters_that_fell(*before, page)) ADD_FAILURE() << series << " fell";
      }
      before = page;
    }
  }
}

// The service's flags and those in the manifest are the same, and tern takes them.
TEST(DeployPage, FilesOfFlagsServe) {
  const Scratch scratch;
  write_tiny_model(scratch.path() / "tiny");
  const std::string flags = text_in(kSource / "examples/deploy/deploy.yaml");
  std::istringstream manifest(text_in(kSource / "examples/deploy/kubernetes.yaml"));
  std::string in_manifest;
  bool inside = false;
  for (std::string line; std::getline(manifest, line);) {
    if (inside && !line.starts_with("    ")) inside = false;
    if (inside) in_manifest += line.substr(4) + "\n";
    if (line == "  deploy.yaml: |") inside = true;
  }
  EXPECT_EQ(in_manifest, flags);
  Deployed server(scratch.path() / "tiny", {"--max_model_len", "512"}, "cpu", {},
                  {"deploy", (kSource / "examples/deploy/deploy.yaml").string()});
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})").status, 200);
  const Outcome& outcome = server.end();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(R"("path":"/v1/completions")"), std::string::npos) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace tern::e2e
