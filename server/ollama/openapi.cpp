#include "server/openapi/fragments.h"

namespace tern::server::ollama {

// Ollama's routes.
std::string_view openapi() {
  return R"json({
  "paths": {
    "/api/chat": {
      "post": {
        "summary": "A dialogue's answer, in Ollama's protocol", "tags": ["Ollama"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaChatRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer, or its lines",
            "content": {
              "application/json": {"schema": {"$ref": "#/components/schemas/OllamaAnswer"}},
              "application/x-ndjson": {"schema": {"type": "string"}}
            }
          },
          "4XX": {"$ref": "#/components/responses/OllamaError"},
          "5XX": {"$ref": "#/components/responses/OllamaError"}
        }
      }
    },
    "/api/generate": {
      "post": {
        "summary": "A prompt's answer", "tags": ["Ollama"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaGenerateRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer, or its lines",
            "content": {
              "application/json": {"schema": {"$ref": "#/components/schemas/OllamaAnswer"}},
              "application/x-ndjson": {"schema": {"type": "string"}}
            }
          },
          "4XX": {"$ref": "#/components/responses/OllamaError"},
          "5XX": {"$ref": "#/components/responses/OllamaError"}
        }
      }
    },
    "/api/embed": {
      "post": {
        "summary": "A vector of each text", "tags": ["Ollama"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaEmbedRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaEmbeddings"}}}
          },
          "4XX": {"$ref": "#/components/responses/OllamaError"},
          "5XX": {"$ref": "#/components/responses/OllamaError"}
        }
      }
    },
    "/api/show": {
      "post": {
        "summary": "What a model is", "tags": ["Ollama"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaShowRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaModel"}}}
          },
          "4XX": {"$ref": "#/components/responses/OllamaError"},
          "5XX": {"$ref": "#/components/responses/OllamaError"}
        }
      }
    },
    "/api/tags": {
      "get": {
        "summary": "The models that are served", "tags": ["Ollama"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {
              "application/json": {
                "schema": {
                  "type": "object", "required": ["models"],
                  "properties": {"models": {"type": "array", "items": {"type": "object"}}},
                  "additionalProperties": true
                }
              }
            }
          },
          "4XX": {"$ref": "#/components/responses/OllamaError"},
          "5XX": {"$ref": "#/components/responses/OllamaError"}
        }
      }
    },
    "/api/version": {
      "get": {
        "summary": "tern's version", "tags": ["Ollama"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Version"}}}
          },
          "4XX": {"$ref": "#/components/responses/OllamaError"},
          "5XX": {"$ref": "#/components/responses/OllamaError"}
        }
      }
    }
  },
  "components": {
    "schemas": {
      "OllamaChatRequest": {
        "type": "object", "required": ["model"],
        "properties": {
          "model": {"type": "string"}, "stream": {"type": ["boolean", "null"], "default": true},
          "options": {"anyOf": [{"$ref": "#/components/schemas/OllamaOptions"}, {"type": "null"}]},
          "format": {
            "anyOf": [
              {"anyOf": [{"type": "string", "enum": ["json", ""]}, {"type": "object"}]}, {"type": "null"}
            ]
          },
          "logprobs": {"type": ["boolean", "null"], "default": false},
          "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}, "keep_alive": {},
          "think": {
            "anyOf": [
              {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["low", "medium", "high"]}]},
              {"type": "null"}
            ]
          },
          "messages": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/OllamaMessage"}},
          "tools": {
            "type": ["array", "null"],
            "items": {
              "type": "object", "required": ["function"],
              "properties": {
                "type": {"type": "string", "enum": ["function"]},
                "function": {
                  "type": "object", "required": ["name"],
                  "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}},
                  "additionalProperties": true
                }
              },
              "additionalProperties": true
            }
          }
        },
        "additionalProperties": false
      },
      "OllamaGenerateRequest": {
        "type": "object", "required": ["model"],
        "properties": {
          "model": {"type": "string"}, "stream": {"type": ["boolean", "null"], "default": true},
          "options": {"anyOf": [{"$ref": "#/components/schemas/OllamaOptions"}, {"type": "null"}]},
          "format": {
            "anyOf": [
              {"anyOf": [{"type": "string", "enum": ["json", ""]}, {"type": "object"}]}, {"type": "null"}
            ]
          },
          "logprobs": {"type": ["boolean", "null"], "default": false},
          "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}, "keep_alive": {},
          "think": {
            "anyOf": [
              {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["low", "medium", "high"]}]},
              {"type": "null"}
            ]
          },
          "prompt": {"type": ["string", "null"]}, "system": {"type": ["string", "null"]},
          "images": {"type": ["array", "null"], "items": {"type": "string", "description": "base64"}},
          "raw": {"type": ["boolean", "null"], "default": false},
          "suffix": {"type": ["string", "null"], "maxLength": 0},
          "template": {"type": ["string", "null"], "maxLength": 0}
        },
        "additionalProperties": false
      },
      "OllamaEmbedRequest": {
        "type": "object", "required": ["model", "input"],
        "properties": {
          "model": {"type": "string"},
          "input": {
            "anyOf": [
              {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1},
              {
                "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647},
                "minItems": 1
              },
              {
                "type": "array",
                "items": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}},
                "minItems": 1
              }
            ],
            "description": "A text, token ids, or a list of either."
          },
          "truncate": {"anyOf": [{"type": "boolean", "enum": [false]}, {"type": "null"}]},
          "options": {
            "type": ["object", "null"],
            "properties": {
              "numa": {}, "num_batch": {}, "num_gpu": {}, "main_gpu": {}, "low_vram": {}, "use_mmap": {},
              "use_mlock": {}, "num_thread": {}
            },
            "additionalProperties": false
          },
          "keep_alive": {}
        },
        "additionalProperties": false
      },
      "OllamaShowRequest": {
        "type": "object", "required": ["model"], "properties": {"model": {"type": "string"}, "verbose": {}},
        "additionalProperties": false
      },
      "OllamaMessage": {
        "type": "object", "required": ["role"],
        "properties": {
          "role": {"type": "string", "enum": ["system", "user", "assistant", "tool"]},
          "content": {"type": ["string", "null"]},
          "images": {"type": ["array", "null"], "items": {"type": "string", "description": "base64"}},
          "thinking": {"type": ["string", "null"]}, "tool_name": {"type": ["string", "null"]},
          "tool_call_id": {"type": ["string", "null"]},
          "tool_calls": {
            "type": ["array", "null"],
            "items": {
              "type": "object", "required": ["function"],
              "properties": {
                "id": {"type": ["string", "null"]}, "type": {},
                "function": {
                  "type": "object", "required": ["name", "arguments"],
                  "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}, "index": {}},
                  "additionalProperties": false
                }
              },
              "additionalProperties": false
            }
          }
        },
        "additionalProperties": false
      },
      "OllamaOptions": {
        "type": "object",
        "properties": {
          "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 100},
          "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
          "repeat_penalty": {"type": ["number", "null"], "minimum": 0, "maximum": 100},
          "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
          "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
          "top_k": {"type": ["integer", "null"], "minimum": 0, "maximum": 2147483647},
          "seed": {"type": ["integer", "null"], "minimum": -1},
          "num_predict": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "integer", "minimum": -2, "maximum": -1}, {"type": "integer", "minimum": 1},
                  {"type": "null"}
                ]
              },
              {"type": "null"}
            ]
          },
          "stop": {
            "anyOf": [
              {
                "anyOf": [
                  {"type": "string", "minLength": 1},
                  {"type": "array", "items": {"type": "string", "minLength": 1}}, {"type": "null"}
                ]
              },
              {"type": "null"}
            ]
          },
          "num_ctx": {"type": ["integer", "null"], "minimum": 1, "description": "At most --max_model_len."},
          "numa": {}, "num_batch": {}, "num_gpu": {}, "main_gpu": {}, "low_vram": {}, "use_mmap": {},
          "use_mlock": {}, "num_thread": {}
        },
        "additionalProperties": false
      },
      "OllamaAnswer": {
        "type": "object", "required": ["model", "created_at", "done"],
        "properties": {
          "model": {"type": "string"}, "created_at": {"type": "string"}, "done": {"type": "boolean"}
        },
        "additionalProperties": true
      },
      "OllamaEmbeddings": {
        "type": "object", "required": ["model", "embeddings"],
        "properties": {
          "model": {"type": "string"},
          "embeddings": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
        },
        "additionalProperties": true
      },
      "OllamaModel": {
        "type": "object", "required": ["details", "model_info", "capabilities"],
        "properties": {
          "details": {"type": "object"}, "model_info": {"type": "object"},
          "capabilities": {"type": "array", "items": {"type": "string"}}
        },
        "additionalProperties": true
      },
      "OllamaErrorBody": {
        "type": "object", "required": ["error"], "properties": {"error": {"type": "string"}},
        "additionalProperties": true
      }
    },
    "responses": {
      "OllamaError": {
        "description": "Why not, as Ollama says it",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OllamaErrorBody"}}}
      }
    }
  }
})json";
}

}  // namespace tern::server::ollama
