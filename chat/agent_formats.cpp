// The texts are those of the published templates of Qwen2.5 (hermes), Qwen3-Coder, Qwen3.5, GLM-4-0414 and GLM-4.6, of
// the model cards of Llama 3.1 and DeepSeek-V3.1, and of Mistral's tokenizer v3.
#include "base/strings.h"
#include "chat/agent_template.h"
#include "chat/react_formats.h"

namespace tern::chat {
namespace {

constexpr std::string_view kHermesTools =
    R"({{ system ~ '\n\n' if system else '' }})"
    R"({{ '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' }})"
    R"({{ 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>' }})"
    R"({% for tool in tools %}{{ '\n' ~ (tool | tojson) }}{% endfor %})"
    R"({{ '\n</tools>\n\nFor each function call, return a json object with function name and arguments within ' }})"
    R"({{ '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, ' }})"
    R"({{ '"arguments": <args-json-object>}\n</tool_call>' }})";
constexpr std::string_view kHermesCalls =
    R"({{ content ~ '\n' if content else '' }}{% for call in calls %}{{ '' if loop.first else '\n' }})"
    R"({{ '<tool_call>\n{"name": ' ~ (call.name | tojson) ~ ', "arguments": ' ~ (call.arguments | tojson) }})"
    R"({{ '}\n</tool_call>' }}{% endfor %})";
constexpr std::string_view kHermesResponses =
    R"({% for text in responses %}{{ '' if loop.first else '\n' }}{{ '<tool_response>\n' ~ text }})"
    R"({{ '\n</tool_response>' }}{% endfor %})";

constexpr std::string_view kQwenHowToCall =
    R"({{ '\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n' }})"
    R"({{ '<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n' }})"
    R"({{ '</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second parameter\n' }})"
    R"({{ 'that can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n' }})"
    R"({{ '- Function calls MUST follow the specified format: an inner <function=...></function> block must be ' }})"
    R"({{ 'nested within <tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n' }})"
    R"({{ '- You may provide optional reasoning for your function call in natural language BEFORE the function ' }})"
    R"({{ 'call, but NOT after\n- If there is no function call available, answer the question like normal with ' }})"
    R"({{ 'your current knowledge and do not tell the user about function calls\n</IMPORTANT>' }})";
constexpr std::string_view kQwenCoderTools =
    R"({%- macro extra(object, known) %}{% if object is mapping %}{% for key in object if key not in known %})"
    R"({{ '\n<' ~ key ~ '>' ~ (object[key] | tojson) ~ '</' ~ key ~ '>' }}{% endfor %}{% endif %}{% endmacro %})"
    R"({{ system or 'You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.' }})"
    R"({{ '\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>' }})"
    R"({% for wrapped in tools %}{% set tool = wrapped.function %})"
    R"({{ '\n<function>\n<name>' ~ tool.name ~ '</name>' }})"
    R"({% if tool.description is defined %}{{ '\n<description>' ~ (tool.description | trim) ~ '</description>' }})"
    R"({% endif %}{{ '\n<parameters>' }})"
    R"({% if tool.parameters is mapping and tool.parameters.properties is mapping %})"
    R"({% for name, fields in tool.parameters.properties | items %})"
    R"({{ '\n<parameter>\n<name>' ~ name ~ '</name>' }})"
    R"({% if fields.type is defined %}{{ '\n<type>' ~ fields.type ~ '</type>' }}{% endif %})"
    R"({% if fields.description is defined %}{{ '\n<description>' ~ (fields.description | trim) }})"
    R"({{ '</description>' }}{% endif %}{{ extra(fields, ['name', 'type', 'description']) }}{{ '\n</parameter>' }})"
    R"({% endfor %}{% endif %}{{ extra(tool.parameters, ['type', 'properties']) }}{{ '\n</parameters>' }})"
    R"({{ extra(tool, ['type', 'name', 'description', 'parameters']) }}{{ '\n</function>' }}{% endfor %})";
constexpr std::string_view kQwenCoderCalls =
    R"({{ (content | trim) ~ '\n\n' if content | trim else '' }}{% for call in calls %})"
    R"({{ '' if loop.first else '\n' }}{{ '<tool_call>\n<function=' ~ call.name ~ '>\n' }})"
    R"({% for name, value in call.arguments | items %}{{ '<parameter=' ~ name ~ '>\n' }})"
    R"({{ value if value is string else value | tojson }}{{ '\n</parameter>\n' }}{% endfor %})"
    R"({{ '</function>\n</tool_call>' }}{% endfor %})";
constexpr std::string_view kQwenCoderResponses =
    R"({% for text in responses %}{{ '<tool_response>\n' ~ text ~ '\n</tool_response>\n' }}{% endfor %})";
constexpr std::string_view kQwen35Tools = R"({{ '# Tools\n\nYou have access to the following functions:\n\n<tools>' }})"
                                          R"({% for tool in tools %}{{ '\n' ~ (tool | tojson) }}{% endfor %})";
constexpr std::string_view kQwen35System = R"({{ '\n\n' ~ system if system else '' }})";

constexpr std::string_view kLlamaQuestion =
    R"({{ 'Given the following functions, please respond with a JSON for a function call with its proper ' }})"
    R"({{ 'arguments that best answers the given prompt.\n\nRespond in the format {"name": function name, ' }})"
    R"({{ '"parameters": dictionary of argument name and its value}. Do not use variables.\n\n' }})"
    R"({% for tool in tools %}{{ (tool | tojson(indent=4)) ~ '\n\n' }}{% endfor %}{{ content }})";
constexpr std::string_view kLlamaCalls =
    R"({{ content }}{% for call in calls %}{{ '' if loop.first else '\n' }}{{ '{"name": ' ~ (call.name | tojson) }})"
    R"({{ ', "parameters": ' ~ (call.arguments | tojson) ~ '}' }}{% endfor %})";

constexpr std::string_view kMistralTools =
    R"({{ system ~ '[AVAILABLE_TOOLS]' }}{% for tool in tools %}{{ '' if loop.first else ' ' }}{{ tool | tojson }})"
    R"({% endfor %}{{ '[/AVAILABLE_TOOLS]' }})";
constexpr std::string_view kMistralCalls =
    R"({{ content ~ '[TOOL_CALLS][' }}{% for call in calls %}{{ '' if loop.first else ', ' }})"
    R"({{ '{"name": ' ~ (call.name | tojson) ~ ', "arguments": ' ~ (call.arguments | tojson) ~ '}' }}{% endfor %})"
    R"({{ ']' }})";
constexpr std::string_view kMistralResponses =
    R"({% for text in responses %}{{ '' if loop.first else '\n' }}{{ '[TOOL_RESULTS]{"content": ' }})"
    R"({{ (text | tojson) ~ '}[/TOOL_RESULTS]' }}{% endfor %})";

constexpr std::string_view kDeepSeekTools =
    R"({{ system ~ '\n\n## Tools\nYou have access to the following tools:' }})"
    R"({% for wrapped in tools %}{% set tool = wrapped.function %})"
    R"({{ '\n\n### ' ~ tool.name ~ '\nDescription: ' ~ (tool.description or '') ~ '\n\nParameters: ' }})"
    R"({{ (tool.parameters or {}) | tojson }}{% endfor %})"
    R"({{ '\n\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n<｜tool▁calls▁begin｜>' }})"
    R"({{ '<｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>' }})"
    R"({{ '{additional_tool_calls}<｜tool▁calls▁end｜>\n\nWhere:\n- `tool_call_name` must be an exact match to ' }})"
    R"({{ 'one of the available tools\n- `tool_call_arguments` must be valid JSON that strictly follows the tool' }})"
    R"({{ "'s Parameters Schema\n- For multiple tool calls, chain them directly without separators or spaces" }})";
constexpr std::string_view kDeepSeekCalls =
    R"({{ content ~ '<｜tool▁calls▁begin｜>' }}{% for call in calls %}{{ '<｜tool▁call▁begin｜>' ~ call.name }})"
    R"({{ '<｜tool▁sep｜>' ~ (call.arguments | tojson) ~ '<｜tool▁call▁end｜>' }}{% endfor %})"
    R"({{ '<｜tool▁calls▁end｜>' }})";

constexpr std::string_view kGlm4Tools =
    R"({{ '# 可用工具\n' }}{% for wrapped in tools %}{% set tool = wrapped.function %})"
    R"({{ '\n## ' ~ tool.name ~ '\n\n' ~ (tool | tojson(indent=4)) }})"
    R"({{ '\n在调用上述函数时，请使用 Json 格式表示调用的参数。' }}{% endfor %})"
    R"({{ '<|system|>\n' ~ system if system else '' }})";
constexpr std::string_view kGlm4Calls =
    R"({{ content }}{% for call in calls %}{{ '' if loop.first else '<|assistant|>' }})"
    R"({{ call.name ~ '\n' ~ (call.arguments | tojson) }}{% endfor %})";
constexpr std::string_view kGlm45Tools =
    R"({{ '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' }})"
    R"({{ 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>' }})"
    R"({% for tool in tools %}{{ '\n' ~ (tool | tojson) }}{% endfor %})"
    R"({{ '\n</tools>\n\nFor each function call, output the function name and arguments within the following XML ' }})"
    R"({{ 'format:\n<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>{arg-value-1}' }})"
    R"({{ '</arg_value>\n<arg_key>{arg-key-2}</arg_key>\n<arg_value>{arg-value-2}</arg_value>\n...\n</tool_call>' }})"
    R"({{ '<|system|>\n' ~ (system | trim) if system | trim else '' }})";
constexpr std::string_view kGlm45Calls =
    R"({{ (content | trim) ~ '\n' if content | trim else '' }}{% for call in calls %})"
    R"({{ '' if loop.first else '\n' }}{{ '<tool_call>' ~ call.name }}{% for key, value in call.arguments | items %})"
    R"({{ '\n<arg_key>' ~ key ~ '</arg_key>\n<arg_value>' ~ (value if value is string else value | tojson) }})"
    R"({{ '</arg_value>' }}{% endfor %}{{ '\n</tool_call>' }}{% endfor %})";

}  // namespace

const std::vector<AgentFormat>& agent_formats() {
  static const std::vector<AgentFormat> formats = [] {
    std::vector<AgentFormat> all = {
        {"hermes", std::string(kHermesTools), {}, std::string(kHermesCalls), std::string(kHermesResponses), "user"},
        {"qwen3_coder",
         cat(kQwenCoderTools, kQwenHowToCall),
         {},
         std::string(kQwenCoderCalls),
         std::string(kQwenCoderResponses),
         "user"},
        {"qwen3_5",
         cat(kQwen35Tools, kQwenHowToCall, kQwen35System),
         {},
         std::string(kQwenCoderCalls),
         std::string(kHermesResponses),
         "user"},
        {"llama3", {}, std::string(kLlamaQuestion), std::string(kLlamaCalls), {}, "tool"},
        {"mistral", std::string(kMistralTools), {}, std::string(kMistralCalls), std::string(kMistralResponses), "user"},
        {"deepseek_v3_1", std::string(kDeepSeekTools), {}, std::string(kDeepSeekCalls), {}, "tool"},
        {"glm4", std::string(kGlm4Tools), {}, std::string(kGlm4Calls), {}, "observation"},
        {"glm4_5", std::string(kGlm45Tools), {}, std::string(kGlm45Calls), {}, "tool"},
    };
    for (AgentFormat& one : react_formats()) all.push_back(std::move(one));
    return all;
  }();
  return formats;
}

}  // namespace tern::chat
