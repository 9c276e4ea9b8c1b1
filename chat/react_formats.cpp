// The words are those of Qwen's guide to function calling (ReAct) and of Qwen-Agent's prompts, whose models read them.
// Arguments are written as Python shows a dict, as ms-swift does.
#include "chat/react_formats.h"

#include "base/strings.h"

namespace tern::chat {
namespace {

// Of each tool: how it is named to the model and to people, what it does, and its parameters.
constexpr std::string_view kEachTool =
    R"({% for wrapped in tools %}{% set tool = wrapped.function %}{% set name = tool.name_for_model or tool.name %})"
    R"({% set human = tool.name_for_human or name %})"
    R"({% set does = tool.description if tool.description is string else tool.description_for_model %})"
    R"({% set takes = tool.parameters if tool.parameters is string else (tool.parameters or {}) | tojson %})"
    R"({{ '' if loop.first else '\n\n' }})";
constexpr std::string_view kEnd = R"({% endfor %})";
constexpr std::string_view kNames = R"({% for wrapped in tools %}{{ '' if loop.first else ',' }})"
                                    R"({{ wrapped.function.name_for_model or wrapped.function.name }}{% endfor %})";

constexpr std::string_view kEnglishArguments = R"({{ takes ~ ' Format the arguments as a JSON object.' }})";
constexpr std::string_view kChineseArguments = R"({{ takes ~ ' 此工具的输入应为JSON对象。' }})";

std::string react_english() {
  return cat(
      R"({{ 'Answer the following questions as best you can. You have access to the following tools:\n\n' }})",
      kEachTool, R"({{ name ~ ': Call this tool to interact with the ' ~ human ~ ' API. What is the ' ~ human }})",
      R"({{ ' API useful for? ' ~ does ~ ' Parameters: ' }})", kEnglishArguments, kEnd,
      R"({{ '\n\nUse the following format:\n\nQuestion: the input question you must answer\nThought: you should always ' }})",
      R"({{ 'think about what to do\nAction: the action to take, should be one of [' }})", kNames,
      R"({{ ']\nAction Input: the input to the action\nObservation: the result of the action\n... (this ' }})",
      R"({{ 'Thought/Action/Action Input/Observation can be repeated zero or more times)\nThought: I now know the ' }})",
      R"({{ 'final answer\nFinal Answer: the final answer to the original input question\n\nBegin!\n' }})");
}

std::string react_chinese() {
  return cat(
      R"({{ '尽可能地回答以下问题。你可以使用以下工具:\n\n' }})", kEachTool,
      R"({{ name ~ ': 调用此工具与 ' ~ human ~ ' API 进行交互。' ~ human ~ ' 有什么用？' ~ does ~ ' 输入参数：' }})",
      kChineseArguments, kEnd,
      R"({{ '\n\n请按照以下格式进行:\n\nQuestion: 需要你回答的输入问题\nThought: 你应该总是思考该做什么\n' }})",
      R"({{ 'Action: 需要使用的工具，应该是[' }})", kNames,
      R"({{ ']中的一个\nAction Input: 传入工具的内容\nObservation: 行动的结果\n' }})",
      R"({{ '... (这个Thought/Action/Action Input/Observation可以重复N次)\nThought: 我现在知道最后的答案\n' }})",
      R"({{ 'Final Answer: 对原始输入问题的最终答案\n\n现在开始！\n' }})");
}

// The tools of Qwen-Agent, and behind them how to call one or several.
std::string qwen_english(std::string_view how) {
  return cat(R"({{ system ~ '\n\n# Tools\n\n## You have access to the following tools:\n\n' }})", kEachTool,
             R"({{ '### ' ~ human ~ '\n\n' ~ name ~ ': ' ~ does ~ ' Parameters: ' }})", kEnglishArguments, kEnd, how,
             R"({{ '✿RETURN✿: Reply based on tool results. Images need to be rendered as ![](url)' }})");
}

std::string qwen_chinese(std::string_view how) {
  return cat(R"({{ system ~ '\n\n# 工具\n\n## 你拥有如下工具：\n\n' }})", kEachTool,
             R"({{ '### ' ~ human ~ '\n\n' ~ name ~ ': ' ~ does ~ ' 输入参数：' }})", kChineseArguments, kEnd, how,
             R"({{ '✿RETURN✿: 根据工具结果进行回复，需将图片用![](url)渲染出来' }})");
}

std::string english_one() {
  return cat(
      R"({{ '\n\n## When you need to call a tool, please insert the following command in your reply, which can be ' }})",
      R"({{ 'called zero or multiple times according to your needs:\n\n✿FUNCTION✿: The tool to use, should be one of [' }})",
      kNames, R"({{ ']\n✿ARGS✿: The input of the tool\n✿RESULT✿: Tool results\n' }})");
}

std::string english_several() {
  return cat(
      R"({{ '\n\n## Insert the following command in your reply when you need to call N tools in parallel:\n\n' }})",
      R"({{ '✿FUNCTION✿: The name of tool 1, should be one of [' }})", kNames,
      R"({{ ']\n✿ARGS✿: The input of tool 1\n✿FUNCTION✿: The name of tool 2\n✿ARGS✿: The input of tool 2\n...\n' }})",
      R"({{ '✿FUNCTION✿: The name of tool N\n✿ARGS✿: The input of tool N\n✿RESULT✿: The result of tool 1\n' }})",
      // As the models have read it.
      R"({{ '✿RESULT✿: The result of tool 2\n...\n✿RESULT✿: he result of tool N\n' }})");
}

std::string chinese_one() {
  return cat(
      R"({{ '\n\n## 你可以在回复中插入零次、一次或多次以下命令以调用工具：\n\n✿FUNCTION✿: 工具名称，必须是[' }})",
      kNames, R"({{ ']之一。\n✿ARGS✿: 工具输入\n✿RESULT✿: 工具结果\n' }})");
}

std::string chinese_several() {
  return cat(
      R"({{ '\n\n## 你可以在回复中插入以下命令以并行调用N个工具：\n\n✿FUNCTION✿: 工具1的名称，必须是[' }})", kNames,
      R"({{ ']之一\n✿ARGS✿: 工具1的输入\n✿FUNCTION✿: 工具2的名称\n✿ARGS✿: 工具2的输入\n...\n' }})",
      R"({{ '✿FUNCTION✿: 工具N的名称\n✿ARGS✿: 工具N的输入\n✿RESULT✿: 工具1的结果\n✿RESULT✿: 工具2的结果\n...\n' }})",
      R"({{ '✿RESULT✿: 工具N的结果\n' }})");
}

AgentFormat with_words(std::string_view name, std::string system, std::string_view action,
                       std::string_view action_input, std::string_view observation) {
  AgentFormat made;
  made.name = name;
  made.system = std::move(system);
  made.calls = cat(R"({{ content }}{% for call in calls %}{{ ')", action, R"( ' ~ call.name ~ '\n)", action_input,
                   R"( ' ~ call.arguments ~ '\n' }}{% endfor %}{{ ')", observation, R"(' }})");
  made.action = action;
  made.action_input = action_input;
  made.observation = observation;
  return made;
}

AgentFormat react(std::string_view name, std::string system) {
  AgentFormat made = with_words(name, std::move(system), "Action:", "Action Input:", "Observation:");
  made.after_question = true;
  return made;
}

AgentFormat qwen(std::string_view name, std::string system) {
  return with_words(name, std::move(system), "✿FUNCTION✿:", "✿ARGS✿:", "✿RESULT✿:");
}

}  // namespace

std::vector<AgentFormat> react_formats() {
  return {react("react_en", react_english()),
          react("react_zh", react_chinese()),
          qwen("qwen_en", qwen_english(english_one())),
          qwen("qwen_zh", qwen_chinese(chinese_one())),
          qwen("qwen_en_parallel", qwen_english(english_several())),
          qwen("qwen_zh_parallel", qwen_chinese(chinese_several()))};
}

}  // namespace tern::chat
