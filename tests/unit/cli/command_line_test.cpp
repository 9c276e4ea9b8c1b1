#include "cli/flags/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include <unistd.h>

#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::cli {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Result<Invocation> parse(const Words& words, const Variables& variables = {}) {
  return parse_command_line(words, [&](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  });
}

// The error line of words that must be refused as bad usage.
std::string refused(const Words& words, const Variables& variables = {}) {
  const auto result = parse(words, variables);
  if (result) return "accepted";
  EXPECT_EQ(result.error().kind, ErrorKind::usage);
  return result.error().line();
}

class ConfigOnDisk {
 public:
  ConfigOnDisk(const std::string& name, const std::string& text) : path_(scratch_.write(name, text)) {}
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  test::TempDir scratch_;
  std::string path_;
};

// Words as a shell would split them: spaces part, single quotes hold together.
Words shell_words(std::string_view line) {
  Words words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

TEST(CommandLine, EveryExampleOfTheHelpIsAccepted) {
  for (const auto& command : command_table()) {
    if (command.example.empty()) continue;
    const auto begin = command.example.rfind("tern ");
    ASSERT_NE(begin, std::string_view::npos) << command.example;
    auto words = shell_words(command.example.substr(begin + 5));
    const auto run = parse(words);
    ASSERT_TRUE(run) << command.example << ": " << run.error().line();
    EXPECT_EQ(run->arguments.command().name, command.name);
  }
}

TEST(CommandLine, ReadsEveryType) {
  const auto run = parse({"sft", "--model", "m", "--lora_rank", "16", "--learning-rate=2e-4", "--packing", "false",
                          "--dataset", "a.jsonl#10", "b.jsonl", "--max_shard_size", "2GiB", "--tuner_type", "full",
                          "--create_checkpoint_symlink"});
  ASSERT_TRUE(run) << run.error().line();
  const auto& args = run->arguments;
  EXPECT_EQ(args.string("model"), "m");
  EXPECT_EQ(args.integer("lora_rank"), 16);
  EXPECT_EQ(args.real("learning_rate"), 2e-4);
  EXPECT_FALSE(args.boolean("packing"));
  EXPECT_TRUE(args.boolean("create_checkpoint_symlink"));
  EXPECT_EQ(args.list("dataset"), (Words{"a.jsonl#10", "b.jsonl"}));
  EXPECT_EQ(args.integer("max_shard_size"), std::int64_t{2} << 30);
  EXPECT_EQ(args.string("tuner_type"), "full");
}

TEST(CommandLine, KnowsWhatWasSet) {
  const auto run = parse({"sft", "--seed", "42"});
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->arguments.was_set("seed"));
  EXPECT_FALSE(run->arguments.was_set("data_seed"));
  EXPECT_TRUE(run->arguments.has("data_seed"));
  EXPECT_FALSE(run->arguments.has("learning_rate"));
  EXPECT_EQ(run->arguments.maybe_real("learning_rate"), std::nullopt);
  EXPECT_THROW((void)run->arguments.real("learning_rate"), Failure);
  EXPECT_THROW((void)run->arguments.string("no_such_flag"), std::logic_error);
}

// What stands behind -- is another program's.
TEST(CommandLine, FlagsEndAtTwoDashes) {
  const auto run = parse({"launch", "claude", "--port", "9", "--", "-p", "--help", "--port", "--", "x"});
  ASSERT_TRUE(run) << run.error().line();
  EXPECT_FALSE(run->help);
  EXPECT_EQ(run->arguments.string("agent"), "claude");
  EXPECT_EQ(run->arguments.integer("port"), 9);
  EXPECT_EQ(run->arguments.list("agent_arguments"), (Words{"-p", "--help", "--port", "--", "x"}));
  EXPECT_TRUE(parse({"launch", "codex", "exec", "Hi"})->arguments.list("agent_arguments") == (Words{"exec", "Hi"}));
}

TEST(CommandLine, NegativeNumbersAreValues) {
  const auto run = parse({"sft", "--max_steps", "-1"});
  ASSERT_TRUE(run) << run.error().line();
  EXPECT_EQ(run->arguments.integer("max_steps"), -1);
}

TEST(CommandLine, BareBooleanBeforeAPlaceIsTrue) {
  const auto run = parse({"inspect", "--json", "model.gguf"});
  ASSERT_TRUE(run) << run.error().line();
  EXPECT_TRUE(run->arguments.boolean("json"));
  EXPECT_EQ(run->arguments.string("model"), "model.gguf");
}

TEST(CommandLine, PlacesAreFilledInOrder) {
  const auto run = parse({"convert", "in.gguf", "out.safetensors", "--outtype", "bf16"});
  ASSERT_TRUE(run) << run.error().line();
  EXPECT_EQ(run->arguments.string("model"), "in.gguf");
  EXPECT_EQ(run->arguments.string("output"), "out.safetensors");
}

TEST(CommandLine, UnknownNamesTheNearest) {
  EXPECT_EQ(refused({"stf"}), "tern has no command \"stf\"; did you mean sft?");
  EXPECT_EQ(refused({"sft", "--learning_rat", "1"}),
            "--learning_rat is not a flag of tern sft; did you mean --learning_rate?");
  EXPECT_EQ(refused({"sft", "--zzzzzzzzzzzz"}), "--zzzzzzzzzzzz is not a flag of tern sft; see tern sft --help.");
}

TEST(CommandLine, AFlagOfAnotherCommandHasNoEffect) {
  const auto line = refused({"sft", "--port", "80"});
  EXPECT_NE(line.find("no effect in tern sft: it is a flag of tern deploy"), std::string::npos) << line;
}

TEST(CommandLine, AFlagOfTheGroupWithoutEffectSaysWhy) {
  EXPECT_EQ(refused({"infer", "--max_length", "512"}),
            "--max_length has no effect in tern infer: sequences are bounded by --max_model_len; remove it.");
}

TEST(CommandLine, PendingFlagsAndValuesAreRefusedUnlessTheyChangeNothing) {
  EXPECT_EQ(refused({"sft", "--deepspeed", "zero2"}), "--deepspeed is not implemented yet; remove it.");
  EXPECT_TRUE(parse({"sft", "--tensor_parallel_size", "1"}));
  EXPECT_EQ(refused({"sft", "--tensor_parallel_size", "2"}),
            "--tensor_parallel_size is not implemented yet; remove it.");
}

TEST(CommandLine, FlagsOfOtherToolsAreAnsweredByOneLine) {
  const auto run = parse({"infer", "--infer_backend", "vllm", "--attn_impl", "flash_attention_2"});
  ASSERT_TRUE(run) << run.error().line();
  ASSERT_EQ(run->arguments.notices().size(), 2U);
  EXPECT_EQ(run->arguments.notices()[0],
            "--infer_backend vllm makes no difference: tern has one engine for all of them");
  EXPECT_NE(refused({"infer", "--infer_backend", "tgi"})
                .find("--infer_backend is \"tgi\", and must be one of pt, transformers, vllm, sglang, lmdeploy; "),
            std::string::npos);
}

TEST(CommandLine, BadValuesSayWhatWasExpectedAndShowOneThatIsRight) {
  struct Row {
    Words words;
    std::string line;  // behind the flag's name
  };
  const std::string rank = "; for example --lora_rank 8.";
  const Row rows[] = {
      {{"sft", "--lora_rank", "x"}, " is \"x\", and must be an integer of at least 1" + rank},
      {{"sft", "--lora_rank", "0"}, " is 0, and must be an integer of at least 1" + rank},
      {{"sft", "--lora_rank", "99999999999999999999"},
       " is 99999999999999999999, and must be an integer of at least 1, and below 2^63" + rank},
      {{"sft", "--lora_rank", "8.5"}, " is 8.5, and must be an integer of at least 1" + rank},
      {{"sft", "--lora_rank"}, " needs a value" + rank},
      {{"sft", "--lora_rank="}, " is \"\", and must be an integer of at least 1" + rank},
      {{"sft", "--lora_dropout", "1"},
       " is 1, and must be a number of at least 0 and below 1; for example --lora_dropout 0.05."},
      {{"sft", "--learning_rate", "nan"},
       " is nan, and must be a number of at least 0; for example --learning_rate 0."},
      {{"sft", "--learning_rate", "inf"},
       " is inf, and must be a number of at least 0; for example --learning_rate 0."},
      {{"sft", "--strict", "maybe"}, " is \"maybe\", and must be true or false; for example --strict false."},
      {{"sft", "--save_strategy", "step"}, " is \"step\", and must be one of steps, epoch, no; did you mean steps?"},
      {{"sft", "--save_strategy", "zzzzzzzz"},
       " is \"zzzzzzzz\", and must be one of steps, epoch, no; for example --save_strategy steps."},
      {{"sft", "--dataset"}, " needs at least one value; for example --dataset VALUE."},
      {{"sft", "--report_to", "tensorbord"},
       " is \"tensorbord\", and must be one of tensorboard, wandb, swanlab, all, none; did you mean tensorboard?"},
      {{"sft", "--max_shard_size", "5 parsec"},
       " is \"5 parsec\", and must be a size such as 500MB, 5GB or 2GiB; for example --max_shard_size 5GB."},
      {{"deploy", "--speculative_config", "{"},
       " is \"{\", and must be a JSON object; for example --speculative_config '{\"key\": \"value\"}'."},
      {{"infer", "--top_p", "0"}, " is 0, and must be a number above 0 and at most 1; for example --top_p 1."},
      {{"bench", "--batch_size", "1", "two"},
       " is \"two\", and must be an integer from 1 to 65536; for example --batch_size 1."},
  };
  for (const auto& row : rows) {
    const auto& flag = row.words[1];
    EXPECT_EQ(refused(row.words), cat(flag.substr(0, flag.find('=')), row.line));
  }
  EXPECT_EQ(refused({"sft", "stray"}), "\"stray\" belongs to no flag; see tern sft --help.");
  EXPECT_EQ(refused({}), "tern needs a command; see tern --help.");
}

// What a bad value's mend shows is a good one, for every flag.
TEST(CommandLine, EveryExampleOfAMendIsAccepted) {
  for (const auto& group : flag_groups()) {
    for (const auto& flag : group.flags) {
      if (flag.type == FlagType::text || (flag.type == FlagType::list && flag.choices.empty() && flag.range.empty()))
        continue;
      const auto bad = parse_flag(flag, Words{std::string(40, '?')}, "x");
      ASSERT_FALSE(bad.ok()) << flag.name;
      const std::string lead = cat("for example --", flag.name, " ");
      ASSERT_EQ(bad.error().mend.rfind(lead, 0), 0U) << bad.error().line();
      const auto good = parse_flag(flag, shell_words(bad.error().mend.substr(lead.size())), "x");
      EXPECT_TRUE(good.ok()) << bad.error().line();
    }
  }
}

TEST(CommandLine, NumbersOfAListMayHaveASign) {
  const auto run = parse({"bench", "--batch_size", "+2", "3"});
  ASSERT_TRUE(run) << run.error().line();
  EXPECT_EQ(run->arguments.integers("batch_size"), (std::vector<std::int64_t>{2, 3}));
}

TEST(CommandLine, AValueWithControlCharactersStaysOneLine) {
  EXPECT_EQ(refused({"sft", "--lora_rank", "1\n\x1b[31m"}).find('\n'), std::string::npos);
}

TEST(CommandLine, TheLastOfARepeatedFlagCountsAndIsTold) {
  const auto run = parse({"models", "--json", "true", "--json", "false"});
  ASSERT_TRUE(run);
  EXPECT_FALSE(run->arguments.boolean("json"));
  ASSERT_EQ(run->arguments.notices().size(), 1U);
  EXPECT_EQ(run->arguments.notices()[0], "--json is given more than once, and the last one counts");
}

TEST(CommandLine, SizesTakeUnits) {
  const auto bytes = [](const std::string& word) {
    return parse({"sft", "--max_shard_size", word})->arguments.integer("max_shard_size");
  };
  EXPECT_EQ(bytes("5GB"), 5'000'000'000);
  EXPECT_EQ(bytes("1.5 KiB"), 1536);
  EXPECT_EQ(bytes("100"), 100);
  EXPECT_NE(refused({"sft", "--max_shard_size", "1e30GB"}).find("a size such as"), std::string::npos);
  EXPECT_NE(refused({"sft", "--max_shard_size", "-1GB"}).find("a size such as"), std::string::npos);
}

TEST(CommandLine, HelpIsSeenAnywhere) {
  EXPECT_TRUE(parse({"sft", "--help"})->help);
  EXPECT_TRUE(parse({"sft", "--seed", "1", "-h"})->help);
  EXPECT_FALSE(parse({"sft"})->help);
}

TEST(Config, KeysAreFlagsAndTheCommandLineWins) {
  const ConfigOnDisk file("train.yaml",
                          "model: m\nlora_rank: 4\nlearning-rate: 1e-5\ndataset: [a.jsonl, b.jsonl]\n"
                          "strict: true\nsave_total_limit:\nENV:\n  TERN_TEST_ONE: 1\n  TERN_TEST_TWO: two\n");
  const auto run = parse({"sft", file.path(), "--lora_rank", "16"});
  ASSERT_TRUE(run) << run.error().line();
  const auto& args = run->arguments;
  EXPECT_EQ(args.string("model"), "m");
  EXPECT_EQ(args.integer("lora_rank"), 16);
  EXPECT_EQ(args.real("learning_rate"), 1e-5);
  EXPECT_EQ(args.list("dataset"), (Words{"a.jsonl", "b.jsonl"}));
  EXPECT_TRUE(args.boolean("strict"));
  EXPECT_FALSE(args.has("save_total_limit"));
  EXPECT_EQ(args.provenance("lora_rank"), Provenance::command_line);
  EXPECT_EQ(args.provenance("model"), Provenance::config);
  ASSERT_EQ(run->exports.size(), 2U);
  EXPECT_EQ(run->exports[0], (std::pair<std::string, std::string>("TERN_TEST_ONE", "1")));
  EXPECT_EQ(run->exports[1], (std::pair<std::string, std::string>("TERN_TEST_TWO", "two")));
}

TEST(Config, JsonHasTheSameMeaning) {
  const ConfigOnDisk file("train.json",
                          R"({"model": "m\u00e9", "lora_rank": 4, "learning_rate": 1e-5, "strict": true,
                              "dataset": ["a.jsonl"], "ENV": {"TERN_TEST_ONE": 1}})");
  const auto run = parse({"sft", file.path()});
  ASSERT_TRUE(run) << run.error().line();
  EXPECT_EQ(run->arguments.string("model"), "m\xc3\xa9");
  EXPECT_EQ(run->arguments.integer("lora_rank"), 4);
  EXPECT_EQ(run->arguments.real("learning_rate"), 1e-5);
  EXPECT_EQ(run->exports.size(), 1U);
}

TEST(Config, ErrorsNameFileLineAndKey) {
  const ConfigOnDisk unknown("u.yaml", "model: m\nlearning_rat: 1\n");
  EXPECT_EQ(refused({"sft", unknown.path()}),
            cat(unknown.path(), ":2: learning_rat is not a flag of tern sft; did you mean --learning_rate?"));
  const ConfigOnDisk bad("b.yaml", "lora_rank: many\n");
  EXPECT_EQ(
      refused({"sft", bad.path()}),
      cat(bad.path(), ":1: lora_rank is \"many\", and must be an integer of at least 1; for example --lora_rank 8."));
  const ConfigOnDisk list("l.yaml", "- a\n- b\n");
  EXPECT_EQ(refused({"sft", list.path()}),
            cat(list.path(), ": expected a map from flags to values, found a single array; ",
                "write each flag as name: value"));
  const ConfigOnDisk broken("x.json", "{\"model\": ");
  EXPECT_NE(refused({"sft", broken.path()}).find(broken.path()), std::string::npos);
  EXPECT_EQ(refused({"sft", "absent.yaml"}), "absent.yaml cannot be read as a file of flags; check the path.");
  const ConfigOnDisk exports("e.yaml", "ENV: [1]\n");
  EXPECT_EQ(refused({"sft", exports.path()}),
            cat(exports.path(), ":1: ENV must be a map of variables; write lines NAME: value below it."));
  for (const char* variable : {"TERN_TEST: [1, 2]", "TERN_TEST: {A: 1}", "TERN=TEST: 1"}) {
    const ConfigOnDisk wrong("v.yaml", cat("ENV:\n  ", variable, "\n"));
    const std::string line = refused({"sft", wrong.path()});
    EXPECT_TRUE(line.ends_with(" must be a variable's name with one value; write NAME: value.")) << line;
  }
  const ConfigOnDisk large("large.yaml", std::string((std::size_t{1} << 20) + 1, ' '));
  EXPECT_EQ(refused({"sft", large.path()}),
            cat(large.path(), " is larger than 1.00 MiB, the most that a file of flags may have; check the path."));
}

TEST(Config, ACommandThatTakesAFileTakesJsonAsThatFile) {
  const auto run = parse({"inspect", "model.safetensors.index.json"});
  ASSERT_TRUE(run) << run.error().line();
  EXPECT_EQ(run->arguments.string("model"), "model.safetensors.index.json");
}

TEST(Variables, DeviceComesFromTheEnvironmentUnlessGiven) {
  EXPECT_EQ(parse({"sft"}, {{"TERN_ACCELERATOR", "sim"}})->arguments.string("device"), "sim");
  EXPECT_EQ(parse({"sft"}, {{"DS_ACCELERATOR", "npu"}})->arguments.string("device"), "npu");
  EXPECT_EQ(parse({"sft", "--device", "cpu"}, {{"TERN_ACCELERATOR", "sim"}})->arguments.string("device"), "cpu");
  EXPECT_EQ(parse({"sft"}, {{"TERN_ACCELERATOR", ""}})->arguments.string("device"), "auto");
  EXPECT_TRUE(parse({"sft"}, {{"TERN_ACCELERATOR", "sim"}})->arguments.was_set("device"));
}

TEST(Variables, TwoThatDisagreeAreAnError) {
  EXPECT_TRUE(parse({"sft"}, {{"TERN_ACCELERATOR", "cpu"}, {"DS_ACCELERATOR", "cpu"}}));
  EXPECT_EQ(refused({"sft"}, {{"TERN_ACCELERATOR", "cpu"}, {"DS_ACCELERATOR", "npu"}}),
            "the variables TERN_ACCELERATOR and DS_ACCELERATOR mean the same, but one is \"cpu\" and the other is "
            "\"npu\"; unset one "
            "of them.");
}

TEST(Variables, TheConfigsExportsCount) {
  const ConfigOnDisk file("env.yaml", "ENV:\n  TERN_ACCELERATOR: sim\n");
  EXPECT_EQ(parse({"sft", file.path()})->arguments.string("device"), "sim");
}

TEST(Arguments, JsonHoldsEveryFlagAndNoSecret) {
  const auto run = parse({"deploy", "--api_key", "hidden", "--adapters", "a=b", "--max_num_seqs", "4", "--port", "1"});
  ASSERT_TRUE(run) << run.error().line();
  const auto json = run->arguments.to_json();
  EXPECT_EQ(json.find("hidden"), std::string::npos);
  EXPECT_NE(json.find("\"adapters\": [\"a=b\"]"), std::string::npos) << json;
  EXPECT_NE(json.find("\"max_num_seqs\": 4"), std::string::npos);
  EXPECT_NE(json.find("\"model\": null"), std::string::npos);
  for (const auto* flag : command_flags(run->arguments.command())) {
    EXPECT_NE(json.find(cat("\"", flag->name, "\": ")), std::string::npos) << flag->name;
  }
}

TEST(Arguments, SavedOnesComeBackUnlessGiven) {
  auto first = parse({"sft", "--model", "m", "--system", "be brief", "--seed", "7"});
  ASSERT_TRUE(first);
  auto second = parse({"infer", "--seed", "9"});
  ASSERT_TRUE(second);
  static constexpr std::string_view kNames[] = {"model", "system", "seed"};
  const auto status = second->arguments.load_saved(first->arguments.to_json(), "args.json", kNames);
  ASSERT_TRUE(status) << status.error().line();
  EXPECT_EQ(second->arguments.string("model"), "m");
  EXPECT_EQ(second->arguments.string("system"), "be brief");
  EXPECT_EQ(second->arguments.integer("seed"), 9);
  EXPECT_FALSE(second->arguments.was_set("model"));
  EXPECT_FALSE(second->arguments.load_saved("[", "args.json", kNames));
}

TEST(Arguments, DerivedValuesStandInTheJson) {
  auto run = parse({"sft"});
  ASSERT_TRUE(run);
  run->arguments.derive("learning_rate", 1e-4);
  EXPECT_EQ(run->arguments.real("learning_rate"), 1e-4);
  EXPECT_FALSE(run->arguments.was_set("learning_rate"));
  EXPECT_NE(run->arguments.to_json().find("\"learning_rate\": 1e-04"), std::string::npos);
}

}  // namespace
}  // namespace tern::cli
