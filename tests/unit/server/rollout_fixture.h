// A server of a tiny model as `tern rollout` opens it, and what a trainer sends it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "io/json.h"
#include "server/rollout/routes.h"
#include "session/session.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace tern::server {

using io::Json;
using test::ask;
using test::HttpReply;

struct Form {
  std::string name;
  std::optional<tern_dtype> dtype = {};
  std::optional<models::QuantiseOptions> quantise = {};
};
inline std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }

// A server of a tiny model in a directory, as `tern rollout` opens it.
class Rollout {
 public:
  Rollout(const std::filesystem::path& model, const Form& form = {}, const std::filesystem::path& adapter = {}) {
    HttpOptions http;
    http.host = "127.0.0.1";
    http.port = 0;
    session::SessionOptions opening;
    opening.model = model.string();
    opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
    opening.dtype = form.dtype;
    opening.quantise = form.quantise;
    session_ = session::open_session(opening).value();
    http.max_bodies_bytes = 1;
    rollout::take_weights(http, session_->model.config);
    EXPECT_EQ(http.max_bodies_bytes, 2 * http.max_body_bytes) << "the largest tensor and the next";
    server_ = Server::listen(http).value();
    models::LoadOptions load;
    session::load_weights(*session_, load).value();
    models::make_writable(session_->model);
    engine::LLMOptions options;
    options.adapter = adapter;
    options.engine.max_num_seqs = 8;
    options.engine.top_logprobs = 100;
    options.engine.enable_prefix_caching = true;
    llm_ = engine::LLM::open(*session_, options).value();
    ServerOptions serving;
    serving.service.model_names = {"m"};
    serving.service.sampling = llm_->default_sampling();
    rollout::serve_trainers(serving);
    server_->serve(*llm_, serving).value();
  }
  ~Rollout() { server_.reset(); }

  [[nodiscard]] HttpReply post(const std::string& path, const std::string& body = "",
                               const std::string& type = "application/json") const {
    return ask(server_->port(), "POST", path, body, "Content-Type: " + type + "\r\n");
  }
  [[nodiscard]] HttpReply get(const std::string& path) const { return ask(server_->port(), "GET", path); }
  [[nodiscard]] HttpReply send(const std::string& path, const std::string& tensors) const {
    return post(path, tensors, "application/octet-stream");
  }
  [[nodiscard]] Json json(const std::string& path, const std::string& body) const {
    const HttpReply reply = post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.status == 200 ? io::parse_json(reply.body, "answer").value() : Json::object();
  }
  // What it answers greedily to three prompts.
  [[nodiscard]] std::string greedy() const {
    const Json answer =
        json("/generate/", R"({"prompts": ["Hello", "1+2=", "zz"], "temperature": 0, "max_tokens": 24})");
    return answer["completion_ids"].dump();
  }
  [[nodiscard]] std::string version() const {
    return io::parse_json(get("/weight_info").body, "answer").value()["weight_version"].text();
  }

 private:
  std::unique_ptr<session::Session> session_;
  std::unique_ptr<engine::LLM> llm_;
  std::unique_ptr<Server> server_;
};

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A safetensors file of f32 tensors.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
inline std::string file_of(const std::vector<NamedTensor>& tensors) {
  Json header = Json::object();
  std::string data;
  for (const NamedTensor& tensor : tensors) {
    Json one = Json::object();
    one["dtype"] = "F32";
    one["shape"] = Json(tensor.shape);
    one["data_offsets"] = Json(std::vector<std::int64_t>{static_cast<std::int64_t>(data.size()),
                                                         static_cast<std::int64_t>(data.size() + tensor.bytes.size())});
    header[tensor.name] = std::move(one);
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(text.size() >> (8 * i) & 255U);
  return out + text + data;
}

class RolloutServer : public ::testing::Test {
 protected:
  RolloutServer() {
    setenv("TERN_HOME", (dir_ / "home").c_str(), 1);
    e2e::write_tiny_model(dir_ / "a", {.seed = 1});
    e2e::write_tiny_model(dir_ / "b", {.seed = 2});
  }
  ~RolloutServer() override { unsetenv("TERN_HOME"); }
  [[nodiscard]] std::string weights(const char* model) const { return bytes_of(dir_ / model / "model.safetensors"); }
  // The tensors of a model one by one.
  [[nodiscard]] std::vector<NamedTensor> tensors(const char* model) const {
    const auto file = checkpoint::Safetensors::open(dir_ / model / "model.safetensors").value();
    std::vector<NamedTensor> out;
    for (const auto& tensor : file.tensors()) {
      out.push_back({tensor.name, tensor.shape,
                     std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())});
    }
    return out;
  }
  test::TempDir dir_;
};

}  // namespace tern::server
