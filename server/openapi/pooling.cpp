#include "server/openapi/fragments.h"

namespace tern::server {

// What is made of whole texts, as vLLM serves it.
std::string_view pooling_openapi() {
  return R"json({
  "paths": {
    "/rerank": {
      "post": {
        "summary": "How relevant texts are to a query", "tags": ["Relevance"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RerankRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Rerank"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v1/rerank": {
      "post": {
        "summary": "How relevant texts are to a query", "tags": ["Relevance"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RerankRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Rerank"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v2/rerank": {
      "post": {
        "summary": "How relevant texts are to a query", "tags": ["Relevance"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RerankRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Rerank"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/score": {
      "post": {
        "summary": "How relevant texts are to others", "tags": ["Relevance"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ScoreRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Scored"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/v1/score": {
      "post": {
        "summary": "How relevant texts are to others", "tags": ["Relevance"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ScoreRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Scored"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/classify": {
      "post": {
        "summary": "Labels, of a model that has some", "tags": ["Relevance"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ClassifyRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Scored"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    },
    "/pooling": {
      "post": {
        "summary": "A vector of each text or token, or the probabilities of its labels", "tags": ["Relevance"],
        "requestBody": {
          "required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PoolingRequest"}}}
        },
        "responses": {
          "200": {
            "description": "The answer",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Scored"}}}
          },
          "4XX": {"$ref": "#/components/responses/Error"}, "5XX": {"$ref": "#/components/responses/Error"}
        }
      }
    }
  },
  "components": {
    "schemas": {
      "RerankRequest": {
        "type": "object", "required": ["query", "documents"],
        "properties": {
          "model": {"type": ["string", "null"]}, "query": {"type": "string"},
          "instruction": {"type": ["string", "null"]},
          "documents": {
            "type": "array",
            "items": {
              "anyOf": [
                {"type": "string"},
                {
                  "type": "object", "required": ["text"], "properties": {"text": {"type": "string"}},
                  "additionalProperties": true
                }
              ]
            },
            "minItems": 1
          },
          "top_n": {"type": ["integer", "null"], "minimum": 0},
          "return_documents": {"type": ["boolean", "null"], "default": true},
          "use_activation": {"type": ["boolean", "null"]}, "activation": {"type": ["boolean", "null"]},
          "softmax": {"type": ["boolean", "null"]}, "user": {}
        },
        "additionalProperties": false
      },
      "Rerank": {
        "type": "object", "required": ["id", "model", "usage"],
        "properties": {
          "id": {"type": "string"}, "model": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"}
        },
        "additionalProperties": true
      },
      "ScoreRequest": {
        "anyOf": [
          {
            "type": "object", "required": ["text_1", "text_2"],
            "properties": {
              "model": {"type": ["string", "null"]}, "text_1": {"$ref": "#/components/schemas/Texts"},
              "text_2": {"$ref": "#/components/schemas/Texts"},
              "encoding_format": {"anyOf": [{"type": "string", "enum": ["float"]}, {"type": "null"}]},
              "use_activation": {"type": ["boolean", "null"]}, "activation": {"type": ["boolean", "null"]},
              "softmax": {"type": ["boolean", "null"]}, "user": {}
            },
            "additionalProperties": false
          },
          {
            "type": "object", "required": ["queries", "documents"],
            "properties": {
              "model": {"type": ["string", "null"]}, "queries": {"$ref": "#/components/schemas/Texts"},
              "documents": {"$ref": "#/components/schemas/Texts"},
              "encoding_format": {"anyOf": [{"type": "string", "enum": ["float"]}, {"type": "null"}]},
              "use_activation": {"type": ["boolean", "null"]}, "activation": {"type": ["boolean", "null"]},
              "softmax": {"type": ["boolean", "null"]}, "user": {}
            },
            "additionalProperties": false
          }
        ]
      },
      "Texts": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
      },
      "ClassifyRequest": {
        "anyOf": [
          {
            "type": "object", "required": ["input"],
            "properties": {
              "model": {"type": ["string", "null"]}, "input": {"$ref": "#/components/schemas/InputTexts"},
              "add_special_tokens": {"type": ["boolean", "null"], "default": true},
              "truncate_prompt_tokens": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"enum": [-1, null]}],
                "description": "A longer text is cut to so many tokens; -1: to what the model takes."
              },
              "truncation_side": {"enum": ["left", "right", null]},
              "use_activation": {"type": ["boolean", "null"], "description": "false: the logits"},
              "activation": {"type": ["boolean", "null"]}, "softmax": {"type": ["boolean", "null"]},
              "user": {}, "request_id": {}, "priority": {}
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
              "add_generation_prompt": {"type": ["boolean", "null"], "default": false},
              "continue_final_message": {"type": ["boolean", "null"], "default": false},
              "chat_template_kwargs": {"type": ["object", "null"]},
              "add_special_tokens": {"enum": [false, null]},
              "truncate_prompt_tokens": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"enum": [-1, null]}],
                "description": "A longer text is cut to so many tokens; -1: to what the model takes."
              },
              "truncation_side": {"enum": ["left", "right", null]},
              "use_activation": {"type": ["boolean", "null"], "description": "false: the logits"},
              "activation": {"type": ["boolean", "null"]}, "softmax": {"type": ["boolean", "null"]},
              "user": {}, "request_id": {}, "priority": {}
            },
            "additionalProperties": false
          }
        ]
      },
      "PoolingRequest": {
        "anyOf": [
          {
            "type": "object", "required": ["input"],
            "properties": {
              "model": {"type": ["string", "null"]}, "input": {"$ref": "#/components/schemas/InputTexts"},
              "add_special_tokens": {"type": ["boolean", "null"], "default": true},
              "truncate_prompt_tokens": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"enum": [-1, null]}],
                "description": "A longer text is cut to so many tokens; -1: to what the model takes."
              },
              "truncation_side": {"enum": ["left", "right", null]},
              "use_activation": {"type": ["boolean", "null"], "description": "false: the logits, or the vector of its own length"},
              "activation": {"type": ["boolean", "null"]}, "softmax": {"type": ["boolean", "null"]},
              "encoding_format": {"enum": ["float", "base64", null]},
              "task": {
                "enum": ["classify", "embed", "token_classify", "token_embed", null],
                "description": "token_...: of each token"
              },
              "user": {}, "request_id": {}, "priority": {}
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
              "add_generation_prompt": {"type": ["boolean", "null"], "default": false},
              "continue_final_message": {"type": ["boolean", "null"], "default": false},
              "chat_template_kwargs": {"type": ["object", "null"]},
              "add_special_tokens": {"enum": [false, null]},
              "truncate_prompt_tokens": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"enum": [-1, null]}],
                "description": "A longer text is cut to so many tokens; -1: to what the model takes."
              },
              "truncation_side": {"enum": ["left", "right", null]},
              "use_activation": {"type": ["boolean", "null"], "description": "false: the logits, or the vector of its own length"},
              "activation": {"type": ["boolean", "null"]}, "softmax": {"type": ["boolean", "null"]},
              "encoding_format": {"enum": ["float", "base64", null]},
              "task": {
                "enum": ["classify", "embed", "token_classify", "token_embed", null],
                "description": "token_...: of each token"
              },
              "user": {}, "request_id": {}, "priority": {}
            },
            "additionalProperties": false
          }
        ]
      },
      "EmbeddingRequest": {
        "anyOf": [
          {
            "type": "object", "required": ["input"],
            "properties": {
              "model": {"type": ["string", "null"]}, "input": {"$ref": "#/components/schemas/InputTexts"},
              "add_special_tokens": {"type": ["boolean", "null"], "default": true},
              "truncate_prompt_tokens": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"enum": [-1, null]}],
                "description": "A longer text is cut to so many tokens; -1: to what the model takes."
              },
              "truncation_side": {"enum": ["left", "right", null]},
              "encoding_format": {"enum": ["float", "base64", null]},
              "dimensions": {
                "type": ["integer", "null"], "minimum": 1, "description": "At most as many as the model gives."
              },
              "user": {}, "request_id": {}, "priority": {}
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
              "add_generation_prompt": {"type": ["boolean", "null"], "default": false},
              "continue_final_message": {"type": ["boolean", "null"], "default": false},
              "chat_template_kwargs": {"type": ["object", "null"]},
              "add_special_tokens": {"enum": [false, null]},
              "truncate_prompt_tokens": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"enum": [-1, null]}],
                "description": "A longer text is cut to so many tokens; -1: to what the model takes."
              },
              "truncation_side": {"enum": ["left", "right", null]},
              "encoding_format": {"enum": ["float", "base64", null]},
              "dimensions": {
                "type": ["integer", "null"], "minimum": 1, "description": "At most as many as the model gives."
              },
              "user": {}, "request_id": {}, "priority": {}
            },
            "additionalProperties": false
          }
        ]
      },
      "InputTexts": {
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
      "Scored": {
        "type": "object", "required": ["id", "model", "usage"],
        "properties": {
          "id": {"type": "string"}, "model": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"}
        },
        "additionalProperties": true
      }
    }
  }
})json";
}

}  // namespace tern::server
