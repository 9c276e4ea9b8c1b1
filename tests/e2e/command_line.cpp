// The contract of docs/cli.md as a user meets it: exit statuses, the one error line, help, config files.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "run.h"

namespace tern::e2e {
namespace {

// The run must end as bad usage with one line on stderr, and nothing on stdout.
void expect_usage(const std::vector<std::string>& words, const std::string& line) {
  const auto outcome = run(words);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err, "tern: error: " + line + "\n");
  EXPECT_EQ(outcome.out, "");
}

TEST(CommandLine, NothingTypedIsBadUsage) { expect_usage({}, "tern needs a command; see tern --help."); }

TEST(CommandLine, AMistypedCommandNamesTheNearest) {
  expect_usage({"modls"}, "tern has no command \"modls\"; did you mean models?");
}

TEST(CommandLine, AMistypedFlagNamesTheNearest) {
  expect_usage({"models", "--jsn"}, "--jsn is not a flag of tern models; did you mean --json?");
}

TEST(CommandLine, ACommandToComeSaysSo) {
  expect_usage({"rlhf", "--model", "m"}, "tern rlhf is not implemented yet; see tern --help.");
}

TEST(CommandLine, DashAndUnderscoreNameTheSameCommand) {
  EXPECT_EQ(run({"inspect_data"}).err, run({"inspect-data"}).err);
}

TEST(CommandLine, ColourStaysOffAPipe) {
  EXPECT_EQ(run({"modls"}).err.find('\x1b'), std::string::npos);
  EXPECT_EQ(run({"models"}).out.find('\x1b'), std::string::npos);
}

TEST(CommandLine, VersionTellsBuildAndBackends) {
  const auto outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out.rfind("tern " TERN_VERSION, 0), 0U) << outcome.out;
  EXPECT_NE(outcome.out.find("\nbuild: "), std::string::npos);
  EXPECT_NE(outcome.out.find("\nbackend"), std::string::npos);
}

TEST(CommandLine, VersionSeesABackendThatWasDroppedIn) {
  const Scratch scratch;
  const auto library = scratch.write("tern_backend_new.so", "");
  Options options;
  options.variables["TERN_BACKEND_PATH"] = scratch.path().string();
  EXPECT_NE(run({"--version"}, options).out.find("backend: " + library + "\n"), std::string::npos);
}

TEST(CommandLine, HelpListsCommandsAndFlags) {
  const auto overview = run({"--help"});
  EXPECT_EQ(overview.status, 0);
  for (const auto* name : {"sft", "infer", "merge-lora", "selftest"}) {
    EXPECT_NE(overview.out.find(std::string("\n  ") + name + " "), std::string::npos) << name;
  }
  const auto sft = run({"sft", "--help"});
  EXPECT_EQ(sft.status, 0);
  EXPECT_NE(sft.out.find("--lora_rank INT"), std::string::npos);
  EXPECT_NE(sft.out.find("[default: 8]"), std::string::npos);
}

TEST(CommandLine, DocsAreWhatTheProgramPrints) {
  std::ifstream page(TERN_SOURCE_DIR "/docs/cli.md", std::ios::binary);
  std::ostringstream text;
  text << page.rdbuf();
  EXPECT_EQ(run({"--help-markdown"}).out, text.str());
}

TEST(CommandLine, AConfigFileGivesFlags) {
  const Scratch scratch;
  const auto yaml = scratch.write("flags.yaml", "json: true\nENV:\n  TERN_HOME: /from/the/config\n");
  const auto outcome = run({"models", yaml});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"path\":\"/from/the/config/models/smollm2-135m/"), std::string::npos) << outcome.out;
  const auto plain = run({"models", yaml, "--json", "false"});
  EXPECT_EQ(plain.out.rfind("short names\n  smollm2-135m ", 0), 0U) << plain.out;
}

TEST(CommandLine, AMistakeInAConfigFileNamesItsLine) {
  const Scratch scratch;
  const auto json = scratch.write("flags.json", "{\n  \"jsn\": true\n}\n");
  expect_usage({"models", json}, json + ":2: jsn is not a flag of tern models; did you mean --json?");
  const auto broken = scratch.write("broken.yaml", "json: [true\n");
  const auto outcome = run({"models", broken});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err.rfind("tern: error: " + broken + ":", 0), 0U) << outcome.err;
}

TEST(CommandLine, OutputThatCannotBeWrittenIsAFailure) {
  Options options;
  options.stdout_path = "/dev/full";
  const auto outcome = run({"models"}, options);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "tern: error: standard output could not be written in full; check the space left.\n");
}

TEST(Models, SaysWhatIsAbsentAndHowToGetIt) {
  const Scratch scratch;
  Options options;
  options.variables["TERN_HOME"] = scratch.path().string();
  const auto outcome = run({"models"}, options);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.out.find("absent: run script/bootstrap"), std::string::npos);
  EXPECT_NE(run({"models", "--json"}, options).out.find("\"installed\":false"), std::string::npos);
  EXPECT_NE(outcome.out.find("\n  Qwen3ForCausalLM\n"), std::string::npos) << outcome.out;
}

// A hub's cache as its own tools leave it: blobs by their hashes, and links to them in a folder a commit.
TEST(Models, SaysWhatWasFetched) {
  const Scratch scratch;
  const std::string sha256(64, 'a');
  const std::string sha1(40, 'b');
  const std::string commit(40, 'c');
  scratch.write("hf/models--org--tiny/blobs/" + sha256, "12345678");
  scratch.write("hf/models--org--tiny/blobs/" + sha1, R"({"architectures": ["LlamaForCausalLM"]})");
  const auto snapshot = scratch.path() / "hf/models--org--tiny/snapshots" / commit;
  std::filesystem::create_directories(snapshot / "onnx");
  std::filesystem::create_symlink("../../blobs/" + sha1, snapshot / "config.json");
  std::filesystem::create_symlink("../../../blobs/" + sha256, snapshot / "onnx/weights.bin");
  scratch.write("hf/models--org--empty/refs/main", commit);
  scratch.write("hf/datasets--org--rows/snapshots/x/rows.jsonl", "{}");
  scratch.write("ms/models/other--big--one/snapshots/master/config.json", R"({"architectures": ["OddForCausalLM"]})");
  scratch.write("ms/models/other--file/snapshots/master/m.gguf", "GGUF");
  Options options;
  options.variables["TERN_HOME"] = scratch.path().string();
  options.variables["HF_HUB_CACHE"] = (scratch.path() / "hf").string();
  options.variables["MODELSCOPE_CACHE"] = (scratch.path() / "ms").string();
  const auto outcome = run({"models"}, options);
  for (const std::string& line :
       {"\n  hf::org/tiny  cccccccccccc  47 B in 2 files  LlamaForCausalLM  " + snapshot.string() + "\n",
        "\n  ms::other/big--one  master  37 B in 1 files  OddForCausalLM (not served)  " + scratch.path().string() +
            "/ms/models/other--big--one/snapshots/master\n",
        std::string("\n  ms::other/file  master  4 B in 1 files  no config.json  ")}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << outcome.out;
  }
  EXPECT_EQ(outcome.out.find("rows"), std::string::npos);
  EXPECT_EQ(outcome.out.find("empty"), std::string::npos);
  const auto json = run({"models", "--json"}, options).out;
  EXPECT_NE(json.find("{\"path\":\"onnx/weights.bin\",\"bytes\":8,\"sha256\":\"" + sha256 + "\",\"git_sha1\":null}"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("{\"path\":\"config.json\",\"bytes\":39,\"sha256\":null,\"git_sha1\":\"" + sha1 + "\"}"),
            std::string::npos);
  EXPECT_NE(json.find("\"architecture\":\"OddForCausalLM\",\"served\":false"), std::string::npos);
}

}  // namespace
}  // namespace tern::e2e
