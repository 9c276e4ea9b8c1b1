#include "server/openapi/fragments.h"

namespace tern::server::kserve {

std::string_view openapi() {
  return R"json({
  "paths": {
    "/v2/health/live": {
      "get": {
        "summary": "200 while the engine serves", "tags": ["KServe"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        },
        "security": []
      }
    },
    "/v2/health/ready": {
      "get": {
        "summary": "200 while the engine serves", "tags": ["KServe"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        },
        "security": []
      }
    },
    "/v2": {
      "get": {
        "summary": "What the server is, and the extensions that it has", "tags": ["KServe"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/": {
      "get": {
        "summary": "What the server is, and the extensions that it has", "tags": ["KServe"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/repository/index": {
      "post": {
        "summary": "The models", "tags": ["KServe"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/models/{model}": {
      "get": {
        "summary": "The tensors that a model takes and gives", "tags": ["KServe"],
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/models/{model}/ready": {
      "get": {
        "summary": "200 while the model answers", "tags": ["KServe"],
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/models/{model}/infer": {
      "post": {
        "summary": "An answer in tensors", "tags": ["KServe"],
        "description": "KServe's request of the tensors of GET /v2/models/{model}, as JSON or as binary data behind it",
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/models/{model}/generate": {
      "post": {
        "summary": "An answer as fields", "tags": ["KServe"],
        "description": "text_input, and sampling_parameters or parameters of its own",
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/models/{model}/generate_stream": {
      "post": {
        "summary": "The same as server-sent events", "tags": ["KServe"],
        "description": "text_input, and stream",
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    }
  }
})json";
}

}  // namespace tern::server::kserve
