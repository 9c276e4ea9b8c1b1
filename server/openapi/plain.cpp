#include "server/openapi/fragments.h"

namespace tern::server {

// The server's own routes, and those of vLLM that are no protocol's.
std::string_view plain_openapi() {
  return R"json({
  "paths": {
    "/health": {
      "get": {
        "summary": "200 while the engine serves", "tags": ["Server"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {"type": "object"}}}},
          "5XX": {"$ref": "#/components/responses/Error"}
        },
        "security": []
      }
    },
    "/ping": {
      "get": {
        "summary": "200 while the engine serves", "tags": ["Server"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {"type": "object"}}}},
          "5XX": {"$ref": "#/components/responses/Error"}
        },
        "security": []
      },
      "post": {
        "summary": "200 while the engine serves", "tags": ["Server"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {"type": "object"}}}},
          "5XX": {"$ref": "#/components/responses/Error"}
        },
        "security": []
      }
    },
    "/version": {
      "get": {
        "summary": "tern's version", "tags": ["Server"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Version"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/load": {
      "get": {
        "summary": "Requests on their way", "tags": ["Server"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {
              "application/json": {
                "schema": {
                  "type": "object", "required": ["server_load"],
                  "properties": {"server_load": {"type": "integer", "minimum": 0}},
                  "additionalProperties": false
                }
              }
            }
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/metrics": {
      "get": {
        "summary": "Prometheus' metrics, under vLLM's names", "tags": ["Server"],
        "responses": {
          "200": {"description": "The answer", "content": {"text/plain": {"schema": {"type": "string"}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/openapi.json": {
      "get": {
        "summary": "This document", "tags": ["Server"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {"type": "object"}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/sleep": {
      "post": {
        "summary": "Gives the memory of weights and cache back", "tags": ["Server"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {"type": "object"}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/wake_up": {
      "post": {
        "summary": "Reads the weights again", "tags": ["Server"],
        "responses": {
          "200": {"description": "The answer", "content": {"application/json": {"schema": {"type": "object"}}}},
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/is_sleeping": {
      "get": {
        "summary": "Whether the memory is given back", "tags": ["Server"],
        "responses": {
          "200": {
            "description": "The answer",
            "content": {
              "application/json": {
                "schema": {
                  "type": "object", "required": ["is_sleeping"],
                  "properties": {"is_sleeping": {"type": "boolean"}}, "additionalProperties": false
                }
              }
            }
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/tokenize": {
      "post": {
        "summary": "Ids of a text or a dialogue", "tags": ["Tokens"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TokenizeRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tokens"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/detokenize": {
      "post": {
        "summary": "The text of ids", "tags": ["Tokens"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DetokenizeRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Text"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/": {
      "get": {
        "summary": "The chat page", "tags": ["Pages"],
        "responses": {
          "200": {"description": "The answer", "content": {"text/html": {"schema": {"type": "string"}}}},
          "5XX": {"$ref": "#/components/responses/Error"}
        },
        "security": []
      }
    },
    "/dashboard": {
      "get": {
        "summary": "The page of figures", "tags": ["Pages"],
        "responses": {
          "200": {"description": "The answer", "content": {"text/html": {"schema": {"type": "string"}}}},
          "5XX": {"$ref": "#/components/responses/Error"}
        },
        "security": []
      }
    }
  },
  "components": {
    "schemas": {
      "Version": {
        "type": "object", "required": ["version"], "properties": {"version": {"type": "string"}},
        "additionalProperties": false
      },
      "TokenizeRequest": {
        "anyOf": [
          {
            "type": "object", "required": ["prompt"],
            "properties": {
              "model": {"type": ["string", "null"]}, "prompt": {"type": "string"},
              "add_special_tokens": {"type": ["boolean", "null"], "default": true},
              "return_token_strs": {"type": ["boolean", "null"], "default": false}
            },
            "additionalProperties": false
          },
          {
            "type": "object", "required": ["messages"],
            "properties": {
              "model": {"type": ["string", "null"]},
              "messages": {
                "type": "array", "items": {"$ref": "#/components/schemas/ChatMessage"}, "minItems": 1
              },
              "tools": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/ChatTool"}},
              "add_generation_prompt": {"type": ["boolean", "null"], "default": true},
              "continue_final_message": {"type": ["boolean", "null"], "default": false},
              "chat_template_kwargs": {"type": ["object", "null"]}, "add_special_tokens": {},
              "return_token_strs": {"type": ["boolean", "null"], "default": false}
            },
            "additionalProperties": false
          }
        ]
      },
      "Tokens": {
        "type": "object", "required": ["count", "max_model_len", "tokens", "token_strs"],
        "properties": {
          "count": {"type": "integer", "minimum": 0}, "max_model_len": {"type": "integer", "minimum": 1},
          "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}},
          "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}
        },
        "additionalProperties": false
      },
      "DetokenizeRequest": {
        "type": "object", "required": ["tokens"],
        "properties": {
          "model": {"type": ["string", "null"]},
          "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}}
        },
        "additionalProperties": false
      },
      "Text": {
        "type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}},
        "additionalProperties": false
      },
      "ErrorBody": {
        "type": "object", "required": ["error"],
        "properties": {
          "error": {
            "type": "object", "required": ["message", "type", "param", "code"],
            "properties": {
              "message": {"type": "string"}, "type": {"type": "string"}, "param": {"type": ["string", "null"]},
              "code": {"type": "integer", "minimum": 400, "maximum": 599}
            },
            "additionalProperties": true
          }
        },
        "additionalProperties": true
      }
    },
    "responses": {
      "Error": {
        "description": "Why not, as OpenAI says it",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
      }
    },
    "securitySchemes": {
      "bearer": {"type": "http", "scheme": "bearer"},
      "key": {"type": "apiKey", "in": "header", "name": "x-api-key"}
    }
  }
})json";
}

}  // namespace tern::server
