// Colours for code: comments, strings, numbers, keywords, names that are called. One pass of one expression a language;
// what it gets wrong is a colour, never the text.

const words = (text) => new Set(text.split(" "));

const kCommon = "if else for while do return break continue switch case default try catch finally throw new class " +
  "struct enum interface extends implements import export from package public private protected static const true " +
  "false null this super void";
const kC = words(`${kCommon} auto bool char double float int long short signed unsigned size_t goto inline extern ` +
  "typedef union volatile register sizeof namespace using template typename virtual override operator friend constexpr " +
  "nullptr delete explicit noexcept concept requires co_await co_return co_yield final mutable decltype string var let " +
  "abstract async await boolean byte instanceof throws synchronized get set in is out ref foreach where yield object");
const kScript = words(`${kCommon} let var function async await of in instanceof typeof yield delete undefined get set ` +
  "type readonly declare abstract keyof infer any string number boolean never unknown as satisfies");
const kRust = words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match " +
  "mod move mut pub ref return self Self static struct super trait true type unsafe use where while bool char f32 f64 i8 " +
  "i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize str String Vec Option Result Some None Ok Err");
const kGo = words("break case chan const continue default defer else fallthrough for func go goto if import interface map " +
  "package range return select struct switch type var true false nil bool byte error float32 float64 int int32 int64 " +
  "rune string uint uint8 uint32 uint64 make new append len cap");
const kJvm = words(`${kCommon} fun val var when object companion data sealed override open internal lateinit by in is as ` +
  "def trait match with yield lazy implicit func guard let protocol extension self init deinit where some inout mutating");
const kPython = words("and as assert async await break class continue def del elif else except finally for from global if " +
  "import in is lambda nonlocal not or pass raise return try while with yield match case True False None self");
const kShell = words("if then else elif fi for while until do done case esac in function return exit export local readonly " +
  "set unset shift source alias echo cd sudo");
const kSql = words("select from where insert into values update set delete create table view index drop alter add primary " +
  "key foreign references not null unique default join left right inner outer full cross on as and or in is like " +
  "between exists group by order having limit offset union all distinct case when then else end with begin commit " +
  "rollback count sum avg min max int integer text varchar boolean date timestamp true false");
const kLua = words("and break do else elseif end false for function goto if in local nil not or repeat return then true until while");
const kRuby = words("alias and begin break case class def defined do else elsif end ensure false for if in module next nil " +
  "not or redo rescue retry return self super then true undef unless until when while yield require puts attr_accessor");
const kData = words("true false null yes no on off");
const kMath = words("function end if else elseif for while break continue return struct module using import true false nothing begin " +
  "let local global const do try catch in NULL TRUE FALSE library NA");

const kSlashes = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|(?![\s\S]))`;
const kHash = String.raw`#[^\n]*`;
const kDashes = String.raw`--[^\n]*`;
const kQuotes = String.raw`"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?`;
const kTicks = "`(?:\\\\[\\s\\S]|[^`\\\\])*`?";
const kTriple = String.raw`"""[\s\S]*?(?:"""|(?![\s\S]))|'''[\s\S]*?(?:'''|(?![\s\S]))`;
const kChar = String.raw`"(?:\\[\s\S]|[^"\\])*"?|'(?:\\[^\n]{1,8}|[^'\\\n])'`;

const family = (keywords, comment, string, options = {}) => ({keywords, comment, string, ...options});
const kFamilies = {
  c: family(kC, `${kSlashes}|${String.raw`^[ \t]*#[ \t]*\w+`}`, kQuotes),
  script: family(kScript, kSlashes, `${kQuotes}|${kTicks}`),
  rust: family(kRust, kSlashes, kChar),
  go: family(kGo, kSlashes, `${kQuotes}|${kTicks}`),
  jvm: family(kJvm, kSlashes, `${kTriple}|${kQuotes}`),
  python: family(kPython, kHash, `[rbfuRBFU]{0,2}(?:${kTriple}|${kQuotes})`),
  shell: family(kShell, String.raw`(?<![\w$\{])#[^\n]*`, `"(?:\\\\[\\s\\S]|[^"\\\\])*"?|'[^']*'?`, {variable: String.raw`\$\{[^}\n]*\}|\$\w+`}),
  sql: family(kSql, `${kDashes}|${String.raw`\/\*[\s\S]*?(?:\*\/|(?![\s\S]))`}`, kQuotes, {any_case: true}),
  lua: family(kLua, kDashes, kQuotes),
  ruby: family(kRuby, kHash, kQuotes, {variable: String.raw`[@$]\w+|:\w+`}),
  math: family(kMath, String.raw`[#%][^\n]*`, `"(?:\\\\[\\s\\S]|[^"\\\\\\n])*"?`),
  data: family(kData, String.raw`(?<![^\s])#[^\n]*|^;[^\n]*`, kQuotes, {variable: String.raw`^[ \t]*(?:- )?[\w.-]+(?=\s*[:=])|^\[[^\]\n]*\]`}),
  json: family(kData, kSlashes, kQuotes, {key: String.raw`"(?:\\[\s\S]|[^"\\\n])*"(?=\s*:)`}),
  markup: family(new Set(), String.raw`<!--[\s\S]*?(?:-->|(?![\s\S]))`, kQuotes, {variable: String.raw`<\/?[\w:-]+|\/?>|<[!?]\w+`, words_are_text: true}),
  style: family(new Set(), String.raw`\/\*[\s\S]*?(?:\*\/|(?![\s\S]))`, kQuotes, {variable: String.raw`[\w-]+(?=\s*:[^{\n]*[;\n])|@[\w-]+|#[0-9a-fA-F]{3,8}\b`}),
};

const kLanguages = {
  c: "c cc cpp c++ cxx h hpp cuda cu java cs csharp c# objc glsl hlsl wgsl opencl",
  script: "js javascript jsx mjs ts typescript tsx node", rust: "rust rs", go: "go golang",
  jvm: "kotlin kt scala swift groovy dart", python: "python py python3 starlark",
  shell: "sh bash zsh shell console fish powershell ps1 dockerfile makefile make", sql: "sql mysql postgresql postgres sqlite plsql",
  lua: "lua haskell hs", ruby: "ruby rb elixir perl pl", math: "julia jl r matlab octave",
  data: "yaml yml toml ini cfg conf properties env", json: "json jsonl json5 jsonc",
  markup: "html xml svg vue xhtml", style: "css scss less",
};
const kByName = new Map(Object.entries(kLanguages).flatMap(([name, all]) => all.split(" ").map((one) => [one, kFamilies[name]])));

const kCompiled = new Map();
function expression(language) {
  if (!kCompiled.has(language)) {
    const parts = [
      `(?<comment>${language.comment})`,
      `(?<key>${language.key ?? "(?!)"})`,
      `(?<string>${language.string})`,
      `(?<variable>${language.variable ?? "(?!)"})`,
      String.raw`(?<number>(?<![\w.])(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w*)`,
      String.raw`(?<word>[A-Za-z_]\w*)(?<call>(?=\())?`,
    ];
    kCompiled.set(language, new RegExp(parts.join("|"), "gm"));
  }
  return kCompiled.get(language);
}

function kind(groups, language) {
  if (groups.comment !== undefined) return "comment";
  if (groups.key !== undefined || groups.variable !== undefined) return "name";
  if (groups.string !== undefined) return "string";
  if (groups.number !== undefined) return "number";
  if (language.words_are_text) return null;
  const word = language.any_case ? groups.word.toLowerCase() : groups.word;
  if (language.keywords.has(word)) return "keyword";
  return groups.call !== undefined ? "call" : null;
}

// The code as nodes: spans of class code-comment, code-string, ... and plain text between them.
export function highlight(code, name) {
  const fragment = document.createDocumentFragment();
  if (name === "diff" || name === "patch") {
    for (const line of code.split(/(?<=\n)/)) {
      const span = document.createElement("span");
      span.textContent = line;
      if (line[0] === "+" || line[0] === "-" || line[0] === "@") {
        span.className = {"+": "code-added", "-": "code-removed", "@": "code-comment"}[line[0]];
      }
      fragment.append(span);
    }
    return fragment;
  }
  const language = kByName.get(name);
  if (!language || code.length > 200000) {
    fragment.append(code);
    return fragment;
  }
  let at = 0;
  for (const match of code.matchAll(expression(language))) {
    const name_of_kind = match[0] === "" ? null : kind(match.groups, language);
    if (!name_of_kind) continue;
    fragment.append(code.slice(at, match.index));
    const span = document.createElement("span");
    span.className = `code-${name_of_kind}`;
    span.textContent = match[0];
    fragment.append(span);
    at = match.index + match[0].length;
  }
  fragment.append(code.slice(at));
  return fragment;
}
