#include "server/openapi/fragments.h"

namespace tern::server::kserve {

std::string_view openapi() {
  return R"json({
  "paths": {
    "/v2/health/live": {
      "get": {
        "summary": "200 while the engine serves", "tags": ["KServe"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeLive"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        },
        "security": []
      }
    },
    "/v2/health/ready": {
      "get": {
        "summary": "200 while the engine serves", "tags": ["KServe"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeReady"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        },
        "security": []
      }
    },
    "/v2": {
      "get": {
        "summary": "What the server is, and the extensions that it has", "tags": ["KServe"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeServer"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    },
    "/v2/": {
      "get": {
        "summary": "What the server is, and the extensions that it has", "tags": ["KServe"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeServer"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    },
    "/v2/repository/index": {
      "post": {
        "summary": "The models", "tags": ["KServe"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {}}}},
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    },
    "/v2/models/{model}": {
      "get": {
        "summary": "The tensors that a model takes and gives", "tags": ["KServe"],
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeModel"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    },
    "/v2/models/{model}/ready": {
      "get": {
        "summary": "200 while the model answers", "tags": ["KServe"],
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeModelReady"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    },
    "/v2/models/{model}/infer": {
      "post": {
        "summary": "An answer in tensors", "tags": ["KServe"],
        "description": "KServe's request of the tensors of GET /v2/models/{model}, as JSON or as binary data behind it",
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeInferred"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    },
    "/v2/models/{model}/generate": {
      "post": {
        "summary": "An answer as fields", "tags": ["KServe"],
        "description": "text_input, and sampling_parameters or parameters of its own",
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/KServeGenerated"}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    },
    "/v2/models/{model}/generate_stream": {
      "post": {
        "summary": "The same as server-sent events", "tags": ["KServe"],
        "description": "text_input, and stream",
        "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
          "200": {
            "description": "The answer as it comes",
            "content": {"text/event-stream": {}, "application/json": {"schema": {}}}
          },
          "4XX": {"$ref": "#/components/responses/KServeError"}, "5XX": {"$ref": "#/components/responses/KServeError"}
        }
      }
    }
  },
  "components": {
    "schemas": {
      "KServeLive": {"type": "object", "required": ["live"], "properties": {"live": {"type": "boolean"}}},
      "KServeReady": {"type": "object", "required": ["ready"], "properties": {"ready": {"type": "boolean"}}},
      "KServeModelReady": {
        "type": "object", "required": ["name", "ready"],
        "properties": {"name": {"type": "string"}, "ready": {"type": "boolean"}}
      },
      "KServeServer": {
        "type": "object", "required": ["name", "version", "extensions"],
        "properties": {
          "name": {"type": "string"}, "version": {"type": "string"},
          "extensions": {"type": "array", "items": {"type": "string"}}
        }
      },
      "KServeModel": {
        "type": "object", "required": ["name", "versions", "platform", "inputs", "outputs"],
        "properties": {
          "name": {"type": "string"}, "versions": {"type": "array", "items": {"type": "string"}},
          "platform": {"type": "string"}, "inputs": {"type": "array"}, "outputs": {"type": "array"}
        }
      },
      "KServeInferred": {
        "type": "object", "required": ["model_name", "outputs"],
        "properties": {"model_name": {"type": "string"}, "outputs": {"type": "array"}}
      },
      "KServeGenerated": {
        "type": "object", "required": ["model_name", "text_output"],
        "properties": {"model_name": {"type": "string"}}
      }
    },
    "responses": {
      "KServeError": {
        "description": "Why not, as KServe says it",
        "content": {
          "application/json": {
            "schema": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
          }
        }
      }
    }
  }
})json";
}

}  // namespace tern::server::kserve
