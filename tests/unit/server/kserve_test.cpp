#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/kserve/infer_request.h"
#include "server/kserve/infer_writer.h"
#include "tests/unit/server/fake_exchange.h"

namespace tern::server::kserve {
namespace {

using io::Json;

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no error";
}

// A BYTES element as binary data has it.
std::string bytes(const std::string& text) {
  std::string out(4, '\0');
  out[0] = static_cast<char>(text.size() & 0xFF);
  out[1] = static_cast<char>(text.size() >> 8);
  return out + text;
}

std::string input(const std::string& name, const std::string& datatype, const std::string& data) {
  return cat(R"({"name": ")", name, R"(", "datatype": ")", datatype, R"(", "shape": [1], )", data, "}");
}
std::string binary(std::size_t size) { return cat(R"("parameters": {"binary_data_size": )", size, "}"); }

constexpr const char* kText = R"({"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["Hello"]})";

std::string infer_error(const std::string& inputs, const std::string& behind = "", std::string header = "") {
  const std::string json = cat(R"({"inputs": [)", inputs, "]}");
  if (header.empty() && !behind.empty()) header = cat(json.size());
  return error_of([&] { (void)parse_infer(json + behind, header); });
}

TEST(KServeRequest, IsReadFromJsonAndFromBinaryDataAlike) {
  const std::string sampling = R"({"temperature": "0.5", "max_tokens": 7, "n": 2, "stop": "3"})";
  const std::string of_json =
      cat(R"({"id": "r1", "inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1, 1],
      "data": [["Grüße"]]}, {"name": "sampling_parameters", "datatype": "BYTES", "shape": [1], "data": [)",
          Json(sampling).dump(), R"(]}, )", input("exclude_input_in_output", "BOOL", R"("data": [true])"), ", ",
          input("return_finish_reason", "BOOL", R"("data": [true])"), "]}");
  const std::string text = bytes("Grüße"), params = bytes(sampling);
  const std::string head =
      cat(R"({"id": "r1", "inputs": [)", input("text_input", "BYTES", binary(text.size())), ", ",
          input("sampling_parameters", "BYTES", binary(params.size())), ", ",
          input("exclude_input_in_output", "BOOL", binary(1)), ", ", input("return_finish_reason", "BOOL", binary(1)),
          R"(], "parameters": {"binary_data_output": true}})");
  const std::string body = head + text + params + "\x01\x01";
  for (const InferRequest& asked : {parse_infer(of_json, ""), parse_infer(body, cat(head.size()))}) {
    EXPECT_EQ(asked.id, "r1");
    EXPECT_EQ(std::get<std::string>(asked.completion.prompt), "Grüße");
    EXPECT_EQ(asked.completion.sampling.temperature, 0.5F);
    EXPECT_EQ(asked.completion.sampling.max_tokens, 7);
    EXPECT_EQ(asked.completion.sampling.stop, std::vector<std::string>{"3"});
    EXPECT_EQ(asked.completion.n, 2);
    EXPECT_FALSE(asked.prepend_input || asked.stream);
    ASSERT_EQ(asked.outputs.size(), 2U);
    EXPECT_EQ(asked.outputs[1].name, "finish_reason");
  }
  EXPECT_TRUE(parse_infer(body, cat(head.size())).outputs[0].binary);
  const InferRequest plain = parse_infer(cat(R"({"inputs": [)", kText, "]}"), "");
  EXPECT_TRUE(plain.prepend_input);
  EXPECT_EQ(plain.completion.sampling.max_tokens, 16);
  EXPECT_FALSE(plain.outputs[0].binary);
  const InferRequest wished =
      parse_infer(cat(R"({"parameters": {"binary_data_output": true}, "outputs": [{"name": "num_output_tokens"},
             {"name": "text_output", "parameters": {"binary_data": false}}], "inputs": [)",
                      kText, "]}"),
                  "");
  EXPECT_TRUE(wished.outputs[0].binary);
  EXPECT_FALSE(wished.outputs[1].binary);
}

TEST(KServeRequest, NamesWhatIsWrong) {
  const auto says = [](const std::string& error, const std::string& text) {
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  says(infer_error(""), "input \"text_input\"");
  says(infer_error(input("text", "BYTES", R"("data": ["a"])")), "inputs[0].name");
  says(infer_error(input("text_input", "INT32", R"("data": [1])")), "expected BYTES");
  says(infer_error(input("text_input", "BYTES", R"("data": ["a", "b"])")), "one element, a text");
  says(infer_error(input("text_input", "BYTES", R"("data": [1])")), "one element, a text");
  says(infer_error(input("stream", "BOOL", R"("data": [1])")), "true or false");
  says(infer_error(cat(kText, ", ", kText)), "each input once");
  says(infer_error(cat(kText, ", ", input("stream", "BOOL", R"("data": [true])"))), "generate_stream");
  says(infer_error(R"({"name": "text_input", "datatype": "BYTES", "shape": [2], "data": ["a"]})"), "shape");
  says(infer_error(input("text_input", "BYTES", binary(9)), bytes("abc")), "7 bytes that are left");
  says(infer_error(input("text_input", "BYTES", binary(7)), bytes("abc") + "x"), "no bytes behind");
  says(infer_error(input("text_input", "BYTES", binary(6)), bytes("abc")), "its length in 4 bytes");
  says(infer_error(input("text_input", "BYTES", binary(3)), "abc"), "its length in 4 bytes");
  says(infer_error(input("text_input", "BYTES", binary(5)), bytes("\xff")), "UTF-8");
  says(infer_error(input("stream", "BOOL", binary(1)), "\x02"), "one byte of 0 or 1");
  says(infer_error(kText, "", "9999"), "Inference-Header-Content-Length");
  says(infer_error(kText, "", "-1"), "Inference-Header-Content-Length");
  const auto sampling = [](const std::string& text) {
    return infer_error(
        cat(kText, ", ", input("sampling_parameters", "BYTES", cat(R"("data": [)", Json(text).dump(), "]"))));
  };
  says(sampling("[1]"), "a JSON object");
  says(sampling("{"), "sampling_parameters");
  says(sampling(R"({"temprature": 1})"), "sampling_parameters.temprature");
  says(sampling(R"({"temperature": "hot"})"), "sampling_parameters.temperature");
}

TEST(GenerateRequest, TakesTensorsAndParametersAtEitherPlace) {
  const InferRequest asked = parse_generate(R"({"text_input": "Hi", "max_tokens": 5, "parameters":
      {"stream": true, "temperature": 0, "return_num_output_tokens": true}})");
  EXPECT_EQ(std::get<std::string>(asked.completion.prompt), "Hi");
  EXPECT_TRUE(asked.stream);
  EXPECT_FALSE(asked.prepend_input);
  EXPECT_EQ(asked.completion.sampling.max_tokens, 5);
  EXPECT_EQ(asked.completion.sampling.temperature, 0.0F);
  EXPECT_EQ(asked.outputs[1].name, "num_output_tokens");
  const auto error = [](const std::string& body) { return error_of([&] { (void)parse_generate(body); }); };
  EXPECT_NE(error(R"({"text_input": 1})").find("text_input"), std::string::npos);
  EXPECT_NE(error(R"({"text_input": "a", "colour": 1})").find("sampling_parameters.colour"), std::string::npos);
  EXPECT_NE(error(R"({"text_input": "a", "stream": true, "exclude_input_in_output": false})").find("streamed"),
            std::string::npos);
}

std::shared_ptr<FakeExchange> told(WriterOptions options) {
  const auto exchange = std::make_shared<FakeExchange>();
  options.model = "m";
  const auto writer = infer_writer(std::move(options), exchange);
  TokenText token;
  writer->piece({.text = "a\xc3\xa9", .tokens = {token, token}});
  writer->piece({.text = "b", .tokens = {token}});
  AnswerEnd end{.kind = StopKind::length};
  end.mean_logprob = -0.5;
  writer->ended(end);
  writer->finished({.prompt_tokens = 4});
  EXPECT_TRUE(exchange->complete);
  return exchange;
}

const std::vector<OutputWish> kAll = {
    {"text_output"}, {"finish_reason"}, {"cumulative_logprob"}, {"num_input_tokens"}, {"num_output_tokens"}};

TEST(KServeAnswer, IsTensors) {
  WriterOptions options;
  options.id = "r1";
  options.prompt = "P: ";
  options.outputs = kAll;
  const Json json = told(options)->json();
  EXPECT_EQ(json["id"], "r1");
  EXPECT_EQ(json["model_version"], "1");
  EXPECT_EQ(json["outputs"][0].dump(), R"({"name":"text_output","datatype":"BYTES","shape":[1],"data":["P: aéb"]})");
  EXPECT_EQ(json["outputs"][1]["data"][0], "length");
  EXPECT_EQ(json["outputs"][2]["data"][0].get<double>(), -1.5);
  EXPECT_EQ(json["outputs"][3].dump(), R"({"name":"num_input_tokens","datatype":"UINT32","shape":[1],"data":[4]})");
  EXPECT_EQ(json["outputs"][4]["data"][0], 3);
}

TEST(KServeAnswer, IsBinaryDataWhereThatIsAsked) {
  WriterOptions options;
  options.outputs = kAll;
  options.outputs[1].binary = options.outputs[0].binary = options.outputs[2].binary = options.outputs[4].binary = true;
  const auto exchange = told(options);
  EXPECT_EQ(exchange->content_type, "application/octet-stream");
  ASSERT_EQ(exchange->headers.size(), 1U);
  EXPECT_EQ(exchange->headers[0].first, "Inference-Header-Content-Length");
  const std::size_t split = std::stoul(exchange->headers[0].second);
  const Json json = io::parse_json(exchange->body.substr(0, split), "head").value();
  EXPECT_EQ(json["outputs"][0]["parameters"]["binary_data_size"], 8);
  EXPECT_FALSE(json["outputs"][0].contains("data"));
  EXPECT_EQ(json["outputs"][3]["data"][0], 4);
  EXPECT_EQ(exchange->body.substr(split), bytes("a\xc3\xa9"
                                                "b") +
                                              bytes("length") + std::string("\x00\x00\xc0\xbf", 4) +
                                              std::string("\x03\0\0\0", 4));
}

TEST(GenerateAnswer, IsFieldsWholeOrAsTheyCome) {
  WriterOptions options;
  options.form = WriterOptions::Form::generate;
  options.outputs = {{"text_output"}, {"num_output_tokens"}};
  EXPECT_EQ(told(options)->body, R"({"model_name":"m","model_version":"1","text_output":"aéb","num_output_tokens":3})");
  options.form = WriterOptions::Form::generate_stream;
  EXPECT_EQ(told(options)->events().size(), 1U);
  options.stream = true;
  const auto events = told(options)->events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0], R"({"model_name":"m","model_version":"1","text_output":"aé"})");
  EXPECT_EQ(events[2], R"({"model_name":"m","model_version":"1","text_output":"","num_output_tokens":3})");
  options.outputs.pop_back();
  EXPECT_EQ(told(options)->events().size(), 2U);
}

TEST(KServeAnswer, FailsAsTheClientCanRead) {
  const auto whole = std::make_shared<FakeExchange>();
  infer_writer({}, whole)->failed(failed_error("full", "come again"), 429);
  EXPECT_EQ(whole->body, R"({"error":"full; come again."})");
  EXPECT_EQ(whole->headers, (Headers{{"Retry-After", "1"}}));
  WriterOptions options;
  options.form = WriterOptions::Form::generate_stream;
  options.stream = true;
  const auto stream = std::make_shared<FakeExchange>();
  const auto sink = infer_writer(options, stream);
  sink->piece({.text = "a"});
  sink->failed(failed_error("the device failed", "look at the log"), 500);
  EXPECT_TRUE(stream->complete);
  EXPECT_EQ(stream->events().back(), R"({"error":"the device failed; look at the log."})");
}

}  // namespace
}  // namespace tern::server::kserve
